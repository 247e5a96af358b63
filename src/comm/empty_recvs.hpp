// EmptyRecvs: recvs of no elements wait for nothing, so they end before their sends are seen. That
// a send has elements all the same shows later.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <map>
#include <optional>

namespace sennit {

class EmptyRecvs {
 public:
  // One that has ended: message `number` of what `peer` sends.
  void add(int peer, std::uint64_t number) { ended_[peer] = number; }
  // Whether the send of each has been seen.
  [[nodiscard]] bool is_empty() const { return ended_.empty(); }
  // The verdict when elements have been sent to one of them.
  std::optional<Verdict> find_unexpected(const World& world);

 private:
  std::map<int, std::uint64_t> ended_;  // the last, by peer
};

}  // namespace sennit
