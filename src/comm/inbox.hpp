// Inbox: which recv of this rank gets which message.
//
// A message that other recvs are waited for is received into own memory ("parked") until its recv
// comes. Decision 55 (docs/decisions) says how a message is known before it comes.
#pragma once

#include "comm/work_queues.hpp"
#include "world/watch.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

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
  // How a recv gets its program, once its message is known.
  using Prepare = std::function<Result<std::shared_ptr<Work>>(const Operation&)>;

  // Both outlive the inbox.
  Inbox(World& world, WorkQueues& queues)
      : world_(world), queues_(queues), slots_(world.host_rank().rings.geometry().slots) {}
  void use(Prepare prepare) { prepare_ = std::move(prepare); }

  // Whether a message may have a tag, or be from any rank; why not.
  [[nodiscard]] Status check(const Operation& operation) const;
  // Whether next_message() knows the messages of `peer`.
  [[nodiscard]] bool knows(int peer) const;

  // Finds the recv for the next message of `peer`, once that has begun it: the first that was
  // posted, or a new one into own memory, at the front of its queue now. Null: there is no news, or
  // the message has to wait for its recv. Where the recv cannot begin, its status says why.
  std::shared_ptr<Work> match(int peer);
  // The same for the next rank in turn that has a message, where a recv from any rank waits.
  std::shared_ptr<Work> match_any();

  [[nodiscard]] bool is_empty() const { return parked_.empty(); }
  // The first parked message for `recv`, taken out; null: there is none.
  std::shared_ptr<Work> take(const Work& recv);
  // The recv for a message that has come into own memory, taken out of its queue; null: there is
  // none, and the message is parked.
  std::shared_ptr<Work> take_recv_for(const std::shared_ptr<Work>& message);
  // To the memory of its recv; the verdict where that expects another one.
  [[nodiscard]] std::optional<Verdict> copy(const Work& message, const Work& recv) const;
  // "; 2 messages from rank 1 with tags 3, 4 wait for a recv", or nothing.
  [[nodiscard]] std::string describe_parked(int peer) const;

 private:
  std::shared_ptr<Work> find_recv(int peer, const CallWords& words);
  std::shared_ptr<Work> new_recv(int peer, const CallWords& words, const Work& waiting);
  Status bind(Work& recv, int peer);

  const World& world_;
  WorkQueues& queues_;
  const std::uint32_t slots_;
  Prepare prepare_;
  int turn_ = 0;                              // the rank that is asked first for any recv
  std::deque<std::shared_ptr<Work>> parked_;  // in the order in which they came
};

}  // namespace sennit
