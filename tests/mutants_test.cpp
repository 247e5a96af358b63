// What the proof accepts runs right: schedules of all algorithms with one mistake each, which the
// verifier judges; what it accepts runs on the host executor under random delays, and on symbols in
// random orders. Prints how many of each kind were made, refused and accepted.
//
// SENNIT_MUTANTS is the number of each kind, 200 if it is not set (50 with sanitizers);
// SENNIT_TEST_SEED tries others.
#include "mutants.hpp"

#include "plan_runner.hpp"

#include "algo/algorithm.hpp"
#include "algo/testing/one_tile.hpp"
#include "base/testing/trials.hpp"
#include "verify/verify.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kMostRanks = 6;
constexpr std::int64_t kTileBytes = 64;
constexpr unsigned kOrders = 3;

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text, nullptr, 10));
}

// ---- Where mutants come from ----

std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> rows;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& row : algorithms(collective)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

Result<Schedule> any_schedule(Random& random, const Algorithm& algorithm) {
  Shape shape;
  shape.ranks =
      algorithm.collective == Collective::kSendRecv ? 2 : 2 + pick(random, kMostRanks - 1);
  shape.root = is_rooted(algorithm.collective) ? pick(random, shape.ranks) : 0;
  if (algorithm.takes_groups) {
    const int group = 1 + pick(random, shape.ranks);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      if (rank % group == 0) {
        shape.groups.emplace_back();
      }
      shape.groups.back().push_back(rank);
    }
  }
  shape.radix = algorithm.takes_radix ? 2 + pick(random, 3) : 0;
  shape.varying = has_varying_form(algorithm.collective) && pick(random, 3) == 0;
  return make_schedule(algorithm, shape);
}

// How the messages of a mutant travel; of all but the first, those that are stored whole.
enum class Carriage { kSlots, kDirect, kBundle, kBundleOfReaders, kClaimed };
constexpr std::array kCarriages = {Carriage::kSlots,
                                   Carriage::kSlots,
                                   Carriage::kDirect,
                                   Carriage::kBundle,
                                   Carriage::kBundleOfReaders,
                                   Carriage::kClaimed};
constexpr std::array kNamesOfCarriages = {
    "slots", "direct", "bundles", "bundles of readers", "claimed"};

Strand strand_of(const Mutant& mutant, Carriage carriage) {
  const auto schedule = std::make_shared<const Schedule>(mutant.schedule);
  Strand strand = bind(schedule, PathKind::kShm, Protocol::kSlots, mutant.slots, Engine::kCpu);
  strand.tile_bytes = kTileBytes;
  for (std::size_t c = 0; carriage != Carriage::kSlots && c < strand.channels.size(); ++c) {
    if (is_stored_whole(*schedule, static_cast<int>(c))) {
      ChannelBinding& channel = strand.channels[c];
      channel.paths = carriage == Carriage::kDirect
                          ? std::vector<Path>{PathKind::kCma}
                          : std::vector<Path>{PathKind::kShm, PathKind::kCma};
      channel.protocol = Protocol::kDirectGet;
      channel.chooser =
          carriage == Carriage::kBundleOfReaders ? Chooser::kReader : Chooser::kSender;
    }
  }
  return strand;
}

Plan plan_of(const Mutant& mutant, Carriage carriage) {
  if (carriage != Carriage::kClaimed) {
    return {.strands = {strand_of(mutant, carriage)}};
  }
  return {.strands = {strand_of(mutant, Carriage::kSlots), strand_of(mutant, Carriage::kDirect)},
          .division = Division::kClaimed};
}

// ---- What becomes of one ----

// One order of execution by the host executor and one on symbols.
std::string run_once(const Plan& plan, const Proof& proof, bool in_place, unsigned order) {
  const Schedule& schedule = *plan.strands.front().schedule;
  const auto& channels = plan.strands.front().channels;
  const RunOptions options{.dtype = order % kOrders == 0 ? Dtype::kFloat32 : Dtype::kInt64,
                           .in_place = in_place && !schedule.problem.varying,
                           .seed = order};
  const std::string defect = run_plan(plan, proof, options);
  return !defect.empty() ? defect
                         : one_tile::run(schedule,
                                         {.in_place = in_place,
                                          .slots = channels.empty() ? 2 : channels.front().slots,
                                          .seed = order,
                                          .commutative = true});
}

std::string run_everywhere(const Plan& plan, const Proof& proof, unsigned seed) {
  const Schedule& schedule = *plan.strands.front().schedule;
  if (schedule.problem.collective == Collective::kBarrier &&
      !one_tile::last_steps_follow_all_first_steps(schedule)) {
    return "a rank leaves the barrier before all have come";
  }
  for (unsigned order = seed * kOrders; order < (seed + 1) * kOrders; ++order) {
    std::string defect = run_once(plan, proof, /*in_place=*/false, order);
    if (defect.empty() && proof.in_place) {
      defect = run_once(plan, proof, /*in_place=*/true, order);
    }
    if (!defect.empty()) {
      return defect;
    }
  }
  return {};
}

