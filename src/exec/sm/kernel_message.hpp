// KernelMessage: one end of a message that kernels carry (exec/sm/pairs_kernel.cuh): a send or a
// recv, or a block of a collective whose blocks are messages.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "world/operation.hpp"

#include <cstdint>

namespace sennit {

struct KernelMessage {
  const Operation* operation = nullptr;
  int peer = 0;  // this rank itself, too
  bool is_send = false;
  sm::ByteRange range{};  // of the operation's input, or of its output
  sm::Packets packets = sm::Packets::kLl;
  bool takes_part = false;  // its receiver may offer its buffer (memory/message_put.hpp)
  std::uint32_t fingerprint = 0;
  std::uint64_t deadline_ns = 0;  // 0: none
  int block_limit = 1;            // of the blocks that its packets have, the same at both ends
};

}  // namespace sennit
