#include "capi/device_prediction.hpp"

#include "comm/comm_config.hpp"
#include "exec/sm/geometry.hpp"
#include "exec/sm/step_program.hpp"
#include "memory/arena_plan.hpp"
#include "memory/device_memory.hpp"
#include "memory/pair_rings.hpp"
#include "path/host/rings.hpp"
#include "sim/fabric.hpp"

#include <algorithm>

namespace sennit {
namespace {

constexpr int kBlocks = 128;  // of a kernel

host::RingShape host_ring() {
  const CommConfig config;
  return host::RingShape::within(config.host_ring_bytes, config.host_slot_bytes);
}

host::RingShape host_ring(const DeviceCall& call, const DeviceFacts& facts) {
  return call.collective == Collective::kSendRecv
             ? PairRings::shape_beside(host_ring(), /*through_host=*/!facts.nvlink)
             : host_ring();
}

// What is put where it belongs needs no slots.
void bind_puts(std::int64_t longest, Strand& strand) {
  constexpr std::int64_t kPutBytes = 16 * 1024;
  strand.tile_bytes = kPutBytes;
  strand.width = static_cast<int>(
      std::clamp<std::int64_t>((longest + kPutBytes - 1) / kPutBytes, 1, std::int64_t{kBlocks}));
}

// The grid of thread blocks that the kernel runs on (comm/device): a block is a copy of the lanes,
// and what its warps move at once a tile. Two rounds of packets are the slots of a channel.
void bind_packets(const DeviceCall& call, std::int64_t longest, Protocol protocol, Strand& strand) {
  const bool is_pair = call.collective == Collective::kSendRecv;
  const sm::Packets packets = protocol == Protocol::kLl      ? sm::Packets::kLl
                              : protocol == Protocol::kLl128 ? sm::Packets::kLl128
                                                             : sm::Packets::kSlots;
  const ArenaPlan arenas =
      ArenaPlan::make(ArenaPlace::kDevice, std::max(call.world_ranks, call.shape.ranks), kBlocks);
  const sm::Geometry grid = sm::geometry_for(longest,
                                             packets,
                                             is_pair ? arenas.pair_shape : arenas.shape,
                                             is_pair ? kBlocks / 2 : kBlocks);
  strand.width = grid.blocks;
  strand.tile_bytes = grid.warps * sm::payload_bytes(packets);
  for (ChannelBinding& channel : strand.channels) {
    channel.slots = sm::kGenerations * grid.depth;
  }
}

Status bind_steps(const DeviceCall& call, const DeviceFacts& facts, Strand& strand) {
  const ArenaPlan arenas = ArenaPlan::make(
      facts.nvlink ? ArenaPlace::kDevice : ArenaPlace::kHost, call.shape.ranks, kBlocks);
  const sm::MailboxShape& near = facts.nvlink ? arenas.mailbox : arenas.near_mailbox;
  sm::StepCall bound;
  SENNIT_ASSIGN_OR_RETURN(const auto program, sm::compile_steps(strand, 0));
  bound.program = *program;
  SENNIT_RETURN_IF_ERROR(
      sm::bind(strand.schedule->problem,
               {.count = call.bytes, .bytes = 1},
               {.blocks = arenas.mailbox.blocks,
                .scratch_bytes = DeviceMemory::kStepScratchBytes,
                .slot_bytes = {near.slot_bytes, facts.nvlink ? 0 : arenas.mailbox.slot_bytes}},
               bound));
  strand.tile_bytes = bound.tile_bytes;
  strand.width = bound.blocks;
  return {};
}

Status bind_strand(const DeviceCall& call,
                   const DeviceChoice& choice,
                   const DeviceFacts& facts,
                   Strand& strand) {
  const bool by_copies = strand.lanes.front().front().engine == Engine::kStream;
  const bool on_host =
      !strand.channels.empty() && strand.channels.front().paths.front() == PathKind::kHost;
  const std::int64_t longest = block_range(strand.schedule->problem, call.bytes, 1, 0).length;
  if (by_copies) {
    strand.tile_bytes = on_host ? static_cast<std::int64_t>(host_ring(call, facts).slot_bytes)
                                : std::max<std::int64_t>(1, longest);  // one copy a message
    return {};
  }
  if (choice.by_steps) {
    return bind_steps(call, facts, strand);
  }
  if (on_host) {
    return fail(Code::kUnsupported,
                "kernels whose packets go through host memory are not simulated");
  }
  const std::int64_t part = longest * (kWhole - choice.host_share) / kWhole;
  if (choice.protocol == Protocol::kDirectPut) {
    bind_puts(part, strand);
  } else {
    bind_packets(call, part, choice.protocol, strand);
  }
  return {};
}

}  // namespace

Result<DeviceFacts> device_facts_on(const Topology& machine, int ranks) {
  const std::vector<int> devices = machine.devices();
  const auto is_gpu = [&](int device) {
    return machine.vertices[static_cast<std::size_t>(device)].kind == VertexKind::kGpu;
  };
  if (ranks > static_cast<int>(devices.size()) || !std::ranges::all_of(devices, is_gpu)) {
    return fail(Code::kUnsupported,
                "what is predicted has a GPU for each rank, of one host; machine {} has {} devices "
                "for {} ranks",
                machine.name,
                devices.size(),
                ranks);
  }
  SENNIT_ASSIGN_OR_RETURN(sim::Fabric fabric, sim::Fabric::build(machine, {.ranks = ranks}));
  DeviceFacts facts{.copy_engines = true,
                    .ll_send_bytes = ll_send_bytes(ranks),
                    .host_slots = host_ring().slots,
                    .is_pair = ranks == 2,
                    .offers = true};
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to && fabric.route(from, to, PathKind::kNvlink) == nullptr) {
        facts.nvlink = facts.offers = false;
        facts.why_no_nvlink = "the machine has no NVLink between all of these GPUs";
      }
    }
  }
  return facts;
}

Result<DevicePlan> plan_for_devices(const DeviceCall& call, const DeviceFacts& facts) {
  DevicePlan made;
  SENNIT_ASSIGN_OR_RETURN(
      made.choice, choose_for_devices(call.collective, call.shape, call.bytes, call.wishes, facts));
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                          make_device_plan(made.choice, call.shape, facts));
  made.plan = *plan;
  for (Strand& strand : made.plan.strands) {
    SENNIT_RETURN_IF_ERROR(bind_strand(call, made.choice, facts, strand));
  }
  return made;
}

}  // namespace sennit
