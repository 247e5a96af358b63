#include "exec/stream/stream_program.hpp"

#include "exec/stream/words.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace sennit::stream {
namespace {

// Where a message comes from, on the rank that writes its channel.
struct Source {
  Block block;
  int depth = 0;
};

class Compiler {
 public:
  Compiler(const Schedule& schedule, int rank) : schedule_(schedule) {
    program_.problem = schedule.problem;
    program_.rank = rank;
  }

  Result<StreamProgram> run() {
    SENNIT_RETURN_IF_ERROR(check_schedule());
    for (const Lane& lane : own_lanes()) {
      for (const Step& step : lane.steps) {
        SENNIT_RETURN_IF_ERROR(take(step));
      }
    }
    for (const auto& [block, channel] : forwards_) {
      SENNIT_RETURN_IF_ERROR(pass_on(block, channel));
    }
    std::ranges::stable_sort(program_.pulls, {}, &Pull::depth);
    if (!offered_stay(false)) {
      return refuse("a block that others read is written again");
    }
    program_.may_be_in_place = offered_stay(true);
    return std::move(program_);
  }

 private:
  Status refuse(std::string_view why) const {
    return fail(Code::kUnsupported,
                "{}/{} is no schedule for copy engines: {}",
                name(schedule_.problem.collective),
                schedule_.algorithm,
                why);
  }

  const std::vector<Lane>& lanes_of(int rank) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)];
  }
  const std::vector<Lane>& own_lanes() const { return lanes_of(program_.rank); }
  const Channel& channel_at(int channel) const {
    return schedule_.channels[static_cast<std::size_t>(channel)];
  }
  int writer(int channel) const { return channel_at(channel).writer.rank; }
  int reader(int channel) const { return channel_at(channel).readers.front().rank; }

  Status check_schedule() {
    if (schedule_.problem.ranks > kMaxRanks) {
      return refuse(fmt::format("it joins more than {} ranks", kMaxRanks));
    }
    if (!schedule_.scratch.empty()) {
      return refuse("it uses scratch memory");
    }
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      const auto channel = static_cast<int>(c);
      if (const std::optional<Source> source = source_of(channel, 0)) {
        program_.hops = std::max(program_.hops, source->depth + 1);
      }
      if (channel_at(channel).readers.size() != 1 || messages_per_tile(schedule_, channel) != 1) {
        return refuse("a channel of it has several readers or messages");
      }
      if (ordinal(channel) >= kMaxChannels) {
        return refuse("two ranks of it exchange too many messages");
      }
    }
    return {};
  }

  // Which of the channels between the same two ranks, in the same direction.
  int ordinal(int channel) const {
    int before = 0;
    for (int other = 0; other < channel; ++other) {
      before += writer(other) == writer(channel) && reader(other) == reader(channel) ? 1 : 0;
    }
    return before;
  }

  Status take(const Step& step) {
    if (step.kind != StepKind::kCopy && (step.from.size() > 1 || step.to.size() > 1)) {
      return refuse("a message of it has several blocks");
    }
    switch (step.kind) {
      case StepKind::kSend:
        for (const int channel : step.out) {
          if (step.from.front().space == Space::kInput) {
            program_.offers.push_back({reader(channel), ordinal(channel), step.from.front()});
          } else {
            forwards_.emplace_back(step.from.front(), channel);
          }
        }
        return {};
      case StepKind::kRecv:
        return pull(step);
      case StepKind::kCopy:
        for (std::size_t i = 0; i < step.from.size(); ++i) {
          program_.copies.push_back({step.from[i], step.to[i]});
        }
        return {};
      case StepKind::kRecvReduce:
      case StepKind::kReduce:
        return refuse("it reduces");
      case StepKind::kToken:
        return refuse("it has messages without data");
    }
    return {};
  }

  Status pull(const Step& step) {
    const int channel = step.in.front();
    const std::optional<Source> source = source_of(channel, 0);
    if (step.to.empty() || !source) {
      return refuse("a message of it does not go from block to block in few hops");
    }
    program_.pulls.push_back({.sender = writer(channel),
                              .channel = ordinal(channel),
                              .from = source->block,
                              .to = step.to.front(),
                              .depth = source->depth});
    for (const int next : step.out) {
      forwards_.emplace_back(step.to.front(), next);
    }
    return {};
  }

  // The block that the writer of `channel` sends, and how many hops it has behind it there.
  std::optional<Source> source_of(int channel, int hops) const {
    const int rank = writer(channel);
    for (const Lane& lane : lanes_of(rank)) {
      for (const Step& step : lane.steps) {
        if (std::ranges::find(step.out, channel) == step.out.end()) {
          continue;
        }
        const auto& blocks = step.kind == StepKind::kSend ? step.from : step.to;
        if (blocks.size() != 1) {
          return std::nullopt;
        }
        const Block block = blocks.front();
        if (block.space == Space::kInput) {
          return Source{block, 0};
        }
        const std::optional<int> arrived = channel_into(rank, block);
        const auto before =
            arrived && hops < kMaxDepth ? source_of(*arrived, hops + 1) : std::nullopt;
        return before && before->depth + 1 < kMaxDepth
                   ? std::optional(Source{block, before->depth + 1})
                   : std::nullopt;
      }
    }
    return std::nullopt;
  }

  // The channel whose message `rank` stores in its block.
  std::optional<int> channel_into(int rank, const Block& block) const {
    for (const Lane& lane : lanes_of(rank)) {
      for (const Step& step : lane.steps) {
        if (step.kind == StepKind::kRecv && step.to == std::vector{block}) {
          return step.in.front();
        }
      }
    }
    return std::nullopt;
  }

  Status pass_on(const Block& block, int channel) {
    const auto from = std::ranges::find(program_.pulls, block, &Pull::to);
    if (from == program_.pulls.end()) {
      return refuse("it passes on what did not arrive");
    }
    from->passes_on.push_back({reader(channel), ordinal(channel), block});
    return {};
  }

  // Blocks of output and input that are one memory in place are one block then.
  Block cell(const Block& block, bool in_place) const {
    if (in_place && block.space == Space::kOutput) {
      if (const auto alias = program_.problem.aliased_input(program_.rank, block.index)) {
        return input_block(*alias);
      }
    }
    return block;
  }

  // Nothing writes a block that others may read, but the pull that passes it on, and nothing writes
  // a block twice.
  bool offered_stay(bool in_place) const {
    std::vector<Block> written;
    for (const Pull& pull : program_.pulls) {
      written.push_back(cell(pull.to, in_place));
    }
    for (const OwnCopy& copy : program_.copies) {
      if (cell(copy.to, in_place) != cell(copy.from, in_place)) {
        written.push_back(cell(copy.to, in_place));
      }
    }
    std::vector<Block> sorted = written;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) {
      return false;
    }
    return std::ranges::none_of(program_.offers, [&](const Offer& offer) {
      return std::ranges::find(written, cell(offer.block, in_place)) != written.end();
    });
  }

  const Schedule& schedule_;
  StreamProgram program_;
  std::vector<std::pair<Block, int>> forwards_;  // what arrived, and the channel that it leaves by
};

}  // namespace

bool StreamProgram::passes_on() const {
  return std::ranges::any_of(pulls, [](const Pull& pull) { return !pull.passes_on.empty(); });
}

Result<StreamProgram> compile_stream(const Schedule& schedule, int rank) {
  return Compiler(schedule, rank).run();
}

}  // namespace sennit::stream
