// DeviceMemory: the FIFOs of all ranks of a communicator, as one device sees them, and this rank's
// own words next to them. Made and taken down by all ranks together.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "memory/device_bootstrap.hpp"
#include "memory/fifo.hpp"
#include "memory/fifos.hpp"
#include "memory/peer_staging.hpp"
#include "memory/staging.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sennit {

class DeviceMemory {
 public:
  // What Fifos::open says.
  static Result<std::unique_ptr<DeviceMemory>> create(CudaDriver& driver,
                                                      const DeviceIdentity& identity,
                                                      const Fifos::Options& options,
                                                      const Exchange& exchange);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] int device() const { return identity_.device; }
  [[nodiscard]] int rank() const { return identity_.rank; }
  [[nodiscard]] int ranks() const { return identity_.ranks; }
  // A thread of this process, whose addresses are ours.
  [[nodiscard]] bool is_of_this_process(int rank) const {
    return processes_[static_cast<std::size_t>(rank)] ==
           processes_[static_cast<std::size_t>(identity_.rank)];
  }
  // No two ranks are threads of one process; the same answer on all ranks.
  [[nodiscard]] bool has_a_process_each() const;
  [[nodiscard]] const GpusOfRanks& gpus() const { return gpus_; }

  // Of the collectives: the FIFO of each rank.
  [[nodiscard]] const Fifos& fifos() const { return *fifos_; }
  [[nodiscard]] const sm::FifoShape& shape() const { return fifos_->plan().shape; }
  [[nodiscard]] std::byte* fifo(int rank) const { return fifos_->of(rank); }
  // They lie in host memory, as no GPU reaches another.
  [[nodiscard]] bool is_on_host() const { return fifos_->plan().place == FifoPlace::kHost; }
  [[nodiscard]] sm::BlockState* states() const { return states_; }

  // Of calls that run step by step (exec/sm/step_call.hpp): the staging buffer that `writer` writes
  // for `reader`, one of which this rank is, and its shape; and what blocks have besides.
  struct Staging {
    std::byte* memory = nullptr;
    sm::StagingShape shape;
  };
  [[nodiscard]] Staging staging(int writer, int reader) const;
  // Of a block, for the slots of one that lies there.
  [[nodiscard]] std::size_t slot_bytes(sm::StagingPlace place) const;
  [[nodiscard]] int step_blocks() const { return fifos_->plan().staging.blocks; }
  // Ranks between which staging buffers lie in device memory although FIFOs do not; empty: there is
  // no such difference.
  [[nodiscard]] std::vector<std::vector<int>> peer_groups() const {
    return peer_staging_ == nullptr ? std::vector<std::vector<int>>() : peer_staging_->groups();
  }
  static constexpr std::size_t kStepScratchBytes = std::size_t{256} << 10;  // of a block
  [[nodiscard]] std::byte* step_scratch() const { return step_scratch_; }
  [[nodiscard]] std::uint64_t* step_calls() const {
    return reinterpret_cast<std::uint64_t*>(step_scratch_ + step_scratch_bytes());
  }

  // Of what this rank sends to `peer`, or receives from there: the FIFOs of both. A rank that
  // sends to itself has two ends.
  struct Pair {
    std::byte* sender = nullptr;
    std::byte* receiver = nullptr;
    sm::BlockState* states = nullptr;
    sm::MessagePut put;  // its words
  };
  [[nodiscard]] const sm::FifoShape& pair_shape() const { return fifos_->plan().pair_shape; }
  [[nodiscard]] const Pair& pair(int peer, bool sends) const {
    return pairs_[2 * static_cast<std::size_t>(peer) + (sends ? 1 : 0)];
  }

  [[nodiscard]] sm::ErrorWord& error_word() const {
    return *static_cast<sm::ErrorWord*>(error_word_.host);
  }
  [[nodiscard]] sm::ErrorWord* error_word_on_device() const {
    return static_cast<sm::ErrorWord*>(error_word_.device);
  }

  // Blocks that a kernel of this rank may have, so that those of all ranks on the device run at
  // once.
  [[nodiscard]] int block_limit() const { return block_limit_; }

 private:
  DeviceMemory(CudaDriver& driver, const DeviceIdentity& identity);
  // Besides the FIFOs.
  Status allocate();
  Status limit_blocks(const DeviceBootstrap& bootstrap);
  [[nodiscard]] Pair make_pair(int peer, bool sends) const;
  [[nodiscard]] sm::MessagePut message_put(int peer, bool sends) const;
  [[nodiscard]] std::size_t step_scratch_bytes() const {
    return static_cast<std::size_t>(step_blocks()) * kStepScratchBytes;
  }

  CudaDriver& driver_;
  DeviceIdentity identity_;
  std::vector<std::uint64_t> processes_;  // by rank
  GpusOfRanks gpus_;
  std::unique_ptr<Fifos> fifos_;
  std::unique_ptr<PeerStaging> peer_staging_;  // null: all staging buffers lie in the FIFOs
  std::vector<Pair> pairs_;                    // by peer, what is received first
  sm::BlockState* states_ = nullptr;
  std::byte* step_scratch_ = nullptr;
  MappedMemory error_word_;
  int block_limit_ = 1;
};

}  // namespace sennit
