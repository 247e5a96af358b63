#include "exec/sm/step_program.hpp"

#include "base/integers.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

namespace sennit::sm {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

const std::vector<Step>& steps_of(const Schedule& schedule, int rank) {
  static const std::vector<Step> kNone;
  const auto& lanes = schedule.ranks[at(rank)];
  return lanes.empty() ? kNone : lanes.front().steps;
}

class StepCompiler {
 public:
  StepCompiler(const Strand& strand, int rank)
      : strand_(strand), schedule_(*strand.schedule), rank_(rank) {
    const Problem& problem = schedule_.problem;
    program_->rank = static_cast<std::int8_t>(rank);
    program_->ranks = static_cast<std::int8_t>(problem.ranks);
    program_->message_parts = std::max(1, largest_message_blocks(schedule_));
    for (const ChannelBinding& binding : strand.channels) {
      program_->slots = binding.slots;
    }
    for (const Scratch& scratch : schedule_.scratch) {
      scratch_begin_.push_back(program_->scratch_blocks);
      program_->scratch_blocks += scratch.blocks;
    }
  }

  Result<std::unique_ptr<const StepProgram>> run() {
    if (schedule_.problem.ranks > kMaxRanks) {
      return refuse(fmt::format(
          "it joins {} ranks; the kernel has room for {}", schedule_.problem.ranks, kMaxRanks));
    }
    number_channels();
    if (const int most = std::ranges::max(program_->channels); most > kMostChannels) {
      return refuse(fmt::format("it has {} channels from one rank to another; there is room for {}",
                                most,
                                kMostChannels));
    }
    for (const Step& step : steps_of(schedule_, rank_)) {
      SENNIT_RETURN_IF_ERROR(take(step));
    }
    return std::unique_ptr<const StepProgram>(std::move(program_));
  }

 private:
  Status refuse(std::string_view why) const {
    return fail(Code::kUnsupported,
                "{}/{} of {} ranks cannot be run step by step by kernels: {}",
                name(schedule_.problem.collective),
                schedule_.algorithm,
                schedule_.problem.ranks,
                why);
  }

  // Both ends number the channels between them equally. A channel with several readers is one to
  // each: what is sent to all is stored for each. One whose readers lie in both places counts for
  // the host's slots, which are the smaller ones (FifoPlan::peer_staging).
  void number_channels() {
    std::map<std::pair<int, int>, int> count;
    for (int c = 0; c < std::ssize(schedule_.channels); ++c) {
      const Channel& channel = schedule_.channels[at(c)];
      const bool by_host = strand_.channels[at(c)].paths.front() == PathKind::kHost;
      std::int32_t& most = program_->channels[at(
          static_cast<int>(by_host ? StagingPlace::kHost : StagingPlace::kDevice))];
      for (const LaneId reader : channel.readers) {
        const int number = count[{channel.writer.rank, reader.rank}]++;
        numbers_[{c, reader.rank}] = number;
        most = std::max(most, number + 1);
      }
      program_->per_tile = std::max(program_->per_tile, messages_per_tile(schedule_, c));
    }
  }

  Status take(const Step& step) {
    const std::vector<int> parts = parts_of(rank_, step);
    std::vector<Port> ports;
    std::vector<int> messages;  // the first port of each `in`
    for (const int channel : step.in) {
      messages.push_back(static_cast<int>(ports.size()));
      ports.push_back(port(channel, received_[channel]++, writer(channel), rank_));
      program_->hears_from |= bit(writer(channel));
    }
    const std::size_t ins = ports.size();
    for (const int channel : step.out) {
      const int index = sent_[channel]++;
      for (const LaneId reader : schedule_.channels[at(channel)].readers) {
        ports.push_back(port(channel, index, reader.rank, reader.rank));
        program_->sends_to |= bit(reader.rank);
      }
    }
    CodedStep coded{.first_place = static_cast<std::uint16_t>(places_),
                    .first_port = static_cast<std::uint16_t>(ports_),
                    .first_part = static_cast<std::uint16_t>(parts_),
                    .parts = static_cast<std::uint8_t>(parts.size()),
                    .ins = static_cast<std::uint8_t>(ins),
                    .outs = static_cast<std::uint8_t>(ports.size() - ins),
                    .pre = step.pre,
                    .post = step.post};
    std::vector<Place> places;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const std::vector<Place> operands = operands_of(step, part, parts.size());
      const std::vector<Place> targets = targets_of(step, part, ins, ports.size());
      coded.operands = static_cast<std::uint8_t>(operands.size());
      coded.targets = static_cast<std::uint8_t>(targets.size());
      places.insert(places.end(), operands.begin(), operands.end());
      places.insert(places.end(), targets.begin(), targets.end());
    }
    return append(coded, parts, ports, places);
  }

