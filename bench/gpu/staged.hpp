// What a program does without a library that knows GPUs: it copies its input to host memory, calls
// ranks that work there, and copies the output back. The ranks are Sennit's own.
#pragma once

#include "rival.hpp"

#include "sennit/sennit.h"

namespace sennit_bench {

class Staged final : public Rival {
 public:
  Staged() = default;
  ~Staged() override;
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  [[nodiscard]] const char* name() const override { return "staged"; }
  [[nodiscard]] bool has_graphs() const override { return false; }  // the host takes part
  void make_id(RivalId* id) override;
  void join(int ranks, int rank, const RivalId& id, cudaStream_t stream) override;
  // Of cudaMalloc; and as much pinned host memory for each buffer, from the first call on.
  void* allocate(std::size_t bytes) override;
  bool call(std::string_view collective, const CallArgs& args) override;

 private:
  [[nodiscard]] std::size_t sent_elements(std::string_view collective, const CallArgs& args) const;
  [[nodiscard]] std::size_t received_elements(std::string_view collective,
                                              const CallArgs& args) const;

  int ranks_ = 0;
  int rank_ = 0;
  cudaStream_t stream_ = nullptr;
  sennit_comm_t comm_ = nullptr;
  std::size_t bytes_ = 0;
  float* send_ = nullptr;
  float* recv_ = nullptr;
};

}  // namespace sennit_bench
