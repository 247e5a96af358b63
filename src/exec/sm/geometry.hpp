// Geometry: how many blocks and warps run a call, and in how many rounds.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "memory/fifo.hpp"

#include <cstdint>

namespace sennit::sm {

struct Geometry {
  int blocks = 1;
  int warps = 1;  // of a block
  int depth = 1;  // packets of a warp in a round
  int rounds = 1;
};

// For ranges of up to `longest_bytes`, on at most `block_limit` blocks. Equal on all ranks for
// equal arguments.
Geometry geometry_for(std::int64_t longest_bytes,
                      Packets packets,
                      const FifoShape& shape,
                      int block_limit);

template <int kRanks>
void apply(const Geometry& geometry, BasicDirectCall<kRanks>& call) {
  call.blocks = geometry.blocks;
  call.warps = geometry.warps;
  call.depth = geometry.depth;
  call.rounds = geometry.rounds;
}

}  // namespace sennit::sm
