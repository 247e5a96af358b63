// The plans of choices for ranks with a GPU each.
#include "schedule/one_lane.hpp"
#include "schedule/passes.hpp"
#include "select/device_choice.hpp"
#include "select/device_paths.hpp"

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

// All ends of the channel are of one group.
bool stays_in_a_group(const Channel& channel, const std::vector<std::vector<int>>& groups) {
  return std::ranges::any_of(groups, [&](const std::vector<int>& members) {
    const auto is_member = [&](LaneId end) {
      return std::ranges::find(members, end.rank) != members.end();
    };
    return is_member(channel.writer) && std::ranges::all_of(channel.readers, is_member);
  });
}

// Whatever the schedule's lanes, a block of a kernel runs one.
Result<Strand> make_step_strand(const DeviceChoice& choice,
                                const Shape& shape,
                                const DeviceFacts& facts) {
  // A message may wait while its successor is written, and a fused ring needs as many.
  constexpr int kSlots = 2;
  SENNIT_ASSIGN_OR_RETURN(Schedule made, make_schedule(*choice.algorithm, shape));
  if (choice.scaled != ScaledParts{}) {
    SENNIT_ASSIGN_OR_RETURN(made, mark_scaling(std::move(made), choice.scaled));
  }
  SENNIT_ASSIGN_OR_RETURN(made, join_lanes(std::move(made), kSlots));
  made = fuse(std::move(made));  // stages that lanes of their own have kept separate
  Strand strand = bind(std::make_shared<const Schedule>(std::move(made)),
                       facts.reach ? PathKind::kNvlink : PathKind::kHost,
                       Protocol::kSlots,
                       kSlots,
                       Engine::kSm);
  strand.by_steps = true;
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    if (stays_in_a_group(strand.schedule->channels[c], facts.groups)) {
      strand.channels[c].paths = {PathKind::kNvlink};
    }
  }
  bind_direct_paths(strand, facts);
  return strand;
}

// Copy engines put what is reduced into slots of who reduces it. A leader reads it where it lies.
// Where a GPU runs the ranks in turn, who reduces it copies it, because each copy of another rank
// would cost a change from one process to another: from 16 KB on pulls took a tenth of the time of
// pushes there (4 ranks, 64 KB: 23 and 428 us). Under the Multi-Process Service pushes of all ranks
// run at once: 20 us, pulls 27 (one H100, docs/lab/2026-11-29-shared-gpu.md).
Protocol protocol_of_contributions(const DeviceChoice& choice,
                                   bool by_leader,
                                   const DeviceFacts& facts) {
  const bool is_pulled = choice.shares_copies && facts.sharing == DeviceSharing::kInTurn;
  return by_leader || is_pulled ? Protocol::kDirectGet : Protocol::kSlots;
}

void bind_contributions(Strand& strand, Protocol protocol) {
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    if (!is_stored_whole(*strand.schedule, static_cast<int>(c))) {
      strand.channels[c].protocol = protocol;
    }
  }
}

// Percent of the copies to and from the ranks besides the first, which is the leader: those of the
// last of them.
void send_through_host(Strand& strand, int percent) {
  const int ranks = strand.schedule->problem.ranks;
  const int first_through_host = ranks - copies_through_host(ranks, percent);
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    const Channel& channel = strand.schedule->channels[c];
    const int member = std::max(channel.writer.rank, channel.readers.front().rank);
    if (member >= first_through_host) {
      strand.channels[c].paths = {PathKind::kHost};
      strand.channels[c].protocol = Protocol::kSlots;
    }
  }
}

// Kernels that read contributions put what they have reduced.
void put_results(Strand& strand) {
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    const bool is_read = strand.channels[c].protocol == Protocol::kDirectGet;
    if (is_read && is_stored_whole(*strand.schedule, static_cast<int>(c))) {
      strand.channels[c].protocol = Protocol::kDirectPut;
    }
  }
}

}  // namespace

Result<std::shared_ptr<const Plan>> make_device_plan(const DeviceChoice& choice,
                                                     const Shape& shape,
                                                     const DeviceFacts& facts) {
  auto plan = std::make_shared<Plan>();
  if (choice.by_steps) {
    SENNIT_ASSIGN_OR_RETURN(Strand strand, make_step_strand(choice, shape, facts));
    plan->strands.push_back(std::move(strand));
    return std::shared_ptr<const Plan>(std::move(plan));
  }
  if (choice.host_share < kWhole || choice.shares_copies) {
    SENNIT_ASSIGN_OR_RETURN(Schedule made, make_schedule(*choice.algorithm, shape));
    if (choice.engine == Engine::kStream) {
      made = reduce_in_slots(std::move(made));  // staging memory is both
    }
    if (choice.protocol == Protocol::kDirectGet || choice.protocol == Protocol::kDirectPut) {
      made = loosen(std::move(made));  // no order is kept but that of the data
    }
    // Two generations of packets: a message may wait while its successor is written. Copy engines
    // have words for all parts of a message.
    constexpr int kSlots = 2;
    plan->strands.push_back(bind(std::make_shared<const Schedule>(std::move(made)),
                                 facts.reach ? PathKind::kNvlink : PathKind::kHost,
                                 choice.protocol,
                                 kSlots,
                                 choice.engine));
    SENNIT_RETURN_IF_ERROR(check_structure(*plan));
    bind_direct_paths(plan->strands.back(), facts);
    if (choice.engine == Engine::kStream) {
      Strand& strand = plan->strands.back();
      strand.by_leader = choice.by_leader && choice.host_share == 0;
      bind_contributions(strand, protocol_of_contributions(choice, strand.by_leader, facts));
      if (choice.shares_copies) {
        send_through_host(strand, choice.host_share);
      }
    } else if (is_reduction(choice.algorithm->collective)) {
      put_results(plan->strands.back());
    }
  }
  if (choice.host_share > 0 && !choice.shares_copies) {
    const Collective collective = choice.algorithm->collective;
    SENNIT_ASSIGN_OR_RETURN(const Algorithm* const on_host,
                            choice.host_share == kWhole
                                ? Result<const Algorithm*>(choice.algorithm)
                                : find_algorithm(collective, gpu_collective(collective).on_host));
    SENNIT_ASSIGN_OR_RETURN(Schedule made, make_schedule(*on_host, shape));
    plan->strands.push_back(bind(std::make_shared<const Schedule>(std::move(made)),
                                 PathKind::kHost,
                                 Protocol::kSlots,
                                 facts.host_slots,
                                 Engine::kStream));
    plan->strands.front().share = kWhole - choice.host_share;
    plan->strands.back().share = choice.host_share;
  }
  return std::shared_ptr<const Plan>(std::move(plan));
}

}  // namespace sennit
