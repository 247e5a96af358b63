#include "select/select.hpp"

#include "base/integers.hpp"
#include "codec/codec.hpp"
#include "select/card_choice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace sennit {
namespace {

// Of `collective` up to `up_to_bytes`, with as many groups or more. The last row of a collective
// has no limit.
struct Rule {
  Collective collective;
  std::int64_t up_to_bytes;
  std::string_view algorithm;
  std::size_t from_groups = 0;
};

constexpr std::int64_t kAny = INT64_MAX;

constexpr std::array kRules = {
    Rule{Collective::kAllReduce, 16 * kKilo, "recursive_doubling"},
    Rule{Collective::kAllReduce, kAny, "two_shot"},
    Rule{Collective::kReduce, 16 * kKilo, "k_nomial"},
    Rule{Collective::kReduce, kAny, "direct"},
    Rule{Collective::kBroadcast, 16 * kKilo, "k_nomial"},
    Rule{Collective::kBroadcast, kAny, "direct"},
    Rule{Collective::kAllGather, kAny, "direct"},
    Rule{Collective::kReduceScatter, kAny, "direct"},
    Rule{Collective::kAllToAll, kAny, "direct"},
    Rule{Collective::kGather, kAny, "direct"},
    Rule{Collective::kScatter, kAny, "direct"},
    Rule{Collective::kBarrier, kAny, "dissemination"},
    Rule{Collective::kSendRecv, kAny, "direct"},
};

// Where groups are nodes: every card carries its share once, and ranks of a node hand it on. For
// what is not here, nodes change nothing. A slice that crosses in shares takes one step more, and
// from three nodes on fewer bytes of each card. Few bytes cross in one message of a node to each
// other; of many nodes a leader would send too many.
constexpr std::array kNodeRules = {
    Rule{Collective::kAllReduce, 16 * kKilo, "recursive_doubling", 5},
    Rule{Collective::kAllReduce, 16 * kKilo, "hierarchical"},
    Rule{Collective::kAllReduce, kAny, "hierarchical_shares", 3},
    Rule{Collective::kAllReduce, kAny, "hierarchical_sliced"},
    Rule{Collective::kBroadcast, 16 * kKilo, "k_nomial"},
    Rule{Collective::kBroadcast, kAny, "multi_rail"},
    Rule{Collective::kAllGather, 4 * kKilo, "direct"},
    Rule{Collective::kAllGather, kAny, "multi_rail"},
};

// The same among schedules that reduce in rank order.
constexpr std::array kRankOrderRules = {
    Rule{Collective::kAllReduce, 16 * kKilo, "one_shot"},
    Rule{Collective::kAllReduce, kAny, "two_shot"},
    Rule{Collective::kReduce, kAny, "direct"},
    Rule{Collective::kReduceScatter, kAny, "direct"},
};

// The same among schedules that may have a lossy codec: nothing is coded again on its way.
constexpr std::array kLossyRules = {
    Rule{Collective::kAllReduce, kLossyOneShotBytes, "one_shot"},
    Rule{Collective::kAllReduce, kAny, "two_shot"},
    Rule{Collective::kReduce, kAny, "direct"},
    Rule{Collective::kBroadcast, kAny, "direct"},
    Rule{Collective::kAllGather, kAny, "direct"},
    Rule{Collective::kReduceScatter, kAny, "direct"},
    Rule{Collective::kAllToAll, kAny, "direct"},
    Rule{Collective::kGather, kAny, "direct"},
    Rule{Collective::kScatter, kAny, "direct"},
    Rule{Collective::kSendRecv, kAny, "direct"},
};

// Where `rules` have none for the collective, the usual one.
std::string_view rule_for(std::span<const Rule> rules,
                          Collective collective,
                          std::int64_t bytes,
                          std::size_t groups) {
  const auto find_in = [&](std::span<const Rule> table) {
    const auto rule = std::ranges::find_if(table, [&](const Rule& r) {
      return r.collective == collective && bytes <= r.up_to_bytes && groups >= r.from_groups;
    });
    return rule == table.end() ? std::string_view() : rule->algorithm;
  };
  const std::string_view algorithm = find_in(rules);
  const std::string_view usual = find_in(kRules);
  SENNIT_CHECK(!usual.empty(), "every collective has a rule without limit");
  return algorithm.empty() ? usual : algorithm;
}

// A message that does not fit into its slots would wait until its sender has computed. A fetch
// asks nothing of the sender.
bool is_beyond_slots(Collective collective, std::int64_t bytes, const HostFacts& facts) {
  return collective == Collective::kSendRecv &&
         bytes > static_cast<std::int64_t>(facts.slots * facts.slot_bytes);
}

// Where one copy out of the sender's memory (path cma) beats two copies through slots. It seldom
// does: the system walks and pins every page of the sender, and copies at 3.6 GB/s where a way
// through slots that stay in the caches brings 6 to 9, because each of two cores does half of it.
// But slots of many ranks leave the caches. Measured on a Xeon of 2019 with 2 cores and buffers
// that come from memory, slots of 64 KB for up to 4 ranks, of 32 KB for 8; us by slots and by one
// copy:
//
//   ranks  bytes a part  all_gather      all_to_all      broadcast
//   2      8 MB          3246, 5769      3830, 6030      2363, 5461
//   4      1 MB          1936, 2494      2262, 2490      1842, 2704
//   8      128 KB         765, 1235      1313, 1367      1174, 1305
//   8      512 KB        5788, 4918      6852, 6349      4865, 5357
//
// On a later machine of this kind all_gather of the last row was faster by slots (3940, 4199),
// all_to_all by one copy again (5048, 4778; bench/results, `host-tune`).
//
// Two ranks gain by one copy while their buffers lie in the caches (an AMD EPYC with 2 cores): up
// to parts of 2 MB. Larger parts, and buffers that are others in each call, come from memory, and
// there slots are faster.
bool prefers_one_copy(Collective collective,
                      int ranks,
                      std::int64_t bytes,
                      const HostFacts& facts) {
  if (ranks == 2 && (collective == Collective::kAllGather || collective == Collective::kAllToAll)) {
    return bytes >= 64 * kKilo && bytes <= 2048 * kKilo;
  }
  if (is_beyond_slots(collective, bytes, facts)) {
    return true;
  }
  constexpr int kMostRanksBySlots = 4;
  constexpr std::int64_t kOneCopyFromBytes = 512 * kKilo;
  return collective == Collective::kAllToAll && ranks > kMostRanksBySlots &&
         bytes >= kOneCopyFromBytes;
}

// A fetch of a tile is one system call, so tiles are large. all_gather of parts of 2 MB takes 294
// us in one tile and 401 in two.
constexpr std::int64_t kDirectTileBytes = 4096 * kKilo;

// All of a message: a sender says where a tile lies once the one before has been fetched, for which
// it may be away. By powers of two, so that messages of many lengths share few plans.
std::int64_t tile_of_message(std::int64_t bytes) {
  return std::max(kDirectTileBytes,
                  static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes))));
}

