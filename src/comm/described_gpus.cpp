#include "comm/described_gpus.hpp"

#include "comm/comm_config.hpp"
#include "exec/sm/context.hpp"
#include "exec/sm/kernel_limits.hpp"
#include "memory/pair_rings.hpp"
#include "path/host/rings.hpp"
#include "select/device_paths.hpp"
#include "select/read_choice.hpp"
#include "sim/fabric.hpp"

#include <algorithm>

namespace sennit {
namespace {

host::RingShape host_ring(const DeviceCall& call, const DeviceFacts& facts) {
  const host::RingShape ring =
      CommConfig().host_rings(std::max(call.shape.ranks, call.world_ranks));
  return call.collective == Collective::kSendRecv
             ? PairRings::shape_beside(ring, /*through_host=*/!facts.reach)
             : ring;
}

// Each gets an equal part of the SMs.
int most_ranks_of_a_gpu(const DeviceFacts& facts) {
  int most = 1;
  for (const int gpu : facts.gpus) {
    most = std::max(most, static_cast<int>(std::ranges::count(facts.gpus, gpu)));
  }
  return most;
}

// The tiles, copies and slots with which a strand of such a call runs.
Status set_geometry(const DeviceCall& call,
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
  const bool is_message = call.collective == Collective::kSendRecv;
  const sm::KernelLimits limits = sm::KernelLimits::described(
      is_message ? std::max(call.world_ranks, call.shape.ranks) : call.shape.ranks,
      facts.reach,
      CommConfig{}.device_blocks / most_ranks_of_a_gpu(facts));
  if (choice.by_steps) {
    return sm::set_step_grid(call.bytes, limits, strand);
  }
  if (on_host) {
    return fail(Code::kUnsupported,
                "kernels whose packets go through host memory are not simulated");
  }
  const std::int64_t part = longest * (kWhole - choice.host_share) / kWhole;
  if (choice.protocol == Protocol::kDirectPut) {
    sm::set_one_sided_grid(part, sm::kPieceBytes, limits.blocks, strand);
    return {};
  }
  if (choice.protocol == Protocol::kDirectGet) {
    const int blocks = reading_blocks(call.collective, call.shape.ranks, facts);
    sm::set_one_sided_grid(part, sm::kReadBytes, blocks, strand);
    return {};
  }
  const sm::Packets packets = sm::packets_of(choice.protocol, facts);
  sm::set_grid(
      is_message ? limits.grid_of_message(part, packets) : limits.grid_of_call(part, packets),
      packets,
      strand);
  return {};
}

}  // namespace

Result<DeviceFacts> facts_of_described_gpus(const Topology& machine, const DescribedRanks& there) {
  const auto [ranks, ranks_per_gpu, has_mps] = there;
  const std::vector<int> devices = machine.devices();
  const auto is_gpu = [&](int device) {
    return machine.vertices[static_cast<std::size_t>(device)].kind == VertexKind::kGpu;
  };
  if (ranks > static_cast<int>(devices.size()) * ranks_per_gpu ||
      !std::ranges::all_of(devices, is_gpu)) {
    return fail(Code::kUnsupported,
                "what is predicted has the GPUs of one host, {} rank(s) each; machine {} has {} "
                "devices for {} ranks",
                ranks_per_gpu,
                machine.name,
                devices.size(),
                ranks);
  }
  SENNIT_ASSIGN_OR_RETURN(
      sim::Fabric fabric,
      sim::Fabric::build(machine, {.ranks = ranks, .ranks_per_device = ranks_per_gpu}));
  const GpuProfile& profile = profile_for({.name = machine.title});
  DeviceFacts facts{.copy_engines = true,
                    .ll_send_bytes = ll_send_bytes(profile, ranks),
                    .host_slots = CommConfig().host_rings(ranks).slots,
                    .is_pair = ranks == 2,
                    .offers = true,
                    .profile = &profile};
  if (ranks_per_gpu > 1 && ranks > 1) {
    for (int rank = 0; rank < ranks; ++rank) {
      facts.gpus.push_back(rank / ranks_per_gpu * ranks_per_gpu);
    }
    facts.sharing = ranks > ranks_per_gpu ? DeviceSharing::kSome
                    : has_mps             ? DeviceSharing::kAtOnce
                                          : DeviceSharing::kInTurn;
  }
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to && fabric.route(from, to, direct_path(facts, from, to)) == nullptr) {
        facts.reach = facts.offers = false;
        facts.why_no_reach = "the machine has no NVLink between all of these GPUs";
      }
    }
  }
  return facts;
}

Result<DevicePlan> plan_for_devices(const DeviceCall& call, const DeviceFacts& facts) {
  DevicePlan made;
  SENNIT_ASSIGN_OR_RETURN(
      made.choice,
      choose_for_devices(call.collective, call.shape, call.bytes, call.request, facts));
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                          make_device_plan(made.choice, call.shape, facts));
  made.plan = *plan;
  for (Strand& strand : made.plan.strands) {
    SENNIT_RETURN_IF_ERROR(set_geometry(call, made.choice, facts, strand));
  }
  return made;
}

}  // namespace sennit
