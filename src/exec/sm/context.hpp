// Context: what kernels of one communicator work with.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/sm/kernel_limits.hpp"
#include "exec/sm/kernels_on_demand.hpp"
#include "memory/device_memory.hpp"
#include "memory/message_puts.hpp"
#include "select/device_choice.hpp"
#include "world/call_ledger.hpp"
#include "world/world.hpp"

namespace sennit::sm {

struct Context {
  CudaDriver& driver;
  World& world;
  const DeviceMemory& memory;
  const DeviceFacts& facts;
  CallLedger& ledger;
  KernelLimits limits = KernelLimits::of(memory);
  MessagePuts* message_puts = nullptr;  // null: ranks do not map each other's buffers
  KernelsOnDemand kernels{driver};
};

// Of a plan's protocol.
inline Packets packets_of(Protocol protocol, const DeviceFacts& facts) {
  return protocol == Protocol::kLl      ? Packets::kLl
         : protocol == Protocol::kLl128 ? Packets::kLl128
         : facts.reach                  ? Packets::kSlots
                                        : Packets::kPlain;
}

}  // namespace sennit::sm