// What is asked for by path and protocol.
struct Ways {
  bool direct = false;
  bool slots = false;
};

Result<Ways> ways_of(const CallRequest& request) {
  const bool both = request.path == "shm+cma" || request.path == "cma+shm";
  if (request.path != "" && request.path != "shm" && request.path != "cma" && !both) {
    return fail(Code::kInvalidArgument,
                "host ranks have no path '{}'; there are: shm, cma, shm+cma, cma+shm, and between "
                "nodes rail/0, rail/0+rail/1",
                request.path);
  }
  if (request.protocol != "" && request.protocol != "slots" && request.protocol != "direct") {
    return fail(Code::kInvalidArgument,
                "host ranks have no protocol '{}'; there are: slots (over shm), direct (over cma)",
                request.protocol);
  }
  const Ways ways{
      .direct = both || request.path == "cma" || request.protocol == "direct",
      .slots = both || request.path == "shm" || request.protocol == "slots",
  };
  if (ways.direct && ways.slots && (!both || request.protocol != "")) {
    return fail(Code::kInvalidArgument,
                "protocol slots runs over path shm and direct over cma; '{}' over '{}' is neither",
                request.protocol,
                request.path);
  }
  return ways;
}

Status choose_ways(const CallRequest& request,
                   bool one_copy,
                   const HostFacts& facts,
                   Choice& choice) {
  SENNIT_ASSIGN_OR_RETURN(const Ways ways, ways_of(request));
  if (ways.direct && !facts.cma) {
    return fail(Code::kUnsupported,
                "path cma is not available: SENNIT_PATHS leaves it out, or the system forbids "
                "process_vm_readv between these ranks (see `sennit doctor`)");
  }
  choice.slots_too = ways.direct && ways.slots;
  choice.slots_first = !request.path.starts_with("cma");
  if ((ways.slots || !ways.direct) && !facts.shm) {
    choice.direct = facts.cma;
    return facts.cma && !choice.slots_too
               ? Status()
               : fail(Code::kUnsupported, "SENNIT_PATHS leaves no path, or not both");
  }
  choice.direct = ways.direct || (!ways.slots && facts.cma && one_copy);
  return {};
}

