// Fifos: the memory through which the kernels of a communicator's ranks exchange packets, wherever
// it lies (memory/fifo_plan.hpp), mapped into this rank's device.
//
// All ranks decide together, from what each of them reports: device memory where every GPU writes
// into every other's; where one does not, host memory for all. Calls that run step by step may do
// better then (memory/peer_staging.hpp).
#pragma once

#include "memory/device_bootstrap.hpp"
#include "memory/fifo_plan.hpp"
#include "memory/peer_memory.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sennit {

class Fifos {
 public:
  struct Options {
    int blocks = 128;    // of a call, at most; the same on all ranks
    int resident = 128;  // of these, the ones that each GPU has room for
    // What the groups of DeviceIdentity come from, where there are several.
    std::string groups_by{};
    // Zeroed, shared by all ranks, in whole pages; empty: may not be used.
    std::span<std::byte> host{};
  };

  // All together. kUnsupported where the paths that may be used do not join all ranks.
  static Result<std::unique_ptr<Fifos>> open(const DeviceBootstrap& bootstrap,
                                             const Options& options);
  // Once no kernel of this rank runs. Those of others may still store into its FIFO (PeerMemory).
  ~Fifos() = default;
  Fifos(const Fifos&) = delete;
  Fifos& operator=(const Fifos&) = delete;

  [[nodiscard]] const FifoPlan& plan() const { return plan_; }
  // As this rank's device sees them.
  [[nodiscard]] std::byte* of(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }
  // Why they do not lie in device memory; empty where they do.
  [[nodiscard]] const std::string& why_not_on_devices() const { return obstacle_; }

 private:
  Fifos(const DeviceBootstrap& bootstrap, const FifoPlan& plan);

  Status place_on_devices(const DeviceBootstrap& bootstrap);
  Status place_on_host(const DeviceBootstrap& bootstrap, std::span<std::byte> memory);
  Status pin(const DeviceBootstrap& bootstrap, std::span<std::byte> memory);

  CudaDriver& driver_;
  int rank_;
  FifoPlan plan_;
  std::string obstacle_;
  std::vector<std::byte*> bases_;  // by rank
  std::unique_ptr<PeerMemory> on_devices_;
  std::shared_ptr<HeldMemory> pinned_;
};

}  // namespace sennit