  Status append(const CodedStep& coded,
                const std::vector<int>& parts,
                const std::vector<Port>& ports,
                const std::vector<Place>& places) {
    const bool fits = program_->step_count < kMostSteps && ports_ + ports.size() <= kMostPorts &&
                      places_ + places.size() <= kMostPlaces &&
                      parts_ + parts.size() <= kMostParts && ports.size() <= kMostStepPorts &&
                      places.size() <= kMostStepPlaces;
    if (!fits) {
      return refuse("its program is too long");
    }
    program_->steps[at(program_->step_count++)] = coded;
    std::ranges::copy(ports, program_->ports.begin() + static_cast<std::ptrdiff_t>(ports_));
    std::ranges::copy(places, program_->places.begin() + static_cast<std::ptrdiff_t>(places_));
    std::ranges::transform(parts,
                           program_->blocks.begin() + static_cast<std::ptrdiff_t>(parts_),
                           [](int block) { return static_cast<std::int16_t>(block); });
    ports_ += ports.size();
    places_ += places.size();
    parts_ += parts.size();
    return {};
  }

  // Of each part of a step: a block of the problem that is as long. Scratch blocks of a cut vector
  // are as long as its blocks of their number, and otherwise all are equal.
  [[nodiscard]] std::vector<int> parts_of(int rank, const Step& step) const {
    const std::vector<Block>& named = step.to.empty() ? step.from : step.to;
    if (!named.empty() || step.in.empty()) {
      std::vector<int> parts;
      std::ranges::transform(named, std::back_inserter(parts), &Block::index);
      return parts;
    }
    // What only passes through is what its sender says.
    const int channel = step.in.front();
    int index = 0;
    for (const Step& earlier : steps_of(schedule_, rank)) {
      if (&earlier == &step) {
        break;
      }
      index += static_cast<int>(std::ranges::count(earlier.in, channel));
    }
    for (const Step& sender : steps_of(schedule_, writer(channel))) {
      index -= static_cast<int>(std::ranges::count(sender.out, channel));
      if (index < 0) {
        return parts_of(writer(channel), sender);
      }
    }
    return {};
  }

  [[nodiscard]] std::vector<Place> operands_of(const Step& step,
                                               std::size_t part,
                                               std::size_t parts) const {
    std::vector<Place> operands;
    for (std::size_t i = part; i < step.from.size(); i += parts) {
      operands.push_back(place(step.from[i]));
    }
    for (int in = 0; in < std::ssize(step.in); ++in) {
      operands.push_back(message(in));
    }
    if (step.order.empty()) {
      return operands;
    }
    std::vector<Place> ordered;
    std::ranges::transform(step.order, std::back_inserter(ordered), [&](int operand) {
      return operands[at(operand)];
    });
    return ordered;
  }

  [[nodiscard]] std::vector<Place> targets_of(const Step& step,
                                              std::size_t part,
                                              std::size_t first_out,
                                              std::size_t ports) const {
    std::vector<Place> targets;
    if (!step.to.empty()) {
      targets.push_back(place(step.to[part]));
    }
    for (std::size_t out = first_out; out < ports; ++out) {
      targets.push_back(message(static_cast<int>(out)));
    }
    return targets;
  }

  [[nodiscard]] Place place(const Block& block) const {
    const auto index = static_cast<std::int16_t>(block.index);
    switch (block.space) {
      case Space::kInput:
        return {PlaceKind::kInput, index};
      case Space::kOutput:
        return {PlaceKind::kOutput, index};
      case Space::kScratch:
        return {PlaceKind::kScratch,
                static_cast<std::int16_t>(scratch_begin_[at(block.scratch)] + block.index)};
    }
    return {};
  }
  static Place message(int port) { return {PlaceKind::kMessage, static_cast<std::int16_t>(port)}; }

  [[nodiscard]] int writer(int channel) const {
    return schedule_.channels[at(channel)].writer.rank;
  }

