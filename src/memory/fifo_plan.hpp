// FifoPlan: where the FIFOs of a communicator lie, and what follows from it: what may travel
// through them and how large they are. Data alone; memory/fifos.hpp makes them.
#pragma once

#include "memory/fifo.hpp"
#include "memory/message_put.hpp"
#include "memory/staging.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace sennit {

enum class FifoPlace : std::uint8_t {
  // Each in memory of its owner's GPU, mapped into the others: path nvlink.
  kDevice,
  // All in pinned host memory that the ranks share, for GPUs that do not reach each other: path
  // host. A packet is written over the sender's wire and read over the receivers'. Ll goes there
  // and plain packets do: 8-byte stores arrive whole over PCIe, the lines of Ll128 need not.
  kHost,
};

struct FifoPlan {
  FifoPlace place = FifoPlace::kDevice;
  int ranks = 1;
  sm::FifoShape shape;       // of the collectives
  sm::FifoShape pair_shape;  // of the sends from one rank to one other
  int put_blocks = 1;        // that a message may have which is stored in place
  sm::StagingShape staging;  // of calls that run step by step, from one rank to one other
  // Of those besides FIFOs in host memory, between GPUs that reach each other (peer_staging.hpp).
  sm::StagingShape peer_staging{};

  // `blocks`: of a call, at most. `resident`: those that the part of a GPU has room for that is a
  // rank's.
  static FifoPlan make(FifoPlace place,
                       int ranks,
                       int blocks,
                       int resident = std::numeric_limits<int>::max());

  // In the FIFO of a rank: what is sent between it and `peer`, in either direction.
  [[nodiscard]] std::size_t pair_offset(int peer) const;
  // In the FIFO of a rank: the words by which messages between it and `peer` are offered a buffer
  // (memory/message_put.hpp).
  [[nodiscard]] std::size_t message_offset(int peer) const;
  [[nodiscard]] sm::MessageWords message_words() const {
    return {static_cast<std::size_t>(put_blocks)};
  }
  // In the FIFO of a rank: the staging buffer that `writer` writes for it.
  [[nodiscard]] std::size_t staging_offset(int writer) const;
  // Of each rank, in whole pages.
  [[nodiscard]] std::size_t bytes() const;

 private:
  [[nodiscard]] std::size_t pair_bytes() const;
};

}  // namespace sennit
