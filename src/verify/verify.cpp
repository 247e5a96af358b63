#include "verify/verify.hpp"

#include "barrier.hpp"
#include "cells.hpp"
#include "checks.hpp"
#include "graph.hpp"
#include "protocols.hpp"
#include "races.hpp"
#include "values.hpp"

#include "schedule/known_lengths.hpp"

namespace sennit {
namespace {

struct StrandProof {
  bool in_place = false;
  std::string why_not_in_place;
  ScaledParts scaled;
  bool reproducible = false;
};

// What orders the steps of a tile, and what of it still does when messages are missing. They differ
// only where lengths vary.
struct Orders {
  Order steps;
  Order accesses;
};

// Memory and values, with one assignment of blocks to cells. Races come first: without any, every
// order of execution gives the values of the one that is run on symbols.
Result<ValueProof> prove_memory(const Graph& graph,
                                const Orders& orders,
                                bool in_place,
                                const Checks& checks,
                                Expressions& expressions) {
  const Cells cells(graph.program().schedule(), in_place);
  if (checks.overlaps) {
    SENNIT_RETURN_IF_ERROR(check_overlaps(graph.program(), cells));
  }
  if (checks.races) {
    SENNIT_RETURN_IF_ERROR(check_races(graph, orders.accesses, cells));
  }
  if (checks.scratch_reuse) {
    SENNIT_RETURN_IF_ERROR(check_scratch_reuse(graph, cells));
  }
  return check_values(graph, orders.steps, cells, checks, expressions);
}

Result<StrandProof> prove_strand(const Strand& strand, const Checks& checks) {
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
  SENNIT_ASSIGN_OR_RETURN(const Graph graph, Graph::build(program));
  const Order order(graph);
  if (!order.complete()) {
    return checks.live ? Result<StrandProof>(
                             fail(Code::kNotProved, "not live: {}", explain_circle(graph, order)))
                       : StrandProof{};
  }
  if (strand.schedule->problem.collective == Collective::kBarrier && checks.contributions) {
    SENNIT_RETURN_IF_ERROR(check_barrier(graph, order));
  }
  const bool skips = varying && checks.skips;
  const Orders orders{.steps = order,
                      .accesses = skips ? Order(graph.without_single_hop()) : order};
  StrandProof proof;
  Expressions expressions(strand.schedule->problem.ranks);
  SENNIT_ASSIGN_OR_RETURN(const ValueProof apart,
                          prove_memory(graph, orders, false, checks, expressions));
  const Result<ValueProof> in_place = prove_memory(graph, orders, true, checks, expressions);
  proof.scaled = apart.scaled;
  proof.reproducible = apart.reproducible;
  // Ranks may differ in whether they are in place. A rank's values follow from its own memory and
  // from what it is told, so when all messages are the same both ways, every mixture is right, too.
  proof.in_place = in_place.ok() && in_place->messages == apart.messages;
  if (!proof.in_place) {
    proof.why_not_in_place = in_place.ok()
                                 ? "values: some messages are not what they are out of place"
                                 : in_place.status().message();
  }
  return proof;
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
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const Result<StrandProof> strand = prove_strand(plan.strands[s], checks);
    if (!strand.ok()) {
      return plan.strands.size() == 1 ? strand.status()
                                      : strand.status().in(fmt::format("strand {}", s));
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
      return prove_strand(tried, Checks{}).ok();
    };
    sets[c] = {.slots = holds(Protocol::kSlots),
               .direct_get = holds(Protocol::kDirectGet),
               .direct_put = holds(Protocol::kDirectPut)};
    tried.channels[c].protocol = bound.channels[c].protocol;
  }
  return sets;
}

}  // namespace sennit
