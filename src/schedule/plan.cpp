#include "schedule/plan.hpp"

#include "base/sha256.hpp"

#include <algorithm>
#include <array>
#include <cstring>

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

  void add(const ChannelBinding& binding) {
    add_list(binding.paths);
    add(binding.protocol);
    add(binding.slots);
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
    if (channel.slots < 1 || channel.paths.empty()) {
      return fail(Code::kInvalidArgument, "strand {}: a channel needs a path and a slot", s);
    }
  }
  return {};
}

}  // namespace

bool Strand::operator==(const Strand& other) const {
  return *schedule == *other.schedule && channels == other.channels && lanes == other.lanes &&
         tile_bytes == other.tile_bytes && width == other.width && share == other.share;
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
  return {};
}

std::uint64_t structure_hash(const Plan& plan) {
  PlanHasher hasher;
  hasher.add(static_cast<std::int64_t>(plan.strands.size()));
  for (const Strand& strand : plan.strands) {
    hasher.add_structure(strand);
  }
  return hasher.finish();
}

std::uint64_t plan_hash(const Plan& plan) {
  PlanHasher hasher;
  hasher.add(static_cast<std::int64_t>(plan.strands.size()));
  for (const Strand& strand : plan.strands) {
    hasher.add_structure(strand);
    hasher.add(strand.tile_bytes);
    hasher.add(strand.width);
    hasher.add(strand.share);
  }
  return hasher.finish();
}

ElementRange strand_range(const Plan& plan,
                          int index,
                          std::int64_t length,
                          std::int64_t element_bytes) {
  std::int64_t before = 0;
  std::int64_t total = 0;
  for (std::size_t s = 0; s < plan.strands.size(); ++s) {
    before += static_cast<int>(s) < index ? plan.strands[s].share : 0;
    total += plan.strands[s].share;
  }
  const std::int64_t align = std::max<std::int64_t>(1, kShareAlignBytes / element_bytes);
  const auto cut = [&](std::int64_t weight) {
    return weight == total ? length : length / total * weight / align * align;
  };
  const std::int64_t begin = cut(before);
  const std::int64_t end = cut(before + plan.strands[static_cast<std::size_t>(index)].share);
  return {.begin = begin, .length = end - begin};
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
