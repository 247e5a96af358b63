// Work: one call of one rank, from the moment it is posted to its end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "comm/world.hpp"
#include "exec/cpu/job.hpp"
#include "select/select.hpp"

namespace sennit {

// A call as the user makes it.
struct Operation {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  std::int64_t count = 0;
  Dtype dtype = Dtype::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  int peer = -1;           // of a send or recv
  bool is_send = false;
  Wishes wishes;
  double deadline_s = 0;   // 0: the communicator's; negative: none
};

struct Work {
  Operation operation;
  std::uint64_t sequence = 0;  // 0: send or recv
  CallWords words;
  Call call;
  const BoundProgram* program = nullptr;
  std::unique_ptr<std::byte[]> input_copy;  // for plans that are not proved in place
  std::optional<Job> job;                   // while it runs
  Clock::time_point posted;
  Clock::time_point deadline;               // max(): none
  Clock::time_point next_look;
  Clock::duration look_interval{};
  Clock::time_point next_warning;
  Clock::time_point broken_since;           // when a look first found that the job cannot go on
  bool ended = false;
  Status status;
};

}  // namespace sennit
