#include "select/candidates.hpp"

#include "select/machine_plan.hpp"
#include "sim/simulate.hpp"

#include <algorithm>

namespace sennit {
namespace {

Result<Candidate> try_tile(const MachinePlanRequest& wanted, const Topology& machine) {
  SENNIT_ASSIGN_OR_RETURN(const Plan plan, plan_on_machine(wanted, machine));
  SENNIT_ASSIGN_OR_RETURN(const Simulation run,
                          simulate(plan,
                                   machine,
                                   {.count = wanted.bytes,
                                    .element_bytes = 1,
                                    .ranks_per_device = wanted.ranks_per_device}));
  Candidate candidate{.algorithm = wanted.algorithm,
                      .tile_bytes = plan.strands.front().tile_bytes,
                      .seconds = run.seconds};
  const auto busiest = std::ranges::max_element(run.resources, {}, &ResourceUse::busy);
  if (busiest != run.resources.end()) {
    candidate.busiest_link = busiest->name;
    candidate.busiest_use = busiest->busy;
  }
  return candidate;
}

Result<Candidate> try_algorithm(MachinePlanRequest wanted, const Topology& machine) {
  SENNIT_ASSIGN_OR_RETURN(Candidate best, try_tile(wanted, machine));
  constexpr std::int64_t kFactor = 4;
  constexpr std::int64_t kSmallestTile = 4096;
  for (const std::int64_t tile : {best.tile_bytes / kFactor, best.tile_bytes * kFactor}) {
    // One tile that holds all is as good as a larger one.
    if (tile >= kSmallestTile && tile < kFactor * std::max<std::int64_t>(1, wanted.bytes)) {
      wanted.tile_bytes = tile;
      SENNIT_ASSIGN_OR_RETURN(Candidate candidate, try_tile(wanted, machine));
      if (candidate.seconds < best.seconds) {
        best = std::move(candidate);
      }
    }
  }
  return best;
}

}  // namespace

Candidates rank_candidates(const CandidateRequest& request, const Topology& machine) {
  Candidates candidates;
  const Shape shape =
      grouped({.ranks = request.ranks, .root = request.root}, machine, request.ranks_per_device);
  for (const Algorithm& algorithm : algorithms(request.collective)) {
    const Result<Candidate> candidate = try_algorithm({.algorithm = &algorithm,
                                                       .shape = shape,
                                                       .bytes = request.bytes,
                                                       .ranks_per_device = request.ranks_per_device,
                                                       .paths = request.paths},
                                                      machine);
    if (candidate.ok()) {
      candidates.ranked.push_back(*candidate);
    } else {
      candidates.refused.push_back(
          {.algorithm = &algorithm, .refused = candidate.status().message()});
    }
  }
  std::ranges::stable_sort(candidates.ranked, {}, &Candidate::seconds);
  return candidates;
}

std::string Candidates::reason() const {
  if (ranked.empty()) {
    return "no algorithm runs on this machine";
  }
  const Candidate& best = ranked.front();
  const std::string link =
      best.busiest_link.empty()
          ? "no link limits it"
          : fmt::format(
                "it keeps {} busy {:.0f} % of the time", best.busiest_link, best.busiest_use * 100);
  if (ranked.size() == 1) {
    return fmt::format("{} is the only one that runs here; {}", best.algorithm->name, link);
  }
  return fmt::format("{} is {:.2f} times as fast as the next, {}; {}",
                     best.algorithm->name,
                     best.seconds > 0 ? ranked[1].seconds / best.seconds : 1,
                     ranked[1].algorithm->name,
                     link);
}

}  // namespace sennit
