// ReadingCall: a reduction that each rank does to one part of all inputs, which it reads where they
// lie and whose result it stores where it belongs, as the kernel's parameter.
//
// Ranks agree in the words of messages (memory/message_put.hpp): for each thread block a rank
// writes to every other one where its input and its output are, or null if some rank does not reach
// them. All ranks see the same, so all read, or all take packets. `done` of a block says that it
// neither reads nor writes any more. Packets want more thread blocks than reads: a rank that knows
// that its buffers are not reached launches all of them. One that reads in vain has each of its few
// run several parts of the packets. docs/decisions/0054-few-sm-reductions.md says why.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "memory/message_put.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::sm {

inline constexpr int kMostReadingBlocks = 32;
// To each thread block: where the input is, and where the output is.
inline constexpr int kAddressesOfBlock = 2;

struct ReadingCall {
  struct Peer {
    MessagePut as_sender;        // its addresses come here, and this rank's `done` goes there
    MessagePut as_receiver;      // it gets this rank's addresses, and its `done` comes here
    std::byte* input = nullptr;  // of this rank, as that one sees it
    std::byte* output = nullptr;
  };

  DirectCall direct;         // ranges and operator; and the call in packets, if it must be
  bool is_reached = false;   // this rank's buffers; else null
  std::int32_t readers = 1;  // thread blocks that agree with others, and may read
  std::array<Peer, kMaxRanks> peers{};

  [[nodiscard]] constexpr int launched_blocks() const {
    return is_reached || readers > direct.blocks ? readers : direct.blocks;
  }
  // Results go to all ranks.
  [[nodiscard]] constexpr bool stores_in_peers() const { return direct.forward_to != 0; }
};

}  // namespace sennit::sm
