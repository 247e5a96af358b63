#include "schedule/plan.hpp"

#include "base/sha256.hpp"
#include "codec/codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace sennit {
namespace {

// Feeds every field of a plan into a hash, in a fixed order, lengths before lists.
class PlanHasher {
 public:
  void add(std::int64_t value) {
    std::array<std::byte, sizeof(value)> bytes{};
    std::memcpy(bytes.data(), &value, sizeof(value));
    hash_.update(bytes);
  }

  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    hash_.update(text);
  }

  template <typename Enum>
    requires std::is_enum_v<Enum>
  void add(Enum value) {
    add(static_cast<std::int64_t>(value));
  }

  template <typename T>
  void add_list(const std::vector<T>& list) {
    add(static_cast<std::int64_t>(list.size()));
    for (const T& item : list) {
      add(item);
    }
  }

  void add(const Block& block) {
    add(block.space);
    add(block.scratch);
    add(block.index);
  }

  void add(const StepRef& ref) {
    add(ref.lane);
    add(ref.step);
  }

  void add(const LaneId& id) {
    add(id.rank);
    add(id.lane);
  }

  void add(const Step& step) {
    add(step.kind);
    add_list(step.from);
    add_list(step.to);
    add_list(step.in);
    add_list(step.out);
    add_list(step.order);
    add(step.pre);
    add(step.post);
    add_list(step.after);
  }

  void add(const Lane& lane) {
    add(lane.need);
    add_list(lane.steps);
  }

  void add(const Channel& channel) {
    add(channel.writer);
    add_list(channel.readers);
    add(channel.single_hop);
  }

  void add(const Scratch& scratch) {
    add(std::string_view(scratch.name));
    add(scratch.blocks);
    add(scratch.depth);
    add(scratch.place);
  }

  void add(const std::vector<Lane>& lanes) { add_list(lanes); }

  void add(const Schedule& schedule) {
    add(std::string_view(schedule.algorithm));
    const Problem& p = schedule.problem;
    add(p.collective);
    add(p.ranks);
    add(p.root);
    add(p.cut);
    add(p.varying);
    add_list(schedule.scratch);
    add_list(schedule.channels);
    add_list(schedule.ranks);
  }

  void add(const Path& path) {
    add(path.kind);
    add(std::int64_t{path.card});
  }

  void add(const ChannelBinding& binding) {
    add_list(binding.paths);
    add(binding.protocol);
    add(binding.slots);
    add(binding.chooser);
    add(binding.codec);
  }

  void add(const std::optional<Codec>& codec) {
    add(std::int64_t{codec ? static_cast<int>(*codec) : 0});
  }

  void add(const LaneBinding& binding) {
    add(binding.engine);
    add(binding.burst);
  }

  void add(const std::vector<LaneBinding>& bindings) { add_list(bindings); }

  void add_structure(const Strand& strand) {
    add(*strand.schedule);
    add_list(strand.channels);
    add_list(strand.lanes);
    add(strand.home_codec);
  }

  std::uint64_t finish() {
    const auto digest = hash_.finish();
    std::uint64_t value = 0;
    std::memcpy(&value, digest.data(), sizeof(value));
    return value;
  }

 private:
  Sha256 hash_;
};

constexpr std::int64_t kShareAlignBytes = 128;
// Elements of every size fill a tile of so many bytes, so tiles of all strands end together.
constexpr std::int64_t kClaimedTileAlignBytes = 64;
// Beyond it no message has a second grain to give out, and products of tiles stay far from
// overflow.
constexpr std::int64_t kMaxGrainBytes = std::int64_t{1} << 40;

Status check_paths(const ChannelBinding& channel, std::size_t s) {
  if (channel.slots < 1 || channel.paths.empty()) {
    return fail(Code::kInvalidArgument, "strand {}: a channel needs a path and a slot", s);
  }
  if (channel.paths.size() > kMaxBundlePaths) {
    return fail(Code::kInvalidArgument, "strand {}: a bundle has too many paths", s);
  }
  // Two, because the reader's rule (schedule/dynamic_policy.hpp) compares one with the other.
  if (channel.chooser == Chooser::kReader && channel.paths.size() != 2) {
    return fail(Code::kInvalidArgument, "strand {}: a reader chooses between two paths", s);
  }
  if (channel.codec && channel.paths.size() > 1) {
    return fail(Code::kInvalidArgument,
                "strand {}: a bundle cannot have codec {}: the bits would depend on the path that "
                "is picked",
                s,
                name(*channel.codec));
  }
  for (std::size_t p = 0; p < channel.paths.size(); ++p) {
    if (std::ranges::count(channel.paths, channel.paths[p]) > 1) {
      return fail(Code::kInvalidArgument,
                  "strand {}: a bundle names path {} twice",
                  s,
                  text_of(channel.paths[p]));
    }
  }
  return {};
}

