// PeerMemory: device memory of each rank, mapped into the devices of others.
#pragma once

#include "memory/device_bootstrap.hpp"
#include "memory/held_memory.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace sennit {

class PeerMemory {
 public:
  explicit PeerMemory(const DeviceBootstrap& bootstrap);
  // Once nobody uses what is mapped here. Others may still have this rank's memory mapped, and
  // store into it: whoever has seen that a call has failed leaves before those who have not.
  // Threads of this process hold it as long. Another process maps it once more by CUDA IPC: such a
  // mapping was seen to hold the memory of an owner that had been killed in the middle of stores
  // (H200; they ended without an error). CUDA's documentation does not promise that of an owner
  // that frees it, but the owner cannot wait for peers that may never end.
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Of this rank, zeroed.
  Status allocate(std::size_t bytes);
  // All together, once each has allocated: maps the memory of the ranks that are `wanted`. By rank:
  // it was wanted and cannot be mapped here.
  Result<std::vector<char>> map(const DeviceBootstrap& bootstrap, const std::vector<char>& wanted);
  // Gives back what is mapped; the own memory stays.
  void close();

  // By rank, as this rank's device sees it; null: not mapped.
  [[nodiscard]] const std::vector<std::byte*>& bases() const { return bases_; }

 private:
  struct Offer;
  Result<std::byte*> map(const DeviceBootstrap& bootstrap, int rank, const Offer& offer);

  CudaDriver& driver_;
  int device_;
  int rank_;
  std::vector<std::byte*> bases_;
  std::shared_ptr<HeldMemory> own_;
  std::vector<std::shared_ptr<HeldMemory>> shared_;  // of threads of this process
  std::vector<void*> imported_;
};

// By rank: this device and that of the rank are said not to reach each other. Of hidden devices
// nothing is said: whether their memory can be mapped will show.
Result<std::vector<char>> find_unreached(const DeviceBootstrap& bootstrap);

}  // namespace sennit