  [[nodiscard]] Port port(int channel, int index, int peer, int reader) const {
    return {.peer = static_cast<std::int8_t>(peer),
            .channel = static_cast<std::uint8_t>(numbers_.at({channel, reader})),
            .index = static_cast<std::uint16_t>(index),
            .per_tile = static_cast<std::uint16_t>(messages_per_tile(schedule_, channel))};
  }

  const Strand& strand_;
  const Schedule& schedule_;
  int rank_;
  std::unique_ptr<StepProgram> program_ = std::make_unique<StepProgram>();
  std::vector<int> scratch_begin_;
  std::map<std::pair<int, int>, int> numbers_;  // by channel and reader
  std::map<int, int> sent_;                     // messages so far, by channel
  std::map<int, int> received_;
  std::size_t ports_ = 0;
  std::size_t places_ = 0;
  std::size_t parts_ = 0;
};

// Tiles begin at whole lines of memory, if blocks do.
constexpr std::int64_t kLine = 128;
// Below, a block of the kernel has threads without a unit, and more blocks would not make up for
// it.
constexpr std::int64_t kLeastTileBytes = std::int64_t{kThreads} * 16;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// The largest tile that the slots which lie at `place` have room for.
std::int64_t slot_limit(const StepProgram& program, const StepLimits& limits, StagingPlace place) {
  const auto index = static_cast<std::size_t>(place);
  const std::int64_t messages =
      std::int64_t{program.channels[index]} * program.slots * program.message_parts;
  return messages == 0 ? kNoLimit : static_cast<std::int64_t>(limits.slot_bytes[index]) / messages;
}

std::int64_t scratch_limit(const StepProgram& program, const StepLimits& limits) {
  return program.scratch_blocks == 0
             ? kNoLimit
             : static_cast<std::int64_t>(limits.scratch_bytes) / program.scratch_blocks;
}

}  // namespace

Result<std::unique_ptr<const StepProgram>> compile_steps(const Strand& strand, int rank) {
  return StepCompiler(strand, rank).run();
}

Result<StepTiling> tiling_of(const Problem& problem,
                             Elements elements,
                             const StepLimits& limits,
                             const StepProgram& program) {
  StepTiling tiling{.block_bytes = block_range(problem, elements.count, elements.bytes, 0).length *
                                   elements.bytes};
  const std::int64_t on_device = slot_limit(program, limits, StagingPlace::kDevice);
  const std::int64_t far = slot_limit(program, limits, StagingPlace::kHost);
  const std::int64_t limit =
      std::min({on_device, far, scratch_limit(program, limits)}) / kLine * kLine;
  if (limit < kLine) {
    const auto tightest =
        static_cast<std::size_t>(far < on_device ? StagingPlace::kHost : StagingPlace::kDevice);
    return fail(Code::kUnsupported,
                "messages of {} blocks on {} channels between two ranks do not fit the {} bytes "
                "that a block of a kernel has for them",
                program.message_parts,
                program.channels[tightest],
                limits.slot_bytes[tightest]);
  }
  // All blocks of the kernel get a tile, if that leaves work for all of their threads.
  const std::int64_t share = ceiling(ceiling(tiling.block_bytes, limits.blocks), kLine) * kLine;
  tiling.tile_bytes = std::min(limit, std::max(share, kLeastTileBytes));
  tiling.tiles = std::max<std::int64_t>(1, ceiling(tiling.block_bytes, tiling.tile_bytes));
  tiling.blocks = static_cast<std::int32_t>(std::min<std::int64_t>(limits.blocks, tiling.tiles));
  const std::int64_t turns = ceiling(tiling.tiles, tiling.blocks);
  if (turns * program.per_tile > kMostMessages) {
    return fail(Code::kUnsupported,
                "{} bytes a block take {} messages of one channel, and there may be {}",
                tiling.block_bytes,
                turns * program.per_tile,
                kMostMessages);
  }
  return tiling;
}

Status bind(const Problem& problem, Elements elements, const StepLimits& limits, StepCall& call) {
  SENNIT_ASSIGN_OR_RETURN(const StepTiling tiling,
                          tiling_of(problem, elements, limits, call.program));
  call.block_bytes = tiling.block_bytes;
  call.total_bytes = is_cut(problem.collective) ? elements.count * elements.bytes
                                                : std::numeric_limits<std::int64_t>::max();
  call.tile_bytes = tiling.tile_bytes;
  call.tiles = tiling.tiles;
  call.blocks = tiling.blocks;
  call.scratch_stride = static_cast<std::int64_t>(limits.scratch_bytes);
  return {};
}

}  // namespace sennit::sm
