// CallWatch: finds out, for a rank whose calls wait, that one of them can never end, or not in
// time. It compares the calls of all ranks, asks whether their processes live, keeps the deadlines,
// and warns. What becomes of a call is up to Calls.
//
//   watch.look_around(now);
//   if (watch.is_due(work)) {
//     if (const auto verdict = watch.look_at(work, broken)) ...   // why the work has failed
//   }
#pragma once

#include "comm/comm_config.hpp"
#include "comm/inbox.hpp"
#include "comm/moves.hpp"
#include "comm/own_wait.hpp"
#include "comm/work_queues.hpp"
#include "world/deadlock.hpp"
#include "world/watch.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <optional>

namespace sennit {

class CallWatch {
 public:
  // All of them outlive the watch.
  CallWatch(World& world, const CommConfig& config, const WorkQueues& queues, const Inbox& inbox)
      : world_(world), config_(config), queues_(queues), inbox_(inbox) {}

  // When look_around() has to be called next, at the latest.
  [[nodiscard]] Clock::time_point next_look() const;
  // Begins a look at all works: takes in what other ranks report, and reports this rank's wait.
  void look_around(Clock::time_point now);
  // Whether the work is to be looked at now.
  [[nodiscard]] bool is_due(const Work& work) const {
    return is_alarmed_ || now_ >= work.next_look;
  }
  // Why a work that has begun has failed, if it has. `broken`: what keeps it from going on, such as
  // a peer's memory that cannot be read.
  std::optional<Verdict> look_at(Work& work, const Status& broken);

  // The wait for a work of this communicator.
  [[nodiscard]] OwnWait& own_wait() { return wait_; }
  // Data of a collective has moved on this rank.
  void add_move() { moves_.add(); }

 private:
  [[nodiscard]] CallView view_of(const Work& work) const;
  [[nodiscard]] bool has_next_message(const Work& recv) const;
  bool may_end_well(Work& work, int peer) const;
  bool is_doubted_for_less_than(Clock::duration time, Work& work) const;
  [[nodiscard]] LongWait long_wait() const;

  World& world_;
  const CommConfig& config_;
  const WorkQueues& queues_;
  const Inbox& inbox_;
  DeadlockWatch deadlocks_{world_};
  OwnWait wait_{world_.my_line()};
  Moves moves_;
  std::uint32_t alarms_seen_ = 0;
  Clock::time_point next_process_look_;
  // Of the look that has begun last.
  Clock::time_point now_;
  bool is_alarmed_ = false;
  Depth depth_ = Depth::kLines;
};

}  // namespace sennit
