// The kernels that carry sends and recvs, and blocks of collectives that are messages.
#include "comm/device/device_comm.hpp"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/geometry.hpp"
#include "exec/sm/group_order.hpp"
#include "exec/sm/small_call.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace sennit {

// A receiver offers its buffer to a sender that is known to reach it; a sender maps what it has
// been asked to, if it may.
std::byte* DeviceComm::offer_of(const KernelMessage& message, bool may_map) {
  if (!message.is_send) {
    return message_puts_->address_at(
        message.peer,
        {.memory = static_cast<std::byte*>(message.operation->recv) + message.range.begin,
         .bytes = message.range.length});
  }
  if (may_map) {
    message_puts_->map_loan_of(message.peer);
  }
  return nullptr;
}

void DeviceComm::describe(const KernelMessage& message, bool may_map, sm::PairMessage& described) {
  const Operation& op = *message.operation;
  const DeviceMemory::Pair& pair = memory_->pair(message.peer, message.is_send);
  described = {};
  sm::PairCall& call = described.call;
  call.input = static_cast<const std::byte*>(op.send);
  call.output = static_cast<std::byte*>(op.recv);
  call.states = pair.states;
  call.board = memory_->board_on_device();
  call.arenas = {pair.sender, pair.receiver};
  call.packets = message.packets;
  call.on_host = !facts_.nvlink;
  call.layout = memory_->pair_shape().layout(call.packets);
  call.ranks = 2;
  call.rank = message.is_send ? 0 : 1;
  call.peer = static_cast<std::int8_t>(message.peer);
  if (message.is_send) {
    call.push[1] = message.range;
    call.push_to = 0b10;
  } else {
    call.arrive[0][0] = message.range;
    call.arrive_from[0] = 0b01;
  }
  sm::apply(sm::geometry_for(message.range.length,
                             call.packets,
                             memory_->pair_shape(),
                             std::max(1, message.block_limit)),
            call);
  call.deadline_ns = deadline_ns(op);
  call.fingerprint = message.fingerprint;
  described.put = pair.put;
  described.put.takes_part = message.takes_part;
  described.put.there = message.takes_part ? offer_of(message, may_map) : nullptr;
}

// One kernel for all.
Status DeviceComm::launch_pairs(std::span<const KernelMessage> messages,
                                void* stream,
                                Order wanted) {
  std::vector<PairEnd> ends;
  ends.reserve(messages.size());
  bool may_map = false;
  for (const KernelMessage& message : messages) {
    ends.push_back({message.peer, message.is_send});
    may_map = may_map || message.takes_part;
  }
  if (may_map) {
    SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
    may_map = !is_capturing;
  }
  const GroupOrder order = group_order(ends, world_.rank(), world_.size());
  // Only what is used of it is written: 64 messages are 30 KB.
  sm::PairCalls& pairs = *pairs_;
  pairs.sends = {};
  pairs.recvs = {};
  pairs.is_braid = wanted == Order::kBraid;
  int chains = 0;
  int used = 0;
  const auto take = [&](const std::vector<PairChain>& taken, sm::PairLanes& lanes) {
    lanes.first = chains;
    lanes.chains = static_cast<int>(taken.size());
    for (const PairChain& chain : taken) {
      for (const std::size_t index : chain) {
        sm::PairMessage& pair = pairs.messages[static_cast<std::size_t>(used++)];
        describe(messages[index], may_map, pair);
        lanes.blocks = std::max(lanes.blocks, pair.blocks());
      }
      pairs.begin[static_cast<std::size_t>(++chains)] = static_cast<std::int16_t>(used);
    }
  };
  take(order.sends, pairs.sends);
  take(order.recvs, pairs.recvs);
  sm::SmallPairs small;
  if (sm::make_small(pairs, room_of_groups().moving, small)) {
    return driver_.launch(sm::small_pairs_kernel(chains, small.parts),
                          {.blocks = static_cast<unsigned>(sm::thread_blocks(small, chains)),
                           .threads = static_cast<unsigned>(small.warps * small.parts) * 32},
                          &small,
                          stream);
  }
  deal_lanes(pairs);
  return driver_.launch(
      sm::pairs_kernel(used, /*on_host=*/!facts_.nvlink),
      {.blocks = static_cast<unsigned>(pairs.all_blocks()), .threads = sm::kThreads},
      &pairs,
      stream);
}

GroupRoom DeviceComm::room_of_groups() const {
  const int limit = memory_->block_limit();
  return {.moving = std::min(limit, memory_->shape().most_blocks()), .all = limit};
}

// No more than fit beside the ranks that share the GPU, but a send and a recv in any case.
void DeviceComm::deal_lanes(sm::PairCalls& pairs) const {
  const int end = pairs.begin[static_cast<std::size_t>(pairs.chains())];
  const GroupWay sends{
      .chains = pairs.is_braid ? std::min(1, pairs.sends.chains) : pairs.sends.chains,
      .blocks = pairs.sends.blocks};
  const GroupWay recvs{.chains = pairs.recvs.chains,
                       .blocks = pairs.recvs.blocks,
                       .only_waits = std::ranges::all_of(
                           std::span(pairs.messages).first(static_cast<std::size_t>(end)),
                           [](const sm::PairMessage& message) {
                             return message.is_send() || message.only_waits();
                           })};
  const GroupLanes lanes = group_lanes(sends, recvs, room_of_groups());
  pairs.sends.lanes = lanes.sends;
  pairs.recvs.lanes = lanes.recvs;
}

}  // namespace sennit
