// Work: one call of one rank, from the moment it is posted to its end.
#pragma once

#include "exec/cpu/job.hpp"
#include "world/operation.hpp"
#include "world/pair_counts.hpp"
#include "world/world.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sennit {

struct Work {
  Operation operation;
  std::uint64_t sequence = 0;  // 0: send or recv
  std::uint64_t message = 0;   // number of a send or recv that is in the log, among its pair's
  std::uint64_t order = 0;     // number among the sends and recvs of this rank, as they were posted
  bool is_matched = false;     // a recv, and its message is known to be for it
  CallWords words;
  PairCounts counts;  // where lengths vary
  Call call;
  const BoundProgram* program = nullptr;
  std::unique_ptr<std::byte[]> input_copy;  // for plans that are not proved in place
  std::unique_ptr<std::byte[]> parked;      // where a message lies that came before its recv
  std::optional<Job> job;                   // while it runs
  Clock::time_point posted;
  Clock::time_point deadline;  // max(): none
  Clock::time_point next_look;
  Clock::duration look_interval{};
  Clock::time_point next_warning;
  Clock::time_point broken_since;   // when a look first found that the job cannot go on
  Clock::time_point doubted_since;  // when it first seemed that it cannot end, and nothing moved
  bool has_moved = false;           // here, since the last look
  std::optional<Clock::time_point> moved_at;  // the last look that found so
  bool ended = false;
  Status status;

  [[nodiscard]] const PairCounts* pair_counts() const {
    return operation.varying ? &counts : nullptr;
  }
  [[nodiscard]] bool is_message() const { return operation.collective == Collective::kSendRecv; }
  [[nodiscard]] bool is_recv() const { return is_message() && !operation.is_send; }
  [[nodiscard]] bool takes_from(int peer, std::int32_t tag) const {
    return (operation.peer == peer || operation.peer == kAnyRank) && operation.tag == tag;
  }
  // Lets the job try; true when anything moved.
  bool advance() {
    const bool moved = job && !job->finished() && job->advance();
    has_moved = has_moved || moved;
    is_matched = is_matched || moved;
    return moved;
  }
};

// Whether the work cannot end without `peer`.
bool needs(const Work& work, int peer, const World& world);

}  // namespace sennit
