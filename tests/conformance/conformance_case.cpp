#include "conformance_case.hpp"

#include "node_groups.hpp"

#include "exec/cpu/program.hpp"
#include "select/select.hpp"
#include "verify/verify.hpp"

#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

namespace sennit::tests {
namespace {

std::vector<int> roots_of(Collective collective, int ranks) {
  if (!is_rooted(collective)) {
    return {0};
  }
  if (ranks > 5) {
    return {0, ranks - 1};
  }
  std::vector<int> roots(static_cast<std::size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

struct Pair {
  Dtype dtype;
  ReduceOp op;
};

std::vector<Pair> pairs_of(Collective collective) {
  std::vector<Pair> pairs;
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      const bool belongs = is_reduction(collective) ? has_operator(dtype, op) : op == kReduceOps[0];
      if (belongs && (collective != Collective::kBarrier || dtype == Dtype::kUint8)) {
        pairs.push_back({dtype, op});
      }
    }
  }
  return pairs;
}

std::vector<Placement> placements_of(Collective collective) {
  return collective == Collective::kBarrier || collective == Collective::kSendRecv
             ? std::vector{Placement::kNone}
             : std::vector{Placement::kNone, Placement::kAll, Placement::kOddRanks};
}

// Data that only moves is compared bit by bit, and integers are exact whatever their values.
std::vector<Values> values_of(Collective collective, Dtype dtype) {
  const bool rounds = kind_of(dtype) == Kind::kFloat || kind_of(dtype) == Kind::kComplex;
  return is_reduction(collective) && rounds ? std::vector{Values::kEncoded, Values::kRandom}
                                            : std::vector{Values::kEncoded};
}

// Of a vector that is cut, so many elements that every rank's block has about one tile, and nine.
std::vector<std::int64_t> counts_of(Collective collective, Dtype dtype, int ranks) {
  if (collective == Collective::kBarrier) {
    return {0};
  }
  const std::int64_t tile =
      kTileBytes / static_cast<std::int64_t>(size_bytes(dtype)) * (is_cut(collective) ? ranks : 1);
  return {0, 1, 37, tile - 1, tile + 1, 9 * tile + 5};
}

bool has_shape(Collective collective, int ranks) {
  return collective != Collective::kSendRecv || ranks > 1;
}

// The cases of one algorithm, number of ranks and root, which `c` has.
void add_cases(Case c, std::vector<Case>& cases) {
  const Collective collective = c.collective();
  for (const auto [dtype, op] : pairs_of(collective)) {
    for (const Placement placement : placements_of(collective)) {
      for (const Values values : values_of(collective, dtype)) {
        for (const std::int64_t count : counts_of(collective, dtype, c.ranks)) {
          for (const bool direct : {false, true}) {
            c.dtype = dtype;
            c.op = op;
            c.placement = placement;
            c.values = values;
            c.count = count;
            c.direct = direct;
            cases.push_back(c);
          }
        }
      }
    }
  }
}

// All cases of so many ranks.
void add_cases(const Algorithm& algorithm,
               int ranks,
               std::string_view nodes,
               std::vector<Case>& cases) {
  if (has_shape(algorithm.collective, ranks)) {
    for (const int root : roots_of(algorithm.collective, ranks)) {
      Case c{};
      c.algorithm = &algorithm;
      c.ranks = ranks;
      c.root = root;
      c.nodes = nodes;
      add_cases(c, cases);
    }
  }
}

// What one copy out of the sender's memory carries stays on a node.
bool is_carried(const Case& c, const Plan& plan) {
  const auto crosses = [&](int from, int to) {
    return !c.nodes.empty() &&
           c.nodes[static_cast<std::size_t>(from)] != c.nodes[static_cast<std::size_t>(to)];
  };
  for (const Strand& strand : plan.strands) {
    for (std::size_t at = 0; at < strand.channels.size(); ++at) {
      const sennit::Channel& channel = strand.schedule->channels[at];
      for (const LaneId& reader : channel.readers) {
        if (strand.channels[at].paths != std::vector<Path>{PathKind::kShm} &&
            crosses(channel.writer.rank, reader.rank)) {
          return false;
        }
      }
    }
  }
  return true;
}

bool has_plan(const Case& c, const ScaledParts& scaled) {
  const bool pair = c.collective() == Collective::kSendRecv;
  const Shape shape{.ranks = pair ? 2 : c.ranks,
                    .root = pair ? 0 : c.root,
                    .groups = pair ? std::vector<std::vector<int>>() : groups_of(c.nodes)};
  const HostFacts facts{.shm = true, .cma = true};
  const Choice choice{
      .algorithm = c.algorithm, .direct = c.direct, .tile_bytes = kTileBytes, .scaled = scaled};
  const auto plan = make_plan(choice, shape, facts);
  if (!plan.ok() || (!pair && !is_carried(c, **plan))) {
    return false;
  }
  const auto proof = verify(**plan);
  const ProgramLimits limits{
      .ports = 4, .slots = facts.slots, .slot_bytes = facts.slot_bytes, .first_port = 0};
  return proof.ok() && compile(*plan, *proof, 0, limits).ok();
}

}  // namespace

std::string describe(const Case& c) {
  constexpr std::array kPlacements = {"out of place", "in place", "odd ranks in place"};
  return fmt::format("{} {}, {} ranks{}{}, root {}, {} x {}, {}, {}, {} values, {}",
                     name(c.collective()),
                     c.algorithm->name,
                     c.ranks,
                     c.nodes.empty() ? "" : " on nodes ",
                     c.nodes,
                     c.root,
                     c.count,
                     name(c.dtype),
                     name(c.op),
                     kPlacements[static_cast<std::size_t>(c.placement)],
                     c.values == Values::kRandom ? "random" : "encoded",
                     c.direct ? "direct" : "slots");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : kRankCounts) {
        add_cases(algorithm, ranks, {}, cases);
      }
    }
  }
  return cases;
}