// Whoever copies out of another rank's memory finds plain values there.
Status check_way_of_codec(const CallRequest& request, const HostFacts& facts) {
  SENNIT_ASSIGN_OR_RETURN(const Ways ways, ways_of(request));
  if (ways.direct) {
    return fail(
        Code::kUnsupported,
        "codec {} needs slots over path shm: over cma the reader copies plain values out of "
        "the sender's memory",
        request.codec);
  }
  return facts.shm ? Status()
                   : fail(Code::kUnsupported,
                          "codec {} needs path shm, which SENNIT_PATHS leaves out",
                          request.codec);
}

// The table's word on a call, if it has one: null where the user asked for something that the
// table does not say, or where the shape is not one that was measured.
const Timing* measured_best(Collective collective,
                            const Shape& shape,
                            std::int64_t bytes,
                            const CallRequest& request,
                            const HostFacts& facts) {
  const bool free = request.algorithm.empty() && !request.name_a_way() && request.tile_bytes == 0 &&
                    !request.wants_codec() && !(request.rank_order && is_reduction(collective));
  if (!facts.table || !free || shape.varying) {
    return nullptr;
  }
  const Carriers carriers = facts.shm && facts.cma ? Carriers::kAny
                            : facts.cma            ? Carriers::kDirect
                                                   : Carriers::kSlots;
  const Timing* best = facts.table->best(collective, shape.ranks, bytes, carriers);
  return best != nullptr && refusal_of(*best->algorithm, shape).empty() ? best : nullptr;
}

std::int64_t default_tile(bool direct, const HostFacts& facts) {
  return direct ? kDirectTileBytes : static_cast<std::int64_t>(facts.slot_bytes);
}

// What a codec without loss makes of a block may be a little longer than the block.
std::int64_t coded_tile(Codec codec, std::int64_t tile_bytes, std::int64_t slot_tile) {
  const std::int64_t fits = is_lossless(codec) ? slot_tile / 33 * 32 : slot_tile;
  return std::min(tile_bytes, fits) / kCodedTileAlignBytes * kCodedTileAlignBytes;
}