// `s` is the number of the strand in its plan.
Status check_bindings(const Strand& strand, std::size_t s) {
  if (strand.channels.size() != strand.schedule->channels.size() ||
      strand.lanes.size() != strand.schedule->ranks.size()) {
    return fail(Code::kInvalidArgument, "strand {} does not bind every channel and rank", s);
  }
  for (std::size_t r = 0; r < strand.lanes.size(); ++r) {
    if (strand.lanes[r].size() != strand.schedule->ranks[r].size()) {
      return fail(Code::kInvalidArgument, "strand {} does not bind every lane of rank {}", s, r);
    }
    for (const LaneBinding& lane : strand.lanes[r]) {
      if (lane.burst < 1) {
        return fail(Code::kInvalidArgument, "strand {} rank {}: a burst is at least 1", s, r);
      }
    }
  }
  for (const ChannelBinding& channel : strand.channels) {
    SENNIT_RETURN_IF_ERROR(check_paths(channel, s));
  }
  return {};
}

// Ranks that know different lengths do not agree on how many grains or messages there are.
Status check_choices(const Plan& plan) {
  const auto chooses = [](const Strand& strand) {
    return std::ranges::any_of(
        strand.channels, [](const ChannelBinding& channel) { return channel.paths.size() > 1; });
  };
  const bool any =
      plan.division == Division::kClaimed || std::ranges::any_of(plan.strands, chooses);
  return plan.problem().varying && any
             ? fail(Code::kUnsupported,
                    "where lengths vary, no path or strand can be chosen at run time")
             : Status();
}

// A block of a codec is coded as one, so nothing may cut a block of the problem within it.
Status check_codecs(const Plan& plan) {
  if (!has_codec(plan)) {
    return {};
  }
  if (plan.strands.size() > 1 || plan.division == Division::kClaimed) {
    return fail(Code::kUnsupported,
                "a plan with a codec has one strand: where strands meet depends on their shares, "
                "and the bits would, too");
  }
  const Strand& strand = plan.strands.front();
  return strand.tile_bytes % kCodedTileAlignBytes == 0
             ? Status()
             : fail(Code::kInvalidArgument,
                    "tiles with a codec are multiples of {} bytes, not {}",
                    kCodedTileAlignBytes,
                    strand.tile_bytes);
}

Status check_claimed(const Plan& plan) {
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const Strand& strand = plan.strands[s];
    if (strand.tile_bytes % kClaimedTileAlignBytes != 0) {
      return fail(Code::kInvalidArgument,
                  "strand {}: the tiles of a claimed plan are multiples of {} bytes, not {}",
                  s,
                  kClaimedTileAlignBytes,
                  strand.tile_bytes);
    }
  }
  if (grain_bytes(plan) > kMaxGrainBytes) {
    return fail(Code::kInvalidArgument,
                "the tiles of the strands have no common multiple in reach");
  }
  return {};
}

}  // namespace

bool Strand::operator==(const Strand& other) const {
  return *schedule == *other.schedule && channels == other.channels && lanes == other.lanes &&
         tile_bytes == other.tile_bytes && width == other.width && share == other.share &&
         home_codec == other.home_codec;
}

Strand bind(std::shared_ptr<const Schedule> schedule,
            PathKind path,
            Protocol protocol,
            int slots,
            Engine engine) {
  Strand strand;
  strand.channels.assign(schedule->channels.size(),
                         {.paths = {path}, .protocol = protocol, .slots = slots});
  for (const auto& lanes : schedule->ranks) {
    strand.lanes.emplace_back(lanes.size(), LaneBinding{.engine = engine});
  }
  strand.schedule = std::move(schedule);
  return strand;
}

Protocol protocol_on(const ChannelBinding& binding, PathKind path) {
  const bool direct =
      binding.protocol == Protocol::kDirectGet || binding.protocol == Protocol::kDirectPut;
  return direct && binding.paths.size() > 1 && !info(path).single_copy ? Protocol::kSlots
                                                                       : binding.protocol;
}

bool may_use(const ChannelBinding& binding, Protocol protocol) {
  return std::ranges::any_of(
      binding.paths, [&](const Path& path) { return protocol_on(binding, path.kind) == protocol; });
}

bool always_uses(const ChannelBinding& binding, Protocol protocol) {
  return std::ranges::all_of(
      binding.paths, [&](const Path& path) { return protocol_on(binding, path.kind) == protocol; });
}

bool holds(const ChannelBinding& binding) {
  return always_uses(binding, Protocol::kDirectGet) || binding.chooser == Chooser::kReader;
}

bool may_hold(const ChannelBinding& binding) {
  return may_use(binding, Protocol::kDirectGet) || binding.chooser == Chooser::kReader;
}

int capacity(const ChannelBinding& binding) {
  return binding.slots * static_cast<int>(binding.paths.size());
}

int leader(const Plan& plan) {
  return is_rooted(plan.problem().collective) ? plan.problem().root : 0;
}

