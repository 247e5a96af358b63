#include "exec/sm/peer_launcher.hpp"

#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/geometry.hpp"
#include "exec/sm/small_call.hpp"

#include <algorithm>
#include <vector>

namespace sennit::sm {
namespace {

void limit_senders(int blocks, std::span<PairMessage> messages) {
  for (PairMessage& message : messages) {
    if (message.is_send()) {
      message.put.blocks = std::min(message.put.blocks, blocks);
    }
  }
}

void size_lanes(std::span<const PairMessage> messages, PairCalls& pairs) {
  for (const PairMessage& message : messages) {
    PairLanes& lanes = message.is_send() ? pairs.sends : pairs.recvs;
    lanes.blocks = std::max(lanes.blocks, message.blocks());
  }
}

// A block of a v-form is a message that stands for the call.
Collective collective_of(const Operation& operation) {
  return operation.stands_for ? static_cast<Collective>(operation.stands_for->collective)
                              : operation.collective;
}

}  // namespace

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
  call.on_host = !context_.facts.reach;
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
  described.put.blocks = call.blocks;
  described.put.takes_part = message.takes_part;
  described.put.there = message.takes_part ? offer_of(message, may_map) : nullptr;
}

// Not while the stream captures.
Result<bool> PeerLauncher::may_map(std::span<const KernelMessage> messages, void* stream) const {
  if (std::ranges::none_of(messages, &KernelMessage::takes_part)) {
    return false;
  }
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, context_.driver.is_capturing(stream));
  return !is_capturing;
}

// The messages, in the order in which they are to start. Only what is used of `pairs` is written:
// 64 messages are 30 KB.
std::span<PairMessage> PeerLauncher::describe_all(std::span<const KernelMessage> messages,
                                                  bool may_map,
                                                  PairCalls& pairs) {
  std::vector<PairEnd> ends;
  ends.reserve(messages.size());
  for (const KernelMessage& message : messages) {
    ends.push_back({message.peer, message.is_send});
  }
  const GroupOrder order = group_order(ends, context_.world.rank(), context_.world.size());
  pairs.sends = {};
  pairs.recvs = {};
  int chains = 0;
  std::size_t used = 0;
  const auto take = [&](const std::vector<PairChain>& taken, PairLanes& lanes) {
    lanes.first = chains;
    lanes.chains = static_cast<int>(taken.size());
    for (const PairChain& chain : taken) {
      for (const std::size_t index : chain) {
        describe(messages[index], may_map, pairs.messages[used++]);
      }
      pairs.begin[static_cast<std::size_t>(++chains)] = static_cast<std::int16_t>(used);
    }
  };
  take(order.sends, pairs.sends);
  take(order.recvs, pairs.recvs);
  return std::span(pairs.messages).first(used);
}

// As many blocks copy the own part meanwhile, so that must not be longer than what crosses a wire.
int PeerLauncher::few_blocks_for(std::span<const KernelMessage> messages) const {
  const int rank = context_.world.rank();
  const int ranks = context_.world.size();
  std::int64_t own = 0;
  std::int64_t crosses = 0;
  for (const KernelMessage& message : messages) {
    std::int64_t& longest = message.peer == rank ? own : crosses;
    longest = std::max(longest, message.range.length);
  }
  const std::vector<GpuProfile::FewBlocks>& rows = context_.facts.profile->puts;
  const auto row = std::ranges::find_if(rows, [&](const auto& few) {
    return few.collective == collective_of(*messages.front().operation) &&
           ranks <= few.up_to_ranks && ranks * crosses >= few.from_bytes;
  });
  if (row == rows.end() || own > crosses || context_.message_puts == nullptr) {
    return 0;
  }
  const bool are_mapped = std::ranges::all_of(messages, [&](const KernelMessage& message) {
    return message.peer == rank || context_.message_puts->has_mapped_last_buffer_of(message.peer);
  });
  return are_mapped ? row->blocks : 0;
}

// Whether peers reach this rank's buffers. Whether this rank reaches theirs is not known yet;
// mostly it is the same. Where it does not, the few blocks send all packets, which is slower.
bool PeerLauncher::are_reached(std::span<const PairMessage> messages) const {
  return std::ranges::all_of(messages,
                             [](const PairMessage& message) {
                               return message.is_send() || message.only_waits();
                             }) &&
         std::ranges::any_of(messages, [this](const PairMessage& message) {
           return !message.is_send() && message.call.peer != context_.world.rank();
         });
}

Status PeerLauncher::launch(std::span<const KernelMessage> messages, void* stream, Order wanted) {
  SENNIT_ASSIGN_OR_RETURN(const bool maps, may_map(messages, stream));
  // Asked before anything is mapped: a buffer that is mapped now does not receive in place yet.
  const int few_blocks = few_blocks_for(messages);
  PairCalls& pairs = *pairs_;
  pairs.is_braid = wanted == Order::kInterleaved;
  const std::span<PairMessage> described = describe_all(messages, maps, pairs);
  if (few_blocks != 0 && are_reached(described)) {
    limit_senders(few_blocks, described);
  }
  size_lanes(described, pairs);
  const GroupRoom room = this->room(messages);
  SmallPairs small;
  if (make_small(pairs, room.moving, small)) {
    return context_.driver.launch(
        small_pairs_kernel(pairs.chains(), small.parts),
        {.blocks = static_cast<unsigned>(thread_blocks(small, pairs.chains())),
         .threads = static_cast<unsigned>(small.warps * small.parts) * 32},
        &small,
        stream);
  }
  deal_lanes(room, pairs);
  return context_.driver.launch(
      pairs_kernel(static_cast<int>(described.size()), /*on_host=*/!context_.facts.reach),
      {.blocks = static_cast<unsigned>(pairs.all_blocks()), .threads = kThreads},
      &pairs,
      stream);
}

GroupRoom PeerLauncher::room(const Operation& operation) const {
  const int limit = operation.request.within(context_.memory.block_limit());
  return {.moving = std::min(limit, context_.memory.shape().most_blocks()), .all = limit};
}

// Of calls that ask for few, what the least of them takes.
GroupRoom PeerLauncher::room(std::span<const KernelMessage> messages) const {
  const auto least = std::ranges::min_element(
      messages, {}, [&](const KernelMessage& message) { return room(*message.operation).all; });
  return room(*least->operation);
}

// No more than fit beside the ranks that share the GPU, but a send and a recv in any case.
void PeerLauncher::deal_lanes(const GroupRoom& room, PairCalls& pairs) const {
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
  const GroupLanes lanes = group_lanes(sends, recvs, room);
  pairs.sends.lanes = lanes.sends;
  pairs.recvs.lanes = lanes.recvs;
}

int PeerLauncher::blocks_of_message(const Operation& operation, Order order) const {
  const GroupRoom all = room(operation);
  return order == Order::kInterleaved ? blocks_of_braid(context_.world.size(), all)
                                      : blocks_of_each(context_.world.size(), all);
}

}  // namespace sennit::sm