// One strand of a choice: stored messages by slots, directly, or by both.
Result<Strand> bind_strand(const Choice& choice,
                           const std::shared_ptr<const Schedule>& schedule,
                           const Ways& ways,
                           const HostFacts& facts) {
  Strand strand =
      bind(schedule, PathKind::kShm, Protocol::kSlots, static_cast<int>(facts.slots), Engine::kCpu);
  bool slots_anywhere = ways.slots;
  const int leader = is_rooted(schedule->problem.collective) ? schedule->problem.root : 0;
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    ChannelBinding& channel = strand.channels[c];
    if (!ways.direct || !is_stored_whole(*schedule, static_cast<int>(c))) {
      slots_anywhere = true;
      continue;
    }
    channel.protocol = Protocol::kDirectGet;
    channel.paths = {PathKind::kCma};
    if (ways.slots) {
      channel.paths.insert(choice.slots_first ? channel.paths.begin() : channel.paths.end(),
                           PathKind::kShm);
      const std::vector<LaneId>& readers = schedule->channels[c].readers;
      if (facts.sharing == Sharing::kDynamic && readers.size() == 1 &&
          readers.front().rank == leader) {
        channel.chooser = Chooser::kReader;
      }
    }
  }
  // A message of several blocks lies in one slot.
  const std::int64_t slot_tile = static_cast<std::int64_t>(facts.slot_bytes) /
                                 std::max(1, largest_message_blocks(*schedule)) / 64 * 64;
  strand.tile_bytes = slots_anywhere ? std::min(choice.tile_bytes, slot_tile) : choice.tile_bytes;
  if (choice.codec) {
    set_codec(strand, *choice.codec);
    strand.tile_bytes = coded_tile(*choice.codec, choice.tile_bytes, slot_tile);
  }
  const std::int64_t least = choice.codec ? kCodedTileAlignBytes : 64;
  if (choice.tile_bytes < least) {
    return fail(Code::kInvalidArgument,
                "a tile of {} bytes is too small; the least is {}",
                choice.tile_bytes,
                least);
  }
  if (strand.tile_bytes < least) {
    return fail(Code::kUnsupported,
                "{} {} on {} ranks sends {} blocks a message, which do not fit a slot of {} bytes; "
                "raise SENNIT_SLOT_BYTES",
                name(choice.algorithm->collective),
                choice.algorithm->name,
                schedule->problem.ranks,
                largest_message_blocks(*schedule),
                facts.slot_bytes);
  }
  return strand;
}

bool has_stored_messages(const Schedule& schedule) {
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    if (is_stored_whole(schedule, static_cast<int>(c))) {
      return true;
    }
  }
  return schedule.channels.empty();
}

// A table knows times alone, not that a sender may be away.
const Timing* measured_way(Collective collective,
                           const Shape& shape,
                           std::int64_t bytes,
                           const CallRequest& request,
                           const HostFacts& facts) {
  return facts.cma && is_beyond_slots(collective, bytes, facts)
             ? nullptr
             : measured_best(collective, shape, bytes, request, facts);
}

std::int64_t tile_of(const Choice& choice,
                     Collective collective,
                     std::int64_t bytes,
                     const CallRequest& request,
                     const HostFacts& facts) {
  if (request.tile_bytes > 0) {
    return request.tile_bytes;
  }
  const bool is_fetched = collective == Collective::kSendRecv && choice.direct && !choice.slots_too;
  return is_fetched ? tile_of_message(bytes) : default_tile(choice.direct, facts);
}

// What the ranks of one node do, and those of several between which each message has one way.
Result<Choice> choose_within_nodes(Collective collective,
                                   const Shape& shape,
                                   std::int64_t bytes,
                                   const CallRequest& request,
                                   const HostFacts& facts) {
  Choice choice;
  if (const Timing* const best = measured_way(collective, shape, bytes, request, facts)) {
    choice.algorithm = best->algorithm;
    choice.direct = best->direct;
    choice.tile_bytes = best->tile_bytes > 0 ? best->tile_bytes : default_tile(best->direct, facts);
    return choice;
  }
  if (request.wants_codec()) {
    SENNIT_ASSIGN_OR_RETURN(choice.codec, parse_codec(request.codec));
  }
  std::string_view wanted = request.algorithm;
  if (wanted.empty() && shape.varying) {
    // It runs every v-form: nobody passes on blocks whose lengths only others know.
    wanted = "direct";
  }
  if (wanted.empty()) {
    const bool lossy = choice.codec && !is_lossless(*choice.codec);
    const bool rank_order = request.rank_order && is_reduction(collective);
    wanted = rule_for(lossy                   ? std::span<const Rule>(kLossyRules)
                      : rank_order            ? std::span<const Rule>(kRankOrderRules)
                      : !shape.groups.empty() ? std::span<const Rule>(kNodeRules)
                                              : kRules,
                      collective,
                      bytes,
                      shape.groups.size());
  }
  SENNIT_ASSIGN_OR_RETURN(choice.algorithm, find_algorithm(collective, wanted));
  if (const std::string why = refusal_of(*choice.algorithm, shape); !why.empty()) {
    return fail(Code::kUnsupported,
                "{} {} refuses {} ranks: {}",
                name(collective),
                wanted,
                shape.ranks,
                why);
  }
  if (choice.codec) {
    SENNIT_RETURN_IF_ERROR(check_way_of_codec(request, facts));
    choice.tile_bytes =
        request.tile_bytes > 0 ? request.tile_bytes : default_tile(/*direct=*/false, facts);
    return choice;
  }
  SENNIT_RETURN_IF_ERROR(
      choose_ways(request, prefers_one_copy(collective, shape.ranks, bytes, facts), facts, choice));
  if (shape.varying && choice.slots_too) {
    return fail(Code::kUnsupported,
                "a call whose lengths vary takes one path, shm or cma, not '{}'",
                request.path);
  }
  choice.tile_bytes = tile_of(choice, collective, bytes, request, facts);
  return choice;
}

}  // namespace

