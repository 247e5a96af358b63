#include "exec/stream/plan_program.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

bool is_bound_to(const Strand& strand, Protocol protocol) {
  return std::ranges::all_of(strand.channels, [&](const ChannelBinding& binding) {
    return binding.protocol == protocol && binding.paths.size() == 1 &&
           (protocol != Protocol::kSlots || binding.paths.front() == PathKind::kHost);
  });
}

bool is_for_kernels(const Strand& strand) {
  return std::ranges::all_of(strand.lanes, [](const std::vector<LaneBinding>& lanes) {
    return std::ranges::all_of(lanes,
                               [](const LaneBinding& lane) { return lane.engine == Engine::kSm; });
  });
}

Result<std::variant<StreamProgram, SlotProgram>> compile_strand(const Strand& strand, int rank) {
  if (is_bound_to(strand, Protocol::kDirectGet)) {
    SENNIT_ASSIGN_OR_RETURN(StreamProgram program, compile_stream(*strand.schedule, rank));
    return std::variant<StreamProgram, SlotProgram>(std::move(program));
  }
  if (is_bound_to(strand, Protocol::kSlots)) {
    SENNIT_ASSIGN_OR_RETURN(SlotProgram program, compile_slots(*strand.schedule, rank));
    return std::variant<StreamProgram, SlotProgram>(std::move(program));
  }
  return fail(Code::kUnsupported, "streams run channels of direct_get, and slots on path host");
}

}  // namespace

bool PlanProgram::lends_input() const {
  return std::ranges::any_of(strands, [](const StrandProgram& strand) {
    const auto* const direct = std::get_if<StreamProgram>(&strand.program);
    return direct != nullptr && !direct->offers.empty();
  });
}

bool PlanProgram::lends_output() const {
  return std::ranges::any_of(strands, [](const StrandProgram& strand) {
    const auto* const direct = std::get_if<StreamProgram>(&strand.program);
    return direct != nullptr && !direct->passed_on().empty();
  });
}

bool PlanProgram::may_be_in_place() const {
  return std::ranges::all_of(strands, [](const StrandProgram& strand) {
    return std::visit([](const auto& program) { return program.may_be_in_place; }, strand.program);
  });
}

Result<PlanProgram> compile_plan(const Plan& plan, int rank) {
  if (plan.division != Division::kStatic) {
    return fail(Code::kUnsupported, "streams run plans whose strands have fixed shares");
  }
  PlanProgram result;
  result.rank = rank;
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    if (is_for_kernels(plan.strands[s]) && !result.of_kernels) {
      result.of_kernels = portion_of(plan, static_cast<int>(s));
      continue;
    }
    SENNIT_ASSIGN_OR_RETURN(auto program, compile_strand(plan.strands[s], rank));
    result.strands.push_back(
        {.program = std::move(program), .portion = portion_of(plan, static_cast<int>(s))});
  }
  return result;
}

}  // namespace sennit::stream
