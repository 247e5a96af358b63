#include "verify/verify.hpp"

#include "barrier.hpp"
#include "cells.hpp"
#include "checks.hpp"
#include "graph.hpp"
#include "protocols.hpp"
#include "races.hpp"
#include "values.hpp"

#include "schedule/known_lengths.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace sennit {
namespace {

struct StrandProof {
  bool in_place = false;
  std::string why_not_in_place;
  ScaledParts scaled;
  bool reproducible = false;
  std::vector<int> outputs;  // see ValueProof
};

// A graph and its order.
struct Waits {
  explicit Waits(Graph made) : graph(std::move(made)), order(graph) {}

  Graph graph;
  Order order;
};

// What orders the steps whatever is chosen (see Coupling), and whatever messages are missing where
// lengths vary; one and the same where there is no choice and all messages are there.
struct Enclosure {
  const Waits& tightest;
  const Waits& loosest;
};

bool has_bundle(const Strand& strand) {
  return std::ranges::any_of(
      strand.channels, [](const ChannelBinding& binding) { return binding.paths.size() > 1; });
}

// Memory and values, with one assignment of blocks to cells. Races come first: without any, every
// order of execution gives the values of the one that is run on symbols.
Result<ValueProof> prove_memory(const Enclosure& waits,
                                bool in_place,
                                const Checks& checks,
                                Expressions& expressions) {
  const Graph& graph = waits.loosest.graph;
  const Cells cells(graph.program().schedule(), in_place);
  if (checks.overlaps) {
    SENNIT_RETURN_IF_ERROR(check_overlaps(graph.program(), cells));
  }
  if (checks.races) {
    SENNIT_RETURN_IF_ERROR(check_races(graph, waits.loosest.order, waits.tightest.order, cells));
  }
  if (checks.scratch_reuse) {
    SENNIT_RETURN_IF_ERROR(check_scratch_reuse(graph, cells));
  }
  return check_values(waits.tightest.graph, waits.tightest.order, cells, checks, expressions);
}

Result<StrandProof> prove_strand(const Strand& strand,
                                 const Checks& checks,
                                 Expressions& expressions) {
  const FlatStrand program(strand);
  const bool varying = strand.schedule->problem.varying;
  if (varying && checks.known_lengths) {
    if (const Status known = check_known_lengths(*strand.schedule); !known.ok()) {
      return fail(Code::kNotProved, "lengths: {}", known.message());
    }
  }
  if (checks.protocols) {
    SENNIT_RETURN_IF_ERROR(check_protocols(program));
  }
  SENNIT_ASSIGN_OR_RETURN(Graph graph, Graph::build(program));
  const Waits tightest(std::move(graph));
  if (!tightest.order.complete()) {
    return checks.live ? Result<StrandProof>(fail(Code::kNotProved,
                                                  "not live: {}",
                                                  explain_circle(tightest.graph, tightest.order)))
                       : StrandProof{};
  }
  std::optional<Waits> loosest;
  if (has_bundle(strand)) {
    SENNIT_ASSIGN_OR_RETURN(Graph loose, Graph::build(program, Coupling::kLoosest));
    loosest.emplace(std::move(loose));
  } else if (varying && checks.skips) {
    loosest.emplace(tightest.graph.without_single_hop());
  }
  const Enclosure waits{.tightest = tightest, .loosest = loosest ? *loosest : tightest};
  if (strand.schedule->problem.collective == Collective::kBarrier && checks.contributions) {
    SENNIT_RETURN_IF_ERROR(check_barrier(waits.loosest.graph, waits.loosest.order));
  }
  StrandProof proof;
  SENNIT_ASSIGN_OR_RETURN(ValueProof separate, prove_memory(waits, false, checks, expressions));
  const Result<ValueProof> in_place = prove_memory(waits, true, checks, expressions);
  proof.scaled = separate.scaled;
  proof.reproducible = separate.reproducible;
  proof.outputs = std::move(separate.outputs);
  // Ranks may differ in whether they are in place. A rank's values follow from its own memory and
  // from what it receives, so when all messages are the same both ways, every mixture is right,
  // too.
  proof.in_place = in_place.ok() && in_place->messages == separate.messages;
  if (!proof.in_place) {
    proof.why_not_in_place = in_place.ok()
                                 ? "values: some messages are not what they are out of place"
                                 : in_place.status().message();
  }
  return proof;
}

// The bits of a claimed plan must not depend on which strand carries a grain.
Status check_equal_strands(const Problem& problem,
                           std::span<const int> first,
                           std::span<const int> other) {
  std::size_t next = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (int block = 0; block < problem.output_blocks(rank); ++block, ++next) {
      if (first[next] != other[next]) {
        return fail(Code::kNotProved,
                    "claimed: output[{}] of rank {} has another expression tree than in strand 0, "
                    "so its bits would depend on timing",
                    block,
                    rank);
      }
    }
  }
  return {};
}

}  // namespace

Result<Proof> verify(const Plan& plan) { return verify_with(plan, Checks{}); }

Result<Proof> verify_with(const Plan& plan, const Checks& checks) {
  if (const Status status = check_structure(plan); !status.ok()) {
    return fail(Code::kNotProved, "structure: {}", status.message());
  }
  Proof proof;
  proof.structure_hash = structure_hash(plan);
  proof.in_place = true;
  proof.reproducible = true;
  Expressions expressions(plan.problem().ranks);
  std::vector<int> outputs;  // of strand 0
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const auto fail_in = [&](const Status& status) {
      return plan.strands.size() == 1 ? status : status.in(fmt::format("strand {}", s));
    };
    const Result<StrandProof> strand = prove_strand(plan.strands[s], checks, expressions);
    if (!strand.ok()) {
      return fail_in(strand.status());
    }
    if (s == 0) {
      outputs = strand->outputs;
    } else if (plan.division == Division::kClaimed && checks.equal_strands) {
      const Status equal = check_equal_strands(plan.problem(), outputs, strand->outputs);
      if (!equal.ok()) {
        return fail_in(equal);
      }
    }
    if (s > 0 && strand->scaled != proof.scaled) {
      return fail(Code::kNotProved, "values: strand {} scales other values than strand 0", s);
    }
    proof.scaled = strand->scaled;
    if (proof.in_place && !strand->in_place) {
      proof.in_place = false;
      proof.why_not_in_place = strand->why_not_in_place;
    }
    proof.reproducible = proof.reproducible && strand->reproducible;
  }
  return proof;
}

std::vector<ProtocolSet> legal_protocols(const Plan& plan, int strand_index) {
  const Strand& bound = plan.strands[static_cast<std::size_t>(strand_index)];
  std::vector<ProtocolSet> sets(bound.channels.size());
  Strand tried = bound;
  for (std::size_t c = 0; c < sets.size(); ++c) {
    const auto holds = [&](Protocol protocol) {
      tried.channels[c].protocol = protocol;
      Expressions expressions(tried.schedule->problem.ranks);
      return prove_strand(tried, Checks{}, expressions).ok();
    };
    sets[c] = {.slots = holds(Protocol::kSlots),
               .direct_get = holds(Protocol::kDirectGet),
               .direct_put = holds(Protocol::kDirectPut)};
    tried.channels[c].protocol = bound.channels[c].protocol;
  }
  return sets;
}

}  // namespace sennit
