#include "select/reproduce/reproduce.hpp"

#include "select/machine_plan.hpp"
#include "select/reproduce/claims.hpp"
#include "sim/simulate.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace sennit {
namespace {

constexpr std::array kClaims = {
    claims_of_paper1, claims_of_paper2, claims_of_paper3, claims_of_paper4, claims_of_paper5};

// By how much two numbers differ: 0.5 where one is half as large again as the other.
double distance(double a, double b) {
  return a > 0 && b > 0 ? std::max(a / b, b / a) - 1 : std::numeric_limits<double>::infinity();
}

Verdict judge(const Claim& claim, double ours) {
  const bool is_gain = claim.unit == "x";
  if (!claim.paper_value) {
    return !is_gain || ours > 1 ? Verdict::kShapeOnly : Verdict::kNotReproduced;
  }
  const double off = distance(ours, *claim.paper_value);
  if (off <= claim.tolerance) {
    return Verdict::kReproduced;
  }
  // A factor of more than three is another shape.
  constexpr double kSameShape = 2;
  const bool same_winner = is_gain && (ours > 1) == (*claim.paper_value > 1);
  return same_winner && off <= kSameShape ? Verdict::kShapeOnly : Verdict::kNotReproduced;
}

}  // namespace

std::vector<double> doublings(double from, double to) {
  std::vector<double> values;
  double value = from;
  while (value <= to) {
    values.push_back(value);
    value *= 2;
  }
  return values;
}

std::string_view name(How how) {
  switch (how) {
    case How::kSimulated:
      return "simulated";
    case How::kModel:
      return "model";
    case How::kCoded:
      return "coded";
  }
  return "?";
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "reproduced";
    case Verdict::kShapeOnly:
      return "shape only";
    case Verdict::kNotReproduced:
      return "not reproduced";
  }
  return "?";
}

Result<std::vector<Reproduction>> reproduce(std::optional<int> paper,
                                            const MachineSource& machines) {
  std::vector<Reproduction> rows;
  for (int number = 1; number <= kPapers; ++number) {
    if (paper && *paper != number) {
      continue;
    }
    for (const Claim& claim : kClaims[static_cast<std::size_t>(number - 1)]()) {
      SENNIT_ASSIGN_OR_RETURN(const Topology machine, machines(claim.machine));
      SENNIT_ASSIGN_OR_RETURN(const double ours, claim.ours(machine));
      rows.push_back({.paper = number,
                      .figure = claim.figure,
                      .quantity = claim.quantity,
                      .unit = claim.unit,
                      .paper_value = claim.paper_value,
                      .ours = ours,
                      .tolerance = claim.tolerance,
                      .how = claim.how,
                      .machine = claim.machine,
                      .verdict = judge(claim, ours),
                      .why = claim.why});
    }
  }
  return rows;
}

Result<double> simulated_seconds(const Topology& machine, const Run& run, std::int64_t tile_bytes) {
  SENNIT_ASSIGN_OR_RETURN(const Algorithm* algorithm,
                          find_algorithm(run.collective, run.algorithm));
  const Shape shape = grouped({.ranks = run.ranks, .radix = run.radix}, machine, 1);
  SENNIT_ASSIGN_OR_RETURN(
      Plan plan,
      plan_on_machine(
          {.algorithm = algorithm, .shape = shape, .bytes = run.bytes, .tile_bytes = tile_bytes},
          machine));
  if (run.change) {
    run.change(plan);
  }
  SENNIT_ASSIGN_OR_RETURN(const Simulation simulation,
                          simulate(plan, machine, {.count = run.bytes, .element_bytes = 1}));
  return simulation.seconds;
}

Result<double> best_simulated_seconds(const Topology& machine, const Run& run) {
  SENNIT_ASSIGN_OR_RETURN(double best, simulated_seconds(machine, run, 0));
  constexpr std::int64_t kSmallest = 64 * 1024;
  for (std::int64_t tile = kSmallest; tile < 2 * run.bytes; tile *= 2) {
    // Thousands of tiles were never the best, and take long.
    constexpr std::int64_t kMostTiles = 512;
    if (run.bytes / tile <= kMostTiles) {
      SENNIT_ASSIGN_OR_RETURN(const double seconds, simulated_seconds(machine, run, tile));
      best = std::min(best, seconds);
    }
  }
  return best;
}

Result<double> simulated_gain(const Topology& machine, const Run& run, const Run& rival) {
  SENNIT_ASSIGN_OR_RETURN(const double ours, best_simulated_seconds(machine, run));
  SENNIT_ASSIGN_OR_RETURN(const double theirs, best_simulated_seconds(machine, rival));
  return theirs / ours;
}

}  // namespace sennit