std::vector<Case> all_cases_on(std::string_view nodes) {
  std::vector<Case> cases;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      add_cases(algorithm, static_cast<int>(nodes.size()), nodes, cases);
    }
  }
  // Some ranks of the ring have both neighbours on their node, others have none.
  std::erase_if(cases,
                [](const Case& c) { return c.direct && c.collective() == Collective::kSendRecv; });
  return cases;
}

std::size_t product_of_the_tables() {
  // Integers have 12 operators, bool 10, floats 6 and complex numbers 4; those that round are tried
  // with two kinds of values.
  constexpr std::size_t kReducing = 8 * 12 + 1 * 10 + (6 * 6 + 2 * 4) * 2;
  constexpr std::size_t kDirectOrNot = 2;
  std::size_t product = 0;
  for (const Collective collective : kCollectives) {
    const bool is_barrier = collective == Collective::kBarrier;
    const bool is_pair = collective == Collective::kSendRecv;
    const std::size_t elements = is_reduction(collective) ? kReducing
                                 : is_barrier             ? 1
                                                          : kDtypes.size();
    const std::size_t placements = is_barrier || is_pair ? 1 : 3;
    const std::size_t counts = is_barrier ? 1 : 6;
    // Roots of 1, 2, 3, 4, 5, 7, 8 and 16 ranks.
    const std::size_t shapes = is_rooted(collective) ? 1 + 2 + 3 + 4 + 5 + 2 + 2 + 2
                               : is_pair             ? 7
                                                     : 8;
    product +=
        algorithms(collective).size() * shapes * elements * placements * counts * kDirectOrNot;
  }
  return product;
}

std::int64_t input_elements(const Case& c, int rank) {
  switch (c.collective()) {
    case Collective::kBroadcast:
      return rank == c.root ? c.count : 0;
    case Collective::kScatter:
      return rank == c.root ? c.count * c.ranks : 0;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return c.count * c.ranks;
    default:
      return c.count;
  }
}

std::int64_t output_elements(const Case& c, int rank) {
  switch (c.collective()) {
    case Collective::kReduce:
      return rank == c.root ? c.count : 0;
    case Collective::kGather:
      return rank == c.root ? c.count * c.ranks : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return c.count * c.ranks;
    default:
      return c.count;
  }
}

bool is_in_place(const Case& c, int rank) {
  const bool wanted =
      c.placement == Placement::kAll || (c.placement == Placement::kOddRanks && rank % 2 == 1);
  return wanted && input_elements(c, rank) > 0 && output_elements(c, rank) > 0;
}

bool must_be_refused(const Case& c) {
  using Key = std::tuple<const Algorithm*, int, std::string_view, int, bool, ScaledParts>;
  static std::mutex mutex;
  static std::map<Key, bool> known;  // whether there is a plan
  const bool reduces = is_reduction(c.collective());
  const ScaledParts scaled{.contributions = reduces && c.op == ReduceOp::kPremulSum,
                           .sums = reduces && c.op == ReduceOp::kAvg};
  const Key key{c.algorithm, c.ranks, c.nodes, c.root, c.direct, scaled};
  const std::scoped_lock lock(mutex);
  auto plan = known.find(key);
  if (plan == known.end()) {
    plan = known.emplace(key, has_plan(c, scaled)).first;
  }
  return !plan->second;
}

}  // namespace sennit::tests
