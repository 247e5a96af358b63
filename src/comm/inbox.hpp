// Inbox: the messages to this rank that have come before their recvs, and what is known of those
// that come next. Which recv gets which message is decided by Calls.
#pragma once

#include "comm/work.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace sennit {

// A message that its sender has begun, and this rank has not taken.
struct NextMessage {
  std::uint64_t number = 0;  // among those of the pair
  CallWords words{};
};

// The next message of a rank of this node; nothing: it has not begun one. Holds where channels have
// at most MessageLog::kMostSlots slots.
std::optional<NextMessage> next_message(const World& world, int peer);

class Inbox {
 public:
  explicit Inbox(World& world)
      : world_(world), slots_(world.host_rank().rings.geometry().slots) {}

  // Whether a message may have a tag, or be from any rank; why not.
  [[nodiscard]] Status check(const Operation& operation) const;
  // Whether next_message() knows the messages of `peer`.
  [[nodiscard]] bool knows(int peer) const;

  [[nodiscard]] bool is_empty() const { return parked_.empty(); }
  // A message that has come whole, to no recv.
  void park(std::shared_ptr<Work> message) { parked_.push_back(std::move(message)); }
  // The first of those for `recv`; null: there is none.
  std::shared_ptr<Work> take(const Work& recv);
  // "; 2 messages of rank 1 with tags 3, 4 wait for their recvs", or nothing.
  [[nodiscard]] std::string describe_parked(int peer) const;

 private:
  const World& world_;
  const std::uint32_t slots_;
  std::deque<std::shared_ptr<Work>> parked_;  // in the order in which they came
};

}  // namespace sennit
