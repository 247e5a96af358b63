// What computes while collectives run: matrix products by cuBLAS, or
// copies through the memory of the GPU by a kernel on all SMs.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

namespace sennit_bench {

class Load {
 public:
  virtual ~Load() = default;
  // Enqueues one unit of it: a product, or a copy. Whether that went well.
  virtual bool run(cudaStream_t stream) = 0;
};

// `kind`: matmul or copy. `cublas` is the path of cuBLAS's library; empty: where the loader finds
// it. Ends the program with a message where there is none. cuBLAS makes products for `sms` SMs; 0:
// for all. For the current device.
std::unique_ptr<Load> load_of(const std::string& kind, const std::string& cublas, int sms);

}  // namespace sennit_bench