// Whether some order of execution shows that it is wrong.
bool is_seen_wrong(const Mutant& mutant) {
  for (unsigned order = 0; order < kOrders; ++order) {
    if (!one_tile::run(mutant.schedule, {.slots = mutant.slots, .seed = order}).empty()) {
      return true;
    }
  }
  return mutant.schedule.problem.collective == Collective::kBarrier &&
         !one_tile::last_steps_follow_all_first_steps(mutant.schedule);
}

struct Tally {
  int made = 0;
  int malformed = 0;   // refused by their structure alone
  int refused = 0;     // by the proof
  int seen_wrong = 0;  // of these, in some order tried
  int accepted = 0;
  std::array<int, kNamesOfCarriages.size()> accepted_by_carriage{};
  std::vector<std::string> wrong;  // accepted, and run wrong
};

void judge(const Mutant& mutant, Carriage carriage, unsigned seed, Tally& tally) {
  ++tally.made;
  if (!check_structure(mutant.schedule).ok()) {
    ++tally.malformed;
    return;
  }
  const Plan plan = plan_of(mutant, carriage);
  const Result<Proof> proof = verify(plan);
  if (!proof.ok()) {
    ++tally.refused;
    tally.seen_wrong += is_seen_wrong(mutant) ? 1 : 0;
    return;
  }
  ++tally.accepted;
  ++tally.accepted_by_carriage[static_cast<std::size_t>(carriage)];
  const std::string defect = run_everywhere(plan, *proof, seed);
  if (!defect.empty()) {
    const Problem& problem = mutant.schedule.problem;
    tally.wrong.push_back(fmt::format("{} {}, {} ranks, root {}, {}{}: {}",
                                      name(problem.collective),
                                      mutant.schedule.algorithm,
                                      problem.ranks,
                                      problem.root,
                                      kNamesOfCarriages[static_cast<std::size_t>(carriage)],
                                      problem.varying ? ", varying" : "",
                                      defect));
  }
}

// Mutants of one kind, of every algorithm that has a place for them in turn.
Tally make_and_judge(const MutantKind& kind, int wanted, unsigned first_seed) {
  const std::vector<const Algorithm*> rows = all_algorithms();
  Tally tally;
  const unsigned tries = static_cast<unsigned>(wanted) * 200;
  for (unsigned seed = first_seed; seed < first_seed + tries && tally.made < wanted; ++seed) {
    Random random(seed);
    auto schedule = any_schedule(random, *rows[seed % rows.size()]);
    if (!schedule.ok()) {
      continue;
    }
    Mutant mutant{.schedule = *schedule, .slots = 2 + pick(random, 2)};
    Carriage carriage =
        kCarriages[static_cast<std::size_t>(pick(random, static_cast<int>(kCarriages.size())))];
    carriage = verify(plan_of(mutant, carriage)).ok() ? carriage : Carriage::kSlots;
    const Mutant sound = mutant;
    if (kind.apply(random, mutant) &&
        (mutant.schedule != sound.schedule || mutant.slots != sound.slots)) {
      judge(mutant, carriage, seed, tally);
    }
  }
  return tally;
}

TEST(Mutants, WhatIsAcceptedRunsRight) {
  const int wanted = number("SENNIT_MUTANTS", trials(200, 50));
  const auto seed = static_cast<unsigned>(number("SENNIT_TEST_SEED", 1));
  fmt::print("{:<20} {:>6} {:>10} {:>8} {:>11} {:>9}  {}\n",
             "kind",
             "made",
             "malformed",
             "refused",
             "seen wrong",
             "accepted",
             "accepted, because");
  std::array<int, kNamesOfCarriages.size()> accepted{};
  for (const MutantKind& kind : mutant_kinds()) {
    const Tally tally = make_and_judge(kind, wanted, seed);
    fmt::print("{:<20} {:>6} {:>10} {:>8} {:>11} {:>9}  {}\n",
               kind.name,
               tally.made,
               tally.malformed,
               tally.refused,
               tally.seen_wrong,
               tally.accepted,
               tally.accepted > 0 ? kind.may_be_right : "");
    EXPECT_EQ(tally.made, wanted) << kind.name;
    EXPECT_TRUE(tally.accepted == 0 || !kind.may_be_right.empty()) << kind.name;
    EXPECT_TRUE(tally.wrong.empty())
        << kind.name << ": " << tally.wrong.size() << ", such as " << tally.wrong.front();
    std::ranges::transform(accepted, tally.accepted_by_carriage, accepted.begin(), std::plus());
  }
  for (std::size_t carriage = 0; carriage < accepted.size(); ++carriage) {
    fmt::print("accepted, {}: {}\n", kNamesOfCarriages[carriage], accepted[carriage]);
    EXPECT_GT(accepted[carriage], 0) << kNamesOfCarriages[carriage];
  }
}

}  // namespace
}  // namespace sennit::tests
