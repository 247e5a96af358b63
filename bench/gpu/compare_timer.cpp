#include "compare_timer.hpp"

#include "compare_require.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace sennit_bench {
namespace {

// Buffers are mapped in the first calls, an input after an output, and never in a capture.
constexpr int kWarmUps = 5;
// A sample that takes so long has come to a stand; say which, and by whose call.
constexpr unsigned kSampleSeconds = 40;
std::string doing;

// The message is read after the call has failed.
void require_call(const Call& call, const std::string& what) {
  const bool is_good = call();
  require(is_good, what + ": " + sennit_last_error_message());
}

void give_up(int /*signal*/) {
  const std::string line = "compare: stuck in " + doing + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) >= 0) {
    std::_Exit(3);
  }
}

}  // namespace

SampleTimer::SampleTimer(const Options& options, Shared& shared, int rank, int device)
    : options_(options), shared_(shared), rank_(rank) {
  std::signal(SIGALRM, give_up);
  require(cudaSetDevice(device), "cudaSetDevice");
  for (cudaStream_t* const stream : {&stream_, &load_stream_}) {
    require(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "stream");
  }
  for (cudaEvent_t* const event : {&begin_, &end_, &load_end_}) {
    require(cudaEventCreate(event), "event");
  }
}

void SampleTimer::now_does(const std::string& what) {
  doing = what;
  alarm(kSampleSeconds);
}

Timed SampleTimer::prepare(const std::string& name, const Call& call, int calls, bool has_graphs) {
  Timed timed{{.name = name, .us = {}}, call};
  now_does(doing + ", first call of " + name);
  for (int i = 0; i < kWarmUps; ++i) {
    require_call(call, name + " failed");
    require(cudaStreamSynchronize(stream_), "warm-up");
    shared_.barrier(options_.ranks);
  }
  if (options_.mode == "graph" && has_graphs) {
    cudaGraph_t const graph = captured(name, call, calls);
    require(cudaGraphInstantiate(&timed.graph, graph, 0), "instantiate");
    require(cudaGraphDestroy(graph), "graph");
  }
  return timed;
}

cudaGraph_t SampleTimer::captured(const std::string& name, const Call& call, int calls) {
  cudaGraph_t graph = nullptr;
  require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < calls; ++i) {
    require_call(call, name + " failed in a capture");
  }
  require(cudaStreamEndCapture(stream_, &graph), "capture");
  return graph;
}

void SampleTimer::destroy(const std::vector<Timed>& all) {
  for (const Timed& timed : all) {
    if (timed.graph != nullptr) {
      require(cudaGraphExecDestroy(timed.graph), "graph");
    }
  }
}

void SampleTimer::start(const Timed& timed, int calls) {
  if (timed.graph != nullptr) {
    require(cudaGraphLaunch(timed.graph, stream_), "graph launch");
    return;
  }
  for (int i = 0; i < calls; ++i) {
    require(timed.call(), timed.name + " failed");
  }
}

double SampleTimer::time(const Timed& timed, int calls) {
  shared_.barrier(options_.ranks);
  alarm(kSampleSeconds);
  require(cudaEventRecord(begin_, stream_), "event");
  start(timed, calls);
  require(cudaEventRecord(end_, stream_), "event");
  require(cudaStreamSynchronize(stream_), timed.name.c_str());
  look_for_errors();
  return slowest_us(elapsed_us(end_) / calls);
}

// Ranks begin each call together, and its end is that of the slowest.
void SampleTimer::time_calls(Timed& timed, int calls, bool is_warm_up) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  double whole_us = 0;
  double host_us = 0;
  for (int i = 0; i < calls; ++i) {
    shared_.barrier(options_.ranks);
    alarm(kSampleSeconds);
    const Clock::time_point begin = Clock::now();
    start(timed, 1);
    const Clock::time_point made = Clock::now();
    require(cudaStreamSynchronize(stream_), timed.name.c_str());
    const Clock::time_point end = Clock::now();
    host_us += slowest_us(us(made - begin));
    shared_.barrier(options_.ranks);  // all have read it
    whole_us += slowest_us(us(end - begin));
  }
  look_for_errors();
  if (!is_warm_up) {
    timed.us.push_back(whole_us / calls);
    timed.host_us.push_back(host_us / calls);
  }
}

double SampleTimer::time_both(
    const Timed& timed, int calls, const Timed& load, const Call& unit, int units) {
  shared_.barrier(options_.ranks);
  alarm(kSampleSeconds);
  require(cudaEventRecord(begin_, stream_), "event");
  require(cudaStreamWaitEvent(load_stream_, begin_), "event");
  if (timed.graph != nullptr && load.graph != nullptr) {
    require(cudaGraphLaunch(timed.graph, stream_), "graph launch");
    require(cudaGraphLaunch(load.graph, load_stream_), "graph launch");
  } else {
    for (int call = 0, enqueued = 0; call < calls; ++call) {
      require(timed.call(), timed.name + " failed");
      for (; enqueued * calls < units * (call + 1); ++enqueued) {
        require(unit(), "the load failed");
      }
    }
  }
  require(cudaEventRecord(end_, stream_), "event");
  require(cudaEventRecord(load_end_, load_stream_), "event");
  require(cudaStreamSynchronize(stream_), timed.name.c_str());
  require(cudaStreamSynchronize(load_stream_), "the load");
  look_for_errors();
  return slowest_us(std::max(elapsed_us(end_), elapsed_us(load_end_)));
}

double SampleTimer::elapsed_us(cudaEvent_t end) const {
  float ms = 0;
  require(cudaEventElapsedTime(&ms, begin_, end), "event");
  return static_cast<double>(ms) * 1000;
}

// Of all ranks.
double SampleTimer::slowest_us(double mine_us) {
  shared_.us[rank_] = mine_us;
  shared_.barrier(options_.ranks);
  return *std::max_element(shared_.us, shared_.us + options_.ranks);
}

void SampleTimer::look_for_errors() {
  sennit_status_t state = SENNIT_OK;
  require(sennit_comm_async_error(comm_, &state), "asking for errors");
  if (state != SENNIT_OK) {
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    require(sennit_comm_last_error(comm_, &error), "asking for the error");
    require(false, doing + ": " + error.message);
  }
}

}  // namespace sennit_bench
