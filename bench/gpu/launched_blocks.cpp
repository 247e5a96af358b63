#include "launched_blocks.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace sennit_bench {
namespace {

void require(bool good, const char* what) {
  if (!good) {
    std::cerr << "compare: " << what << '\n';
    std::exit(3);
  }
}

// The driver's, since the runtime of this program does not know kernels that another library's
// runtime has registered.
template <typename Function>
Function driver_function(const char* symbol) {
  constexpr unsigned kVersion = 12000;  // of which the declarations in cuda.h are
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  require(cudaGetDriverEntryPointByVersion(
              symbol, &function, kVersion, cudaEnableDefault, &found) == cudaSuccess &&
              function != nullptr,
          symbol);
  return reinterpret_cast<Function>(function);
}

// 0 of what is no kernel.
int blocks_of(CUgraphNode node) {
  static const auto kTypeOf = driver_function<decltype(&cuGraphNodeGetType)>("cuGraphNodeGetType");
  static const auto kKernelOf =
      driver_function<decltype(&cuGraphKernelNodeGetParams)>("cuGraphKernelNodeGetParams");
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  require(kTypeOf(node, &type) == CUDA_SUCCESS, "the type of a node of a graph");
  if (type != CU_GRAPH_NODE_TYPE_KERNEL) {
    return 0;
  }
  CUDA_KERNEL_NODE_PARAMS kernel{};
  require(kKernelOf(node, &kernel) == CUDA_SUCCESS, "the kernel of a node of a graph");
  return static_cast<int>(kernel.gridDimX * kernel.gridDimY * kernel.gridDimZ);
}

}  // namespace

int sms_of(cudaGraph_t graph, int device) {
  std::size_t count = 0;
  require(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess, "the nodes of a graph");
  std::vector<cudaGraphNode_t> nodes(count);
  require(cudaGraphGetNodes(graph, nodes.data(), &count) == cudaSuccess, "the nodes of a graph");
  int most = 0;
  for (cudaGraphNode_t const node : nodes) {
    most = std::max(most, blocks_of(node));
  }
  int sms = 0;
  require(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) == cudaSuccess,
          "the SMs of a device");
  return std::min(most, sms);
}

}  // namespace sennit_bench
