// Sweep: proves every algorithm of the table for many numbers of ranks, and compares what the table
// claims of it with what the proof finds.
#pragma once

#include "schedule/plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct SweepRequest {
  std::optional<Collective> collective{};  // all of them when absent
  std::optional<std::string> algorithm{};  // all of them when absent
  int ranks_first = 1;
  int ranks_last = 64;  // inclusive
  // kDirectGet and kDirectPut bind every channel that is sent out of inputs and outputs alone, if
  // the plan can be proved so, and none otherwise.
  Protocol protocol = Protocol::kSlots;
  int slots = 2;
  // Binds every channel so, if the plan can be proved with it, and none otherwise.
  std::optional<Codec> codec{};
};

struct SweepFailure {
  Collective collective = Collective::kBarrier;
  std::string_view algorithm;
  int ranks = 0;
  int root = 0;
  std::string why;
};

// What became of the shapes of one algorithm.
struct SweepRow {
  Collective collective = Collective::kBarrier;
  std::string_view algorithm;
  std::int64_t instances = 0;
  std::int64_t refused = 0;
  std::int64_t direct = 0;
  std::int64_t failed = 0;
  int ranks_first = 0;  // of the instances
  int ranks_last = 0;
};

struct SweepResult {
  std::int64_t instances = 0;  // shapes that were built and looked at
  std::int64_t refused = 0;    // shapes that their algorithm refuses
  std::int64_t direct = 0;     // instances proved with the direct protocol asked for
  std::int64_t coded = 0;      // instances proved with the codec asked for
  std::int64_t failed = 0;
  std::vector<SweepFailure> failures;
  std::vector<SweepRow> rows;  // one an algorithm, in the order of the table
};

// Calls `progress` with the number of instances done and to do, from one thread at a time.
using SweepProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// Every row, every number of ranks, and every shape of them that algo::shapes_to_try lists. Works
// on as many threads as the machine has.
SweepResult sweep(const SweepRequest& request, const SweepProgress& progress = {});

}  // namespace sennit
