// DeviceMemory: the arenas of all ranks of a communicator, mapped into one device, and this rank's
// own words beside them. Made and taken down by all ranks together.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/sm/arena.hpp"
#include "exec/sm/put_call.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sennit {

// Gives `bytes` bytes of every rank to every rank, in the order of ranks: an all_gather on the
// host.
using Exchange = std::function<Status(const void* mine, void* all, std::size_t bytes)>;

struct DeviceIdentity {
  int device = 0;
  int rank = 0;
  int ranks = 1;
  int blocks = 128;        // of a call, at most; the same on all ranks
  bool maps_peers = true;  // false: arenas of other ranks are not there, and no kernel may run
};

class DeviceMemory {
 public:
  // kUnsupported when two processes share a device: a block that waits for one of another process
  // would keep that one from running.
  static Result<std::unique_ptr<DeviceMemory>> create(CudaDriver& driver,
                                                      const DeviceIdentity& identity,
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

  // Of the collectives: the arena of each rank.
  [[nodiscard]] const sm::ArenaShape& shape() const { return shape_; }
  [[nodiscard]] std::byte* arena(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] sm::BlockState* states() const { return states_; }

  // Of calls whose ranks reach into each other's buffers (exec/sm/put_call.hpp).
  [[nodiscard]] std::uint64_t* put_words(int rank) const {
    return reinterpret_cast<std::uint64_t*>(arena(rank) + pair_offset(identity_.ranks));
  }
  [[nodiscard]] std::uint64_t* put_calls() const {
    return put_words(identity_.rank) + sm::put_words(identity_.ranks, shape_.most_blocks());
  }

  // Of sends from rank `from` to rank `to`, one of which this rank is: the arenas of both.
  struct Pair {
    std::byte* sender = nullptr;
    std::byte* receiver = nullptr;
    sm::BlockState* states = nullptr;
  };
  [[nodiscard]] const sm::ArenaShape& pair_shape() const { return pair_shape_; }
  [[nodiscard]] Pair pair(int from, int to) const;

  [[nodiscard]] sm::Board& board() const { return *static_cast<sm::Board*>(board_.host); }
  [[nodiscard]] sm::Board* board_on_device() const {
    return static_cast<sm::Board*>(board_.device);
  }

  // Blocks that a kernel of this rank may have, so that those of all ranks on the device run at
  // once.
  [[nodiscard]] int block_limit() const { return block_limit_; }
  // Device memory that this rank has allocated.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Introduction;

  DeviceMemory(CudaDriver& driver, const DeviceIdentity& identity);
  Status allocate();
  Status map(const std::vector<Introduction>& all);
  [[nodiscard]] std::size_t pair_offset(int peer) const;
  [[nodiscard]] std::size_t pair_bytes() const;

  CudaDriver& driver_;
  DeviceIdentity identity_;
  sm::ArenaShape shape_;
  sm::ArenaShape pair_shape_;
  std::vector<std::byte*> bases_;         // by rank
  std::vector<std::uint64_t> processes_;  // by rank
  std::vector<void*> imported_;
  sm::BlockState* states_ = nullptr;
  MappedMemory board_;
  std::size_t bytes_ = 0;
  int block_limit_ = 1;
};

}  // namespace sennit
