#include "select/host_candidates.hpp"

#include "select/pipeline_model.hpp"

#include <algorithm>
#include <limits>

namespace sennit {
namespace {

std::string_view way_name(bool direct) { return direct ? "direct" : "slots"; }

void predict(const Schedule& schedule,
             std::int64_t bytes,
             const HostFacts& facts,
             HostCandidate& candidate) {
  const MessageFit* fit =
      facts.table ? facts.table->fit(schedule.problem.ranks, candidate.direct, bytes) : nullptr;
  if (fit == nullptr) {
    return;
  }
  PipelineModel model = pipeline_model(schedule);
  model.start_s = fit->start_us * 1e-6;
  model.bytes_per_s = fit->gbps * 1e9;
  const auto block = static_cast<double>(block_range(schedule.problem, bytes, 1, 0).length);
  double tile = std::max(1.0, model.best_tile_bytes(block));
  if (!candidate.direct) {
    // A message of several blocks lies in one slot.
    tile = std::min(tile, static_cast<double>(facts.slot_bytes) / model.message_blocks);
  }
  candidate.predicted_tile = static_cast<std::int64_t>(tile);
  candidate.predicted_us = model.seconds(block, tile) * 1e6;
}

void look_up(Collective collective,
             const Shape& shape,
             std::int64_t bytes,
             const HostFacts& facts,
             HostCandidate& candidate) {
  const Timing* best =
      facts.table ? facts.table->best(collective, shape.ranks, bytes, Carriers::kAny) : nullptr;
  if (best == nullptr) {
    return;
  }
  for (const Timing& timing : facts.table->timings()) {
    const bool same_cell = timing.collective == collective && timing.ranks == shape.ranks &&
                           timing.bytes == best->bytes;
    if (same_cell && timing.algorithm == candidate.algorithm && timing.direct == candidate.direct &&
        (!candidate.measured_us || timing.us < *candidate.measured_us)) {
      candidate.measured_us = timing.us;
      candidate.measured_tile = timing.tile_bytes;
      candidate.measured_bytes = timing.bytes;
    }
  }
}

HostCandidate candidate_of(const Algorithm& algorithm,
                           bool direct,
                           const Shape& shape,
                           std::int64_t bytes,
                           const HostFacts& facts) {
  HostCandidate candidate{.algorithm = &algorithm, .direct = direct};
  const CallRequest request{.algorithm = std::string(algorithm.name),
                            .path = {},
                            .protocol = std::string(way_name(direct)),
                            .codec = {}};
  const Result<Choice> choice = choose(algorithm.collective, shape, bytes, request, facts);
  if (!choice.ok()) {
    candidate.refused = choice.status().message();
    return candidate;
  }
  const Result<std::shared_ptr<const Plan>> plan = make_plan(*choice, shape, facts);
  if (!plan.ok()) {
    candidate.refused = plan.status().message();
    return candidate;
  }
  predict(*(*plan)->strands.front().schedule, bytes, facts, candidate);
  look_up(algorithm.collective, shape, bytes, facts, candidate);
  return candidate;
}

std::string reason_of(const HostCandidates& made, const HostFacts& facts, int ranks) {
  const std::string chosen =
      fmt::format("{} by {}", made.choice.algorithm->name, way_name(made.choice.direct));
  const auto measured = std::ranges::find_if(made.candidates, [&](const HostCandidate& candidate) {
    return candidate.algorithm == made.choice.algorithm && candidate.direct == made.choice.direct &&
           candidate.measured_us.has_value();
  });
  if (measured == made.candidates.end()) {
    return facts.table
               ? fmt::format(
                     "{} by the built-in rule: the table has no times of {} ranks", chosen, ranks)
               : fmt::format("{} by the built-in rule: there is no tuning table", chosen);
  }
  double next = std::numeric_limits<double>::infinity();
  for (const HostCandidate& other : made.candidates) {
    if (&other != &*measured && other.measured_us) {
      next = std::min(next, *other.measured_us);
    }
  }
  const std::string lead =
      next < std::numeric_limits<double>::infinity()
          ? fmt::format(", {:.2f} times as fast as the next", next / *measured->measured_us)
          : "";
  return fmt::format("{} was the fastest measured for {} bytes, the nearest size: {:.1f} us{}",
                     chosen,
                     measured->measured_bytes,
                     *measured->measured_us,
                     lead);
}

}  // namespace

Result<HostCandidates> host_candidates(Collective collective,
                                       const Shape& shape,
                                       std::int64_t bytes,
                                       const HostFacts& facts) {
  HostCandidates made;
  SENNIT_ASSIGN_OR_RETURN(made.choice, choose(collective, shape, bytes, {}, facts));
  for (const Algorithm& algorithm : algorithms(collective)) {
    for (const bool direct : {false, true}) {
      made.candidates.push_back(candidate_of(algorithm, direct, shape, bytes, facts));
    }
  }
  constexpr double kLast = std::numeric_limits<double>::infinity();
  std::ranges::stable_sort(made.candidates, {}, [=](const HostCandidate& candidate) {
    return std::pair(candidate.measured_us.value_or(kLast), candidate.predicted_us.value_or(kLast));
  });
  made.reason = reason_of(made, facts, shape.ranks);
  return made;
}

}  // namespace sennit