Result<PathChoice> parse_path_choice(std::string_view text) {
  if (text == "claimed" || text == "dynamic") {
    return PathChoice{.sharing = text == "claimed" ? Sharing::kClaimed : Sharing::kDynamic,
                      .policy = {}};
  }
  const Result<PathPolicy> policy = parse_path_policy(text);
  return policy.ok() ? Result(PathChoice{.policy = *policy}) : Result<PathChoice>(policy.status());
}

Result<Choice> choose(Collective collective,
                      const Shape& shape,
                      std::int64_t bytes,
                      const CallRequest& request,
                      const HostFacts& facts) {
  SENNIT_ASSIGN_OR_RETURN(std::vector<int> cards, cards_of(request, facts));
  CallRequest within_nodes = request;
  if (!cards.empty()) {
    within_nodes.path = name(PathKind::kShm);
  }
  SENNIT_ASSIGN_OR_RETURN(Choice choice,
                          choose_within_nodes(collective, shape, bytes, within_nodes, facts));
  if ((shape.varying || choice.codec) && cards.size() > 1) {
    return fail(Code::kUnsupported,
                "a call {} takes one card, not '{}'",
                choice.codec ? "with a codec" : "whose lengths vary",
                request.path);
  }
  choice.cards = std::move(cards);
  choice.spreads =
      may_spread(bytes, facts) && !shape.varying && !choice.codec && !request.name_a_way();
  return choice;
}

Result<std::shared_ptr<const Plan>> make_plan(const Choice& choice,
                                              const Shape& shape,
                                              const HostFacts& facts) {
  SENNIT_ASSIGN_OR_RETURN(Schedule made, make_schedule(*choice.algorithm, shape));
  if (choice.scaled != ScaledParts{}) {
    Result<Schedule> marked = mark_scaling(std::move(made), choice.scaled);
    if (!marked.ok()) {
      return marked.status().in(
          fmt::format("{} {}", name(choice.algorithm->collective), choice.algorithm->name));
    }
    made = std::move(marked).value();
  }
  const auto schedule = std::make_shared<const Schedule>(std::move(made));
  if (choice.direct && !has_stored_messages(*schedule)) {
    return fail(Code::kUnsupported,
                "{} {} on {} ranks has no message that its sender holds and its receiver keeps, so "
                "protocol direct cannot carry it; use slots",
                name(choice.algorithm->collective),
                choice.algorithm->name,
                shape.ranks);
  }
  const bool claims = choice.slots_too && facts.sharing == Sharing::kClaimed;
  std::vector<Ways> strands{{.direct = choice.direct, .slots = !choice.direct || choice.slots_too}};
  if (claims) {
    strands = {{.slots = true}, {.direct = true}};
    if (!choice.slots_first) {
      std::ranges::reverse(strands);
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->division = claims ? Division::kClaimed : Division::kStatic;
  for (const Ways& ways : strands) {
    SENNIT_ASSIGN_OR_RETURN(Strand strand, bind_strand(choice, schedule, ways, facts));
    if (claims) {
      strand.tile_bytes = (strand.tile_bytes + 63) / 64 * 64;
    }
    plan->strands.push_back(std::move(strand));
  }
  return std::shared_ptr<const Plan>(std::move(plan));
}

}  // namespace sennit
