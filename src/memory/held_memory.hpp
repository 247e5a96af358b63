// HeldMemory: memory that ranks of one process use together. Each that uses it holds it, and the
// last to let it go gives it back: a kernel or stream of one rank may still store into what another
// has shared with it, long after that one has ended its communicator.
//
//   SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<HeldMemory> mine, HeldMemory::allocate(driver, bytes));
//   ... send mine->id() to the others ...
//   const std::shared_ptr<HeldMemory> of_another = HeldMemory::find(id);
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sennit {

class HeldMemory {
 public:
  // Zeroed memory of the current device.
  static Result<std::shared_ptr<HeldMemory>> allocate(CudaDriver& driver, std::size_t bytes);
  // What a rank of this process has allocated under this id; null: it has been given back.
  static std::shared_ptr<HeldMemory> find(std::uint64_t id);
  // Whole pages of host memory, pinned. A page may be pinned once in a process: those who pin the
  // same pages of one driver share them.
  static Result<std::shared_ptr<HeldMemory>> pin(CudaDriver& driver,
                                                 void* memory,
                                                 std::size_t bytes);
  ~HeldMemory();
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  // In this process.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  // What is pinned has one address for all devices.
  [[nodiscard]] std::byte* on_device() const { return on_device_; }

 private:
  HeldMemory(CudaDriver& driver, int device);

  CudaDriver& driver_;
  int device_;
  std::uint64_t id_;
  void* pinned_ = nullptr;  // as the host sees it; null: device memory
  std::byte* on_device_ = nullptr;
};

}  // namespace sennit
