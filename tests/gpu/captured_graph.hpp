// CapturedGraph, for tests: calls that were captured in a stream, to be replayed there.
#pragma once

#include <gtest/gtest.h>

#include <cuda_runtime.h>

#include <utility>

namespace sennit::tests {

inline void check_cuda(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

class CapturedGraph {
 public:
  // On the stream's device. Other threads may do what they like meanwhile.
  template <typename Calls>
  CapturedGraph(cudaStream_t stream, const Calls& calls) : stream_(stream) {
    begin(stream);
    calls();
    instantiate(end(stream));
  }
  // Of two streams that capture at once. None is instantiated while the other one captures.
  template <typename Calls>
  static std::pair<CapturedGraph, CapturedGraph> of_two(cudaStream_t first,
                                                        cudaStream_t second,
                                                        const Calls& calls) {
    begin(first);
    begin(second);
    calls();
    std::pair<CapturedGraph, CapturedGraph> graphs{CapturedGraph(first), CapturedGraph(second)};
    cudaGraph_t const of_second = end(second);
    graphs.first.instantiate(end(first));
    graphs.second.instantiate(of_second);
    return graphs;
  }
  CapturedGraph(CapturedGraph&& other) noexcept
      : stream_(other.stream_), graph_(std::exchange(other.graph_, nullptr)) {}
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  CapturedGraph& operator=(CapturedGraph&&) = delete;
  ~CapturedGraph() {
    if (graph_ != nullptr) {
      check_cuda(cudaGraphExecDestroy(graph_));
    }
  }

  void launch(int times = 1) const {
    for (int i = 0; i < times; ++i) {
      check_cuda(cudaGraphLaunch(graph_, stream_));
    }
  }

 private:
  explicit CapturedGraph(cudaStream_t stream) : stream_(stream) {}

  static void begin(cudaStream_t stream) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  static cudaGraph_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph));
    return graph;
  }
  void instantiate(cudaGraph_t graph) {
    check_cuda(cudaGraphInstantiate(&graph_, graph, 0));
    check_cuda(cudaGraphDestroy(graph));
  }

  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace sennit::tests
