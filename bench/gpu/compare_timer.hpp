// SampleTimer: prepares what sennit-compare times, and times it: batches of calls that all ranks
// begin together, in a graph or on a stream, alone or with a load.
#pragma once

#include "compare_options.hpp"
#include "compare_rows.hpp"
#include "compare_shared.hpp"

#include "sennit/sennit.h"

#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

namespace sennit_bench {

// Enqueues one call; whether that went well.
using Call = std::function<bool()>;

struct Timed : Times {
  Call call;
  cudaGraphExec_t graph = nullptr;  // of a sample; null: its calls are made one by one
};

// One a process. All public functions but the first four and destroy() are for all ranks together.
class SampleTimer {
 public:
  // Makes `device` the current one. The others outlive the result.
  SampleTimer(const Options& options, Shared& shared, int rank, int device);

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] cudaStream_t load_stream() const { return load_stream_; }
  // Whose errors end the program.
  void watch(sennit_comm_t comm) { comm_ = comm; }
  // What is said where the program comes to a stand, from now on.
  static void now_does(const std::string& what);

  // `call` enqueues on stream(), here as in the following.
  Timed prepare(const std::string& name, const Call& call, int calls, bool has_graphs = true);
  cudaGraph_t captured(const std::string& name, const Call& call, int calls);
  static void destroy(const std::vector<Timed>& all);

  // Enqueues a sample: its graph, or so many calls.
  void start(const Timed& timed, int calls);
  // us of a call, of the slowest rank.
  double time(const Timed& timed, int calls);
  // Adds those of a call that the host waits for, and of its part, of the slowest rank.
  void time_calls(Timed& timed, int calls, bool is_warm_up);
  // us until a sample and a load of so many units have ended, which begin together on streams of
  // their own: as graphs, or enqueued in turn. `unit` enqueues one on load_stream().
  double time_both(const Timed& timed, int calls, const Timed& load, const Call& unit, int units);

 private:
  [[nodiscard]] double elapsed_us(cudaEvent_t end) const;
  double slowest_us(double mine_us);
  void look_for_errors();

  const Options& options_;
  Shared& shared_;
  int rank_;
  sennit_comm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaStream_t load_stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaEvent_t load_end_ = nullptr;
};

}  // namespace sennit_bench
