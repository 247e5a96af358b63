// NCCL, opened at run time: the few functions of it that the comparison calls.
#pragma once

#include "rival.hpp"

#include <memory>
#include <string>

namespace sennit_bench {

class Nccl final : public Rival {
 public:
  // Exits with a message when the library cannot be used.
  explicit Nccl(const std::string& path);
  ~Nccl() override;
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  [[nodiscard]] const char* name() const override { return "nccl"; }
  [[nodiscard]] bool has_graphs() const override { return true; }
  void make_id(RivalId* id) override;
  void join(int ranks, int rank, const RivalId& id, cudaStream_t stream) override;
  // Of ncclMemAlloc, registered as a symmetric window.
  void* allocate(std::size_t bytes) override;
  bool call(std::string_view collective, const CallArgs& args) override;

 private:
  struct Functions;

  bool messages(const CallArgs& args);

  std::unique_ptr<Functions> functions_;
  void* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace sennit_bench
