#include "exec/stream/plan_program.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

bool is_direct(Protocol protocol) {
  return protocol == Protocol::kDirectGet || protocol == Protocol::kDirectPut;
}

bool is_through_host(const ChannelBinding& binding) {
  return binding.paths == std::vector<Path>{PathKind::kHost} &&
         binding.protocol == Protocol::kSlots;
}

// From buffer to buffer, and what is reduced into slots of who reduces it; of reductions some of it
// through the host.
bool is_straight(const Strand& strand) {
  const bool reduces = is_reduction(strand.schedule->problem.collective);
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    const ChannelBinding& binding = strand.channels[c];
    const bool is_staged = binding.protocol == Protocol::kSlots &&
                           !is_stored_whole(*strand.schedule, static_cast<int>(c));
    const bool is_put = binding.paths.size() == 1 && info(binding.paths.front().kind).single_copy &&
                        (is_direct(binding.protocol) || is_staged);
    if (!is_put && !(reduces && is_through_host(binding))) {
      return false;
    }
  }
  return true;
}

bool is_through_host(const Strand& strand) {
  return std::ranges::all_of(
      strand.channels, [](const ChannelBinding& binding) { return is_through_host(binding); });
}

bool is_for_kernels(const Strand& strand) {
  return std::ranges::all_of(strand.lanes, [](const std::vector<LaneBinding>& lanes) {
    return std::ranges::all_of(lanes,
                               [](const LaneBinding& lane) { return lane.engine == Engine::kSm; });
  });
}

Result<std::variant<StreamProgram, SlotProgram>> compile_strand(const Strand& strand, int rank) {
  if (is_straight(strand)) {
    SENNIT_ASSIGN_OR_RETURN(StreamProgram program,
                            compile_stream(*strand.schedule, rank, strand.channels));
    return std::variant<StreamProgram, SlotProgram>(std::move(program));
  }
  if (is_through_host(strand)) {
    SENNIT_ASSIGN_OR_RETURN(SlotProgram program, compile_slots(*strand.schedule, rank));
    return std::variant<StreamProgram, SlotProgram>(std::move(program));
  }
  return fail(Code::kUnsupported,
              "streams run channels of direct_get and direct_put, and slots on path host");
}

Result<std::vector<StreamProgram>> compile_for_leader(const Strand& strand) {
  const Problem& problem = strand.schedule->problem;
  std::vector<StreamProgram> programs;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    StreamProgram& program = programs.emplace_back();
    if (problem.collective != Collective::kBarrier) {
      SENNIT_ASSIGN_OR_RETURN(program, compile_stream(*strand.schedule, rank));
      continue;
    }
    // Whoever waits for the leader has met all ranks.
    program.problem = problem;
    program.rank = rank;
    program.may_be_in_place = true;
  }
  return programs;
}

}  // namespace

const StreamProgram* PlanProgram::alone() const {
  return strands.size() == 1 && !of_kernels ? std::get_if<StreamProgram>(&strands.front().program)
                                            : nullptr;
}

bool PlanProgram::exposes_output() const {
  return !by_leader.empty() || std::ranges::any_of(strands, [](const StrandProgram& strand) {
    const auto* const straight = std::get_if<StreamProgram>(&strand.program);
    return straight != nullptr && !straight->arrivals.empty();
  });
}

bool PlanProgram::exposes_staging() const { return alone() != nullptr && alone()->is_staged(); }

bool PlanProgram::may_be_in_place() const {
  return std::ranges::all_of(by_leader, &StreamProgram::may_be_in_place) &&
         std::ranges::all_of(strands, [](const StrandProgram& strand) {
           return std::visit([](const auto& program) { return program.may_be_in_place; },
                             strand.program);
         });
}

Result<PlanProgram> compile_plan(const Plan& plan, int rank) {
  if (plan.division != Division::kStatic) {
    return fail(Code::kUnsupported, "streams run plans whose strands have fixed shares");
  }
  PlanProgram result;
  result.rank = rank;
  if (plan.strands.front().by_leader) {
    SENNIT_ASSIGN_OR_RETURN(result.by_leader, compile_for_leader(plan.strands.front()));
    return result;
  }
  bool is_one_straight = false;
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    if (is_for_kernels(plan.strands[s]) && !result.of_kernels) {
      result.of_kernels = portion_of(plan, static_cast<int>(s));
      continue;
    }
    SENNIT_ASSIGN_OR_RETURN(auto program, compile_strand(plan.strands[s], rank));
    const bool has_flags =
        std::holds_alternative<StreamProgram>(program) && !plan.strands[s].channels.empty();
    if (has_flags && std::exchange(is_one_straight, true)) {
      return fail(Code::kUnsupported,
                  "streams run one strand from memory to memory: two would share their flags");
    }
    result.strands.push_back(
        {.program = std::move(program), .portion = portion_of(plan, static_cast<int>(s))});
  }
  return result;
}

}  // namespace sennit::stream
