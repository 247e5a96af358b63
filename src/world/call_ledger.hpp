// CallLedger: this rank reports what it has called, for the watchers of other ranks to compare with
// their own calls (world/call_comparison.hpp, world/message_comparison.hpp). A call is reported
// before anything waits for it.
#pragma once

#include "world/world.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit {

class CallLedger {
 public:
  // `world` outlives the result.
  explicit CallLedger(World& world) : world_(world) {}

  // A collective.
  void report(const CallWords& words) {
    world_.device_line(world_.rank()).collectives.enter(++collectives_, words);
  }
  // One end of a message between this rank and `peer`.
  void report_message(int peer, bool is_send, const CallWords& words) {
    if (world_.size() > stream::kMaxRanks) {
      return;  // there are no lines for so many
    }
    MessageLine& line = world_.device_line(world_.rank()).messages[static_cast<std::size_t>(peer)];
    auto& log = is_send ? line.sent : line.received;
    log.enter(log.entered.load(std::memory_order_relaxed) + 1, words);
  }

 private:
  World& world_;
  std::uint64_t collectives_ = 0;
};

}  // namespace sennit
