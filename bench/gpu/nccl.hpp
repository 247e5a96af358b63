// The few functions of NCCL that the comparison calls, opened at run time.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sennit_bench {

struct NcclUniqueId {
  char bytes[128];
};

// Whom a rank sends to and receives from in one send_recv, and how many messages each.
struct Exchange {
  std::vector<int> to;
  std::vector<int> from;
  int window = 1;
  int in_group = 1;  // of the window; the others follow in groups of their own
};

struct NcclArgs {
  const float* send = nullptr;
  float* recv = nullptr;
  std::size_t count = 0;               // as the collective counts
  const Exchange* exchange = nullptr;  // of send_recv
};

class Nccl {
 public:
  // Exits with a message when the library cannot be used.
  explicit Nccl(const std::string& path);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  void unique_id(NcclUniqueId* id);
  void join(int ranks, int rank, const NcclUniqueId& id, cudaStream_t stream);
  // Memory of ncclMemAlloc, registered as a symmetric window; called by all ranks.
  void* allocate_window(std::size_t bytes);
  // Enqueues float32 sums, or moves.
  bool call(std::string_view collective, const NcclArgs& args);

 private:
  struct Functions;

  bool messages(const NcclArgs& args);

  std::unique_ptr<Functions> functions_;
  void* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace sennit_bench
