// What Sennit's GPU ranks are compared with: calls on the same buffers, in the same processes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace sennit_bench {

// Whom a rank sends to and receives from in one send_recv, and how many messages each.
struct Exchange {
  std::vector<int> to;
  std::vector<int> from;
  int window = 1;
  int in_group = 1;  // of the window; the others follow in groups of their own
};

struct CallArgs {
  const float* send = nullptr;
  float* recv = nullptr;
  std::size_t count = 0;               // as the collective counts
  const Exchange* exchange = nullptr;  // of send_recv
};

// What rank 0 makes and all ranks join by.
struct RivalId {
  char bytes[128];
};

// What it cannot do ends the program with a message.
class Rival {
 public:
  virtual ~Rival() = default;

  [[nodiscard]] virtual const char* name() const = 0;
  // Whether a stream can capture its calls.
  [[nodiscard]] virtual bool has_graphs() const = 0;
  virtual void make_id(RivalId* id) = 0;
  virtual void join(int ranks, int rank, const RivalId& id, cudaStream_t stream) = 0;
  // GPU memory as it serves the rival best; called by all ranks.
  virtual void* allocate(std::size_t bytes) = 0;
  // Enqueues float32 sums, or moves; a rooted one is from or to rank 0. Whether that went well.
  virtual bool call(std::string_view collective, const CallArgs& args) = 0;
};

}  // namespace sennit_bench
