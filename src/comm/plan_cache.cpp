#include "comm/plan_cache.hpp"

#include "base/log.hpp"
#include "codec/codec.hpp"
#include "exec/proved_plan.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

namespace sennit {
namespace {

// Why no rail can carry what a channel carries on these paths.
std::string why_no_rail(const HostRank& rank, const std::vector<Path>& paths) {
  if (rank.rails == nullptr) {
    return "no path joins nodes (a warning said why when the ranks joined)";
  }
  return fmt::format("path {} joins ranks of one node", text_of(paths));
}

}  // namespace

PlanCache::PlanCache(HostRank& rank, HostFacts facts, int ports, std::vector<int> nodes)
    : rank_(rank), facts_(std::move(facts)), ports_(ports), nodes_(std::move(nodes)) {
  groups_.resize(nodes_.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(nodes_)) + 1);
  for (std::size_t member = 0; member < nodes_.size(); ++member) {
    groups_[static_cast<std::size_t>(nodes_[member])].push_back(static_cast<int>(member));
  }
  // Ranks without counterparts on other nodes would have nothing to hand on.
  if (std::ranges::any_of(groups_,
                          [&](const auto& group) { return group.size() != groups_[0].size(); })) {
    groups_.clear();
  }
}

Result<const BoundProgram*> PlanCache::find(const PlanRequest& wanted) {
  SENNIT_ASSIGN_OR_RETURN(const BoundProgram* found, find_any(wanted));
  const Proof& proof = found->program().proof;
  SENNIT_CHECK(proof.scaled == wanted.scaled, "what the operator scales is what the plan scales");
  if (wanted.request.rank_order && !proof.reproducible) {
    const Schedule& schedule = *found->program().plan->strands.front().schedule;
    return fail(Code::kUnsupported,
                "{} {} on {} ranks does not reduce all contributions in one step in the order of "
                "ranks, which `reproducible` needs",
                name(wanted.collective),
                schedule.algorithm,
                schedule.problem.ranks);
  }
  return found;
}

Result<const BoundProgram*> PlanCache::find_any(const PlanRequest& wanted) {
  const bool pair = wanted.collective == Collective::kSendRecv;
  const Shape shape{.ranks = pair ? 2 : rank_.rings.geometry().ranks,
                    .root = wanted.root,
                    .groups = pair || wanted.varying ? std::vector<std::vector<int>>() : groups_,
                    .varying = wanted.varying};
  Result<Choice> chosen = choose(wanted.collective, shape, wanted.bytes, wanted.request, facts_);
  const auto choose_without_codec = [&] {
    CallRequest without_codec = wanted.request;
    without_codec.codec.clear();
    return choose(wanted.collective, shape, wanted.bytes, without_codec, facts_);
  };
  if (!chosen.ok() && wanted.codec_is_by_rule) {
    chosen = choose_without_codec();
  }
  SENNIT_ASSIGN_OR_RETURN(Choice choice, std::move(chosen));
  choice.scaled = wanted.scaled;
  const bool free_to_choose = !wanted.request.name_a_way();
  const Key key{wanted.collective,
                wanted.root,
                wanted.peer,
                wanted.role,
                wanted.varying,
                choice,
                free_to_choose || wanted.codec_is_by_rule};
  if (const auto known = programs_.find(key); known != programs_.end()) {
    return known->second.get();
  }
  auto made = make(wanted, shape, choice);
  const auto is_refused = [&] {
    return !made.ok() &&
           (made.status().code() == Code::kNotProved || made.status().code() == Code::kUnsupported);
  };
  if (is_refused() && choice.direct && free_to_choose) {
    choice.direct = false;
    made = make(wanted, shape, choice);
  }
  if (is_refused() && choice.spreads) {
    choice.spreads = false;  // each card takes a port of the rings
    made = make(wanted, shape, choice);
  }
  if (is_refused() && choice.codec && wanted.codec_is_by_rule) {
    SENNIT_ASSIGN_OR_RETURN(choice, choose_without_codec());
    choice.scaled = wanted.scaled;
    made = make(wanted, shape, choice);
  }
  if (!made.ok()) {
    return made.status();
  }
  const Strand& strand = (*made)->program().plan->strands.front();
  SENNIT_INFO("plan",
              "{} of {} bytes: {} by {}, tile {} bytes",
              name(wanted.collective),
              wanted.bytes,
              strand.schedule->algorithm,
              choice.slots_too ? "slots and direct"
              : choice.direct  ? "direct"
                               : "slots",
              strand.tile_bytes);
  return programs_.emplace(key, std::move(made).value()).first->second.get();
}

