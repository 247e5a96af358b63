// Deadlocks: host ranks that wait for each other's calls in a circle, such as one in a send to a
// rank that is in a collective. Each rank says in its line what it waits in when it waits long and
// can make no other call before that has ended.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sennit {

// What a rank waits in until it ends, and for whom.
struct LongWait {
  enum class Call : std::uint8_t { kNone, kCollective, kSend, kRecv };

  Call call = Call::kNone;
  int peer = -1;
  std::uint64_t number = 0;  // of the collective, or of the message between the two

  // As it stands in StatusLine::long_wait; zero is kNone.
  [[nodiscard]] std::uint64_t word() const;
  static LongWait of(std::uint64_t word);
};

// The verdict when this rank waits in such a circle as `rank`'s long wait leads into; names the
// calls of all ranks in it.
std::optional<Verdict> find_circle(const World& world, int rank);

// Finds a circle that this rank is in.
class DeadlockWatch {
 public:
  explicit DeadlockWatch(const World& world) : world_(world) {}

  // A call that the next rank has posted may still have to begin there. So the same circle must be
  // found twice, and the other ranks must have tried to move in between.
  std::optional<Verdict> find();

 private:
  struct Seen {
    int rank = -1;
    std::uint64_t wait = 0;
    std::uint32_t beats = 0;
  };

  [[nodiscard]] std::vector<Seen> look() const;

  const World& world_;
  std::vector<Seen> seen_;
};

}  // namespace sennit