std::int64_t grain_bytes(const Plan& plan) {
  std::int64_t grain = 1;
  for (const Strand& strand : plan.strands) {
    const std::int64_t factor = strand.tile_bytes / std::gcd(grain, strand.tile_bytes);
    if (factor > kMaxGrainBytes / grain) {
      return kMaxGrainBytes + 1;
    }
    grain *= factor;
  }
  return grain;
}

Status check_structure(const Plan& plan) {
  if (std::ranges::none_of(plan.strands, [](const Strand& s) { return s.share > 0; })) {
    return fail(Code::kInvalidArgument, "a plan needs at least one strand with a share");
  }
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    const Strand& strand = plan.strands[s];
    if (strand.schedule == nullptr) {
      return fail(Code::kInvalidArgument, "strand {} has no schedule", s);
    }
    SENNIT_RETURN_IF_ERROR(check_structure(*strand.schedule));
    const Problem& problem = strand.schedule->problem;
    const Problem& first = plan.problem();
    if (problem.collective != first.collective || problem.ranks != first.ranks ||
        problem.root != first.root) {
      return fail(Code::kInvalidArgument, "strand {} solves another problem than strand 0", s);
    }
    // Parts of blocks make a vector only if all strands mean the same blocks.
    if (problem != first) {
      return fail(
          Code::kInvalidArgument, "strand {} cuts the vector in another way than strand 0", s);
    }
    SENNIT_RETURN_IF_ERROR(check_bindings(strand, s));
    if (strand.tile_bytes < 1 || strand.width < 1 || strand.share < 0) {
      return fail(Code::kInvalidArgument,
                  "strand {}: tile_bytes {}, width {}, share {}",
                  s,
                  strand.tile_bytes,
                  strand.width,
                  strand.share);
    }
  }
  SENNIT_RETURN_IF_ERROR(check_choices(plan));
  SENNIT_RETURN_IF_ERROR(check_codecs(plan));
  return plan.division == Division::kClaimed ? check_claimed(plan) : Status();
}

std::uint64_t structure_hash(const Plan& plan) {
  PlanHasher hasher;
  hasher.add(plan.division);
  hasher.add(static_cast<std::int64_t>(plan.strands.size()));
  for (const Strand& strand : plan.strands) {
    hasher.add_structure(strand);
  }
  return hasher.finish();
}

std::uint64_t plan_hash(const Plan& plan) {
  PlanHasher hasher;
  hasher.add(plan.division);
  hasher.add(static_cast<std::int64_t>(plan.strands.size()));
  for (const Strand& strand : plan.strands) {
    hasher.add_structure(strand);
    hasher.add(strand.tile_bytes);
    hasher.add(strand.width);
    hasher.add(std::int64_t{strand.by_steps});
    hasher.add(std::int64_t{strand.by_leader});
    hasher.add(strand.share);
  }
  return hasher.finish();
}

Portion portion_of(const Plan& plan, int index) {
  Portion portion{.before = 0, .share = 0, .total = 0};
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    portion.before += static_cast<int>(s) < index ? plan.strands[s].share : 0;
    portion.total += plan.strands[s].share;
  }
  portion.share = plan.strands[static_cast<std::size_t>(index)].share;
  return portion;
}

ElementRange Portion::of(std::int64_t length, std::int64_t element_bytes) const {
  const std::int64_t align = std::max<std::int64_t>(1, kShareAlignBytes / element_bytes);
  const auto cut = [&](std::int64_t weight) {
    return weight == total ? length : length / total * weight / align * align;
  };
  const std::int64_t begin = cut(before);
  return {.begin = begin, .length = cut(before + share) - begin};
}

ElementRange strand_range(const Plan& plan,
                          int index,
                          std::int64_t length,
                          std::int64_t element_bytes) {
  if (plan.division == Division::kClaimed) {
    return {.begin = 0, .length = length};
  }
  return portion_of(plan, index).of(length, element_bytes);
}

std::string_view name(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSlots:
      return "slots";
    case Protocol::kDirectGet:
      return "direct_get";
    case Protocol::kDirectPut:
      return "direct_put";
    case Protocol::kLl:
      return "ll";
    case Protocol::kLl128:
      return "ll128";
  }
  return "?";
}

std::string_view name(Engine engine) {
  switch (engine) {
    case Engine::kCpu:
      return "cpu";
    case Engine::kSm:
      return "sm";
    case Engine::kStream:
      return "stream";
  }
  return "?";
}

std::string_view name(Chooser chooser) {
  switch (chooser) {
    case Chooser::kSender:
      return "sender";
    case Chooser::kReader:
      return "reader";
  }
  return "?";
}

std::string_view name(Division division) {
  switch (division) {
    case Division::kStatic:
      return "static";
    case Division::kClaimed:
      return "claimed";
  }
  return "?";
}

Result<Protocol> parse_protocol(std::string_view text) {
  for (const Protocol protocol : kProtocols) {
    if (name(protocol) == text) {
      return protocol;
    }
  }
  return fail(Code::kInvalidArgument,
              "there is no protocol '{}'; there are: slots, direct_get, direct_put, ll, ll128",
              text);
}

}  // namespace sennit