Result<std::unique_ptr<const BoundProgram>> PlanCache::make(const PlanRequest& wanted,
                                                            const Shape& shape,
                                                            const Choice& choice) {
  SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, make_plan(choice, shape, facts_));
  if (!nodes_.empty()) {
    SENNIT_ASSIGN_OR_RETURN(plan, bind_rails(wanted, choice, *plan));
  }
  const Result<ProvedPlan> proof = prove_once(std::move(plan));
  if (!proof.ok() && choice.codec) {
    return fail(Code::kUnsupported,
                "{} {} cannot have codec {}: {}",
                name(wanted.collective),
                choice.algorithm->name,
                name(*choice.codec),
                proof.status().message());
  }
  SENNIT_ASSIGN_OR_RETURN(const ProvedPlan proved, proof);
  const bool pair = wanted.collective == Collective::kSendRecv;
  const shm::RingGeometry& geometry = rank_.rings.geometry();
  const ProgramLimits limits{.ports = pair ? geometry.ports - ports_ : ports_,
                             .slots = geometry.slots,
                             .slot_bytes = geometry.slot_bytes,
                             .first_port = pair ? ports_ : 0};
  SENNIT_ASSIGN_OR_RETURN(
      Program program, compile(proved.plan, proved.proof, pair ? wanted.role : rank_.rank, limits));
  if (!pair) {
    return std::make_unique<const BoundProgram>(std::move(program), rank_, std::span<const int>());
  }
  const std::array<int, 2> ranks =
      wanted.role == 0 ? std::array{rank_.rank, wanted.peer} : std::array{wanted.peer, rank_.rank};
  return std::make_unique<const BoundProgram>(std::move(program), rank_, ranks);
}

int PlanCache::rank_in_plan(const PlanRequest& wanted, int rank) const {
  if (wanted.collective != Collective::kSendRecv) {
    return rank;
  }
  return rank == wanted.role ? rank_.rank : wanted.peer;
}

// The ways of a channel between nodes to `reader`; below 0 it has several.
std::vector<Path> PlanCache::rails_of(const Choice& choice, int reader) const {
  std::vector<Path> rails;
  for (const int card : choice.cards) {
    rails.emplace_back(PathKind::kRail, card);
  }
  if (choice.spreads && reader >= 0) {
    const int first = rank_.rail_to(reader);
    const int places = facts_.cards / facts_.cards_a_rank;
    for (int k = 0; k < facts_.cards_a_rank; ++k) {
      rails.emplace_back(PathKind::kRail, first + k * places);
    }
  }
  return rails.empty() ? std::vector<Path>{PathKind::kRail} : rails;
}

// Channels that cross nodes take their rails. A function of what all ranks share, so all bind the
// same, or refuse the same calls.
Result<std::shared_ptr<const Plan>> PlanCache::bind_rails(const PlanRequest& wanted,
                                                          const Choice& choice,
                                                          const Plan& plan) const {
  Plan bound = plan;
  bool crosses = false;
  for (Strand& strand : bound.strands) {
    for (std::size_t c = 0; c < strand.channels.size(); ++c) {
      const Channel& channel = strand.schedule->channels[c];
      const int from = rank_in_plan(wanted, channel.writer.rank);
      for (const LaneId& reader : channel.readers) {
        const int to = rank_in_plan(wanted, reader.rank);
        if (node_of(from) == node_of(to)) {
          continue;
        }
        if (rank_.rails == nullptr ||
            strand.channels[c].paths != std::vector<Path>{PathKind::kShm}) {
          return fail(Code::kUnsupported,
                      "{} {} sends from rank {} (node {}) to rank {} (node {}), and {}; make "
                      "communicators of the ranks of one node",
                      name(wanted.collective),
                      strand.schedule->algorithm,
                      from,
                      node_of(from),
                      to,
                      node_of(to),
                      why_no_rail(rank_, strand.channels[c].paths));
        }
        crosses = true;
        strand.channels[c].paths = rails_of(choice, channel.readers.size() == 1 ? to : -1);
        break;
      }
    }
  }
  if (!crosses && !choice.cards.empty()) {
    return fail(Code::kUnsupported,
                "path {} joins nodes, and {} {} sends nothing from one to another",
                wanted.request.path,
                name(wanted.collective),
                choice.algorithm->name);
  }
  return std::make_shared<const Plan>(std::move(bound));
}

}  // namespace sennit
