#include "exec/sm/peer_launcher.hpp"

#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/geometry.hpp"
#include "exec/sm/small_call.hpp"

#include <algorithm>
#include <vector>

namespace sennit::sm {

// A receiver offers its buffer to a sender that is known to reach it; a sender maps what it has
// been asked to, if it may.
std::byte* PeerLauncher::offer_of(const KernelMessage& message, bool may_map) {
  if (!message.is_send) {
    return context_.message_puts->address_at(
        message.peer,
        {.memory = static_cast<std::byte*>(message.operation->recv) + message.range.begin,
         .bytes = message.range.length});
  }
  if (may_map) {
    context_.message_puts->map_buffer_of(message.peer);
  }
  return nullptr;
}

void PeerLauncher::describe(const KernelMessage& message, bool may_map, PairMessage& described) {
  const Operation& op = *message.operation;
  const DeviceMemory::Pair& pair = context_.memory.pair(message.peer, message.is_send);
  described = {};
  PairCall& call = described.call;
  call.input = static_cast<const std::byte*>(op.send);
  call.output = static_cast<std::byte*>(op.recv);
  call.states = pair.states;
  call.error_word = context_.memory.error_word_on_device();
  call.fifos = {pair.sender, pair.receiver};
  call.packets = message.packets;
  call.on_host = !context_.facts.nvlink;
  call.layout = context_.memory.pair_shape().layout(call.packets);
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
  apply(geometry_for(message.range.length,
                     call.packets,
                     context_.memory.pair_shape(),
                     std::max(1, message.block_limit)),
        call);
  call.deadline_ns = message.deadline_ns;
  call.fingerprint = message.fingerprint;
  described.put = pair.put;
  described.put.takes_part = message.takes_part;
  described.put.there = message.takes_part ? offer_of(message, may_map) : nullptr;
}

Status PeerLauncher::launch(std::span<const KernelMessage> messages, void* stream, Order wanted) {
  std::vector<PairEnd> ends;
  ends.reserve(messages.size());
  bool may_map = false;
  for (const KernelMessage& message : messages) {
    ends.push_back({message.peer, message.is_send});
    may_map = may_map || message.takes_part;
  }
  if (may_map) {
    SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, context_.driver.is_capturing(stream));
    may_map = !is_capturing;
  }
  const GroupOrder order = group_order(ends, context_.world.rank(), context_.world.size());
  // Only what is used of it is written: 64 messages are 30 KB.
  PairCalls& pairs = *pairs_;
  pairs.sends = {};
  pairs.recvs = {};
  pairs.is_braid = wanted == Order::kInterleaved;
  int chains = 0;
  int used = 0;
  const auto take = [&](const std::vector<PairChain>& taken, PairLanes& lanes) {
    lanes.first = chains;
    lanes.chains = static_cast<int>(taken.size());
    for (const PairChain& chain : taken) {
      for (const std::size_t index : chain) {
        PairMessage& pair = pairs.messages[static_cast<std::size_t>(used++)];
        describe(messages[index], may_map, pair);
        lanes.blocks = std::max(lanes.blocks, pair.blocks());
      }
      pairs.begin[static_cast<std::size_t>(++chains)] = static_cast<std::int16_t>(used);
    }
  };
  take(order.sends, pairs.sends);
  take(order.recvs, pairs.recvs);
  SmallPairs small;
  if (make_small(pairs, room().moving, small)) {
    return context_.driver.launch(
        small_pairs_kernel(chains, small.parts),
        {.blocks = static_cast<unsigned>(thread_blocks(small, chains)),
         .threads = static_cast<unsigned>(small.warps * small.parts) * 32},
        &small,
        stream);
  }
  deal_lanes(pairs);
  return context_.driver.launch(
      pairs_kernel(used, /*on_host=*/!context_.facts.nvlink),
      {.blocks = static_cast<unsigned>(pairs.all_blocks()), .threads = kThreads},
      &pairs,
      stream);
}

GroupRoom PeerLauncher::room() const {
  const int limit = context_.memory.block_limit();
  return {.moving = std::min(limit, context_.memory.shape().most_blocks()), .all = limit};
}

// No more than fit beside the ranks that share the GPU, but a send and a recv in any case.
void PeerLauncher::deal_lanes(PairCalls& pairs) const {
  const int end = pairs.begin[static_cast<std::size_t>(pairs.chains())];
  const GroupWay sends{
      .chains = pairs.is_braid ? std::min(1, pairs.sends.chains) : pairs.sends.chains,
      .blocks = pairs.sends.blocks};
  const GroupWay recvs{
      .chains = pairs.recvs.chains,
      .blocks = pairs.recvs.blocks,
      .only_waits = std::ranges::all_of(
          std::span(pairs.messages).first(static_cast<std::size_t>(end)),
          [](const PairMessage& message) { return message.is_send() || message.only_waits(); })};
  const GroupLanes lanes = group_lanes(sends, recvs, room());
  pairs.sends.lanes = lanes.sends;
  pairs.recvs.lanes = lanes.recvs;
}

int PeerLauncher::blocks_of_message(Order order, std::int64_t bytes) const {
  return order == Order::kInterleaved
             ? blocks_of_braid(context_.world.size(), room())
             : blocks_of_put(bytes, blocks_of_each(context_.world.size(), room()));
}

// Of two ranks, whose wire is for one message each way.
int PeerLauncher::blocks_of_put(std::int64_t bytes, int blocks) const {
  const GpuProfile& profile = *context_.facts.profile;
  const bool are_few = context_.world.size() == 2 && context_.message_puts != nullptr &&
                       bytes >= profile.few_blocks_from_bytes;
  return are_few ? std::min(blocks, profile.few_blocks) : blocks;
}

}  // namespace sennit::sm
