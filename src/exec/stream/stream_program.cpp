#include "exec/stream/stream_program.hpp"

#include "world/stream_words.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace sennit::stream {
namespace {

// What a message carries: a block of its sender's input, or a sum of inputs that the sender stores.
struct Source {
  Block block;
  bool is_sum = false;
};

// A block of the input, and the channel by which another rank gets it.
struct Exposed {
  Block block;
  int channel = 0;
};

// A block that this rank writes.
struct Write {
  Block to;
  std::optional<Block> own_source{};  // what of this rank is read for it
  bool is_copy = false;
  // Messages of this rank that the sender has before it sends what is written.
  std::vector<int> follows{};
};

class Compiler {
 public:
  Compiler(const Schedule& schedule, int rank, std::span<const ChannelBinding> channels)
      : schedule_(schedule), channels_(channels) {
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
    put_in_ring_order();
    if (!is_read_first(false)) {
      return refuse("a block that others read is written again");
    }
    program_.may_be_in_place = is_read_first(true);
    if (!has_one_block_through_host()) {
      return refuse("a rank of it sends several blocks through the host");
    }
    if (!gets_sums_of_what_is_pulled()) {
      return refuse("a rank whose input is read does not get the sum");
    }
    for (std::size_t c = 0; c < schedule_.channels.size(); ++c) {
      program_.uses_rings = program_.uses_rings || goes_through_host(static_cast<int>(c));
    }
    return std::move(program_);
  }

 private:
  Status refuse(std::string_view why) const {
    return fail(Code::kUnsupported,
                "{}/{} cannot run on copy engines: {}",
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
      if (channel_at(channel).readers.size() != 1 || messages_per_tile(schedule_, channel) != 1) {
        return refuse("a channel of it has several readers or messages");
      }
      if (ordinal(channel) >= kMaxChannels) {
        return refuse("two ranks of it exchange too many messages");
      }
    }
    return {};
  }

  bool goes_through_host(int channel) const {
    return !channels_.empty() &&
           channels_[static_cast<std::size_t>(channel)].paths == std::vector<Path>{PathKind::kHost};
  }

  // Who reduces what comes by `channel` copies it first, out of the sender's input.
  bool is_pulled(int channel) const {
    return !channels_.empty() &&
           channels_[static_cast<std::size_t>(channel)].protocol == Protocol::kDirectGet;
  }

  // The sum says that the contribution has been read, so that no flag has to.
  bool gets_sums_of_what_is_pulled() const {
    return std::ranges::all_of(program_.departures, [&](const Departure& departure) {
      return !departure.is_pulled ||
             std::ranges::any_of(program_.arrivals, [&](const Arrival& arrival) {
               return arrival.sender == departure.reader && arrival.is_admitted;
             });
    });
  }

  // A ring has room for one.
  bool has_one_block_through_host() const {
    std::optional<Block> found;
    const auto is_alone = [&](const Departure& departure) {
      const bool is = !departure.through_host || !found || *found == departure.from;
      found = departure.through_host ? departure.from : found;
      return is;
    };
    return std::ranges::all_of(program_.departures, is_alone) &&
           std::ranges::all_of(program_.reductions, [&](const Reduction& reduction) {
             return std::ranges::all_of(reduction.passes_on, is_alone);
           });
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
          if (step.from.front().space != Space::kInput) {
            forwards_.emplace_back(step.from.front(), channel);
            continue;
          }
          SENNIT_ASSIGN_OR_RETURN(const Departure departure,
                                  departure_of(step.from.front(), channel));
          program_.departures.push_back(departure);
          exposed_.push_back({step.from.front(), channel});
        }
        return {};
      case StepKind::kRecv:
        return arrive(step);
      case StepKind::kCopy:
        return copy(step);
      case StepKind::kRecvReduce:
        return add_reduction(step);
      case StepKind::kReduce:
        return refuse("it reduces blocks of one rank");
      case StepKind::kToken:
        return refuse("it has messages without data");
    }
    return {};
  }

  // Where the reader of `channel` has what leaves by it.
  Result<Departure> departure_of(const Block& block, int channel) const {
    Departure result{.reader = reader(channel),
                     .channel = ordinal(channel),
                     .from = block,
                     .is_admitted = is_made_of_readers(channel, block),
                     .through_host = goes_through_host(channel)};
    for (const Lane& lane : lanes_of(result.reader)) {
      for (const Step& step : lane.steps) {
        if (std::ranges::find(step.in, channel) == step.in.end()) {
          continue;
        }
        if (step.kind == StepKind::kRecvReduce) {
          result.is_pulled = is_pulled(channel);
          return result;
        }
        if (step.kind == StepKind::kRecv && step.to.size() == 1) {
          result.to = step.to.front();
          return result;
        }
      }
    }
    return refuse_forwarding();
  }

  // Whether the block behind `channel` has been made of what came from the channel's reader.
  bool is_made_of_readers(int channel, const Block& block) const {
    const Step* const made = maker(writer(channel), block);
    return made != nullptr && std::ranges::any_of(made->in, [&](int before) {
             return writer(before) == reader(channel);
           });
  }

  Status refuse_forwarding() const {
    return refuse("it passes on what arrives, which kernels do: request no protocol for it");
  }

  Status arrive(const Step& step) {
    const int channel = step.in.front();
    const std::optional<Source> source = source_of(channel);
    if (step.to.empty() || !source || !step.out.empty()) {
      return refuse_forwarding();
    }
    program_.arrivals.push_back({.sender = writer(channel),
                                 .channel = ordinal(channel),
                                 .from = source->block,
                                 .to = step.to.front(),
                                 .is_admitted = is_made_of_readers(channel, source->block),
                                 .through_host = goes_through_host(channel)});
    const Step* const made = maker(writer(channel), source->block);
    writes_.push_back(
        {.to = step.to.front(), .follows = made == nullptr ? std::vector<int>() : made->in});
    return {};
  }

  Status copy(const Step& step) {
    for (std::size_t i = 0; i < step.from.size(); ++i) {
      if (step.from[i].space != Space::kInput || step.to[i].space != Space::kOutput) {
        return refuse("it copies other things than the input to the output");
      }
      if (is_reduction(program_.problem.collective)) {
        // The only contribution, which may be scaled.
        program_.reductions.push_back({{{program_.rank, 0, step.from[i]}}, step.to[i]});
      } else {
        program_.copies.push_back({step.from[i], step.to[i]});
      }
      writes_.push_back({.to = step.to[i],
                         .own_source = step.from[i],
                         .is_copy = !is_reduction(program_.problem.collective)});
    }
    return {};
  }

  Status add_reduction(const Step& step) {
    std::vector<Operand> operands;
    if (!step.from.empty()) {
      operands.push_back({program_.rank, 0, step.from.front()});
    }
    for (const int channel : step.in) {
      const std::optional<Source> source = source_of(channel);
      if (!source || source->is_sum) {
        return refuse("it reduces what has been passed on");
      }
      operands.push_back({writer(channel),
                          ordinal(channel),
                          source->block,
                          goes_through_host(channel),
                          is_pulled(channel)});
    }
    std::vector<Operand> ordered = operands;
    std::ranges::transform(step.order, ordered.begin(), [&](int operand) {
      return operands[static_cast<std::size_t>(operand)];
    });
    if (step.from.empty() || step.to.empty() || !has_all_ranks(ordered)) {
      return refuse("a reduction of it is not of the inputs of all ranks");
    }
    if (program_.is_staged()) {
      return refuse("a rank of it reduces several blocks");
    }
    writes_.push_back({.to = step.to.front(), .own_source = step.from.front()});
    program_.reductions.push_back({std::move(ordered), step.to.front()});
    for (const int next : step.out) {
      forwards_.emplace_back(step.to.front(), next);
    }
    return {};
  }

  bool has_all_ranks(const std::vector<Operand>& operands) const {
    std::vector<bool> found(static_cast<std::size_t>(program_.problem.ranks));
    for (const Operand& operand : operands) {
      found[static_cast<std::size_t>(operand.sender)] = operand.from.space == Space::kInput;
    }
    return operands.size() == found.size() && std::ranges::find(found, false) == found.end();
  }

  std::optional<Source> source_of(int channel) const {
    const std::optional<Block> block = sent_block(channel);
    if (!block) {
      return std::nullopt;
    }
    if (block->space == Space::kInput) {
      return Source{*block, false};
    }
    const Step* const made = maker(writer(channel), *block);
    const bool is_sum = made != nullptr && made->kind == StepKind::kRecvReduce &&
                        std::ranges::all_of(made->in, [&](int contribution) {
                          const std::optional<Block> from = sent_block(contribution);
                          return from && from->space == Space::kInput;
                        });
    return is_sum ? std::optional(Source{*block, true}) : std::nullopt;
  }

  // The one block that is behind the messages of `channel`.
  std::optional<Block> sent_block(int channel) const {
    for (const Lane& lane : lanes_of(writer(channel))) {
      for (const Step& step : lane.steps) {
        if (std::ranges::find(step.out, channel) != step.out.end()) {
          const auto& blocks = step.kind == StepKind::kSend ? step.from : step.to;
          return blocks.size() == 1 ? std::optional(blocks.front()) : std::nullopt;
        }
      }
    }
    return std::nullopt;
  }

  // The step by which `rank` stores in its block what has come from others; null for the input.
  const Step* maker(int rank, const Block& block) const {
    for (const Lane& lane : lanes_of(rank)) {
      for (const Step& step : lane.steps) {
        if ((step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce) &&
            step.to == std::vector{block}) {
          return &step;
        }
      }
    }
    return nullptr;
  }

  Status pass_on(const Block& block, int channel) {
    SENNIT_ASSIGN_OR_RETURN(const Departure departure, departure_of(block, channel));
    const auto reduction = std::ranges::find(program_.reductions, block, &Reduction::to);
    if (reduction == program_.reductions.end()) {
      return refuse_forwarding();
    }
    reduction->passes_on.push_back(departure);
    return {};
  }

  void put_in_ring_order() {
    const int ranks = program_.problem.ranks;
    const auto put = [&](std::vector<Departure>& departures) {
      std::ranges::stable_sort(departures, {}, [&](const Departure& departure) {
        return (departure.reader - program_.rank + ranks) % ranks;
      });
    };
    put(program_.departures);
    for (Reduction& reduction : program_.reductions) {
      put(reduction.passes_on);
    }
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

  // What is written, as cells. A copy of a block onto itself writes nothing.
  std::vector<Write> writes(bool in_place) const {
    std::vector<Write> cells;
    for (Write write : writes_) {
      write.to = cell(write.to, in_place);
      if (write.own_source) {
        write.own_source = cell(*write.own_source, in_place);
      }
      if (!write.is_copy || write.own_source != write.to) {
        cells.push_back(std::move(write));
      }
    }
    return cells;
  }

  // Nothing is written twice, and what is read is read before it is written: for this rank, because
  // no step reads what another one writes, and for others, because what is written follows their
  // having it.
  bool is_read_first(bool in_place) const {
    const std::vector<Write> all = writes(in_place);
    return std::ranges::all_of(all, [&](const Write& write) {
      const bool is_alone = std::ranges::none_of(all, [&](const Write& other) {
        return &other != &write && (other.to == write.to || other.own_source == write.to);
      });
      return is_alone && std::ranges::all_of(exposed_, [&](const Exposed& exposed) {
               return cell(exposed.block, in_place) != write.to ||
                      std::ranges::find(write.follows, exposed.channel) != write.follows.end();
             });
    });
  }

  const Schedule& schedule_;
  std::span<const ChannelBinding> channels_;
  StreamProgram program_;
  std::vector<Exposed> exposed_;
  std::vector<Write> writes_;
  std::vector<std::pair<Block, int>> forwards_;  // of the output, and the channels they leave by
};

}  // namespace

bool StreamProgram::is_staged() const {
  return std::ranges::any_of(
      reductions, [](const Reduction& reduction) { return reduction.operands.size() > 1; });
}

bool StreamProgram::has_input_read() const {
  return std::ranges::any_of(departures, &Departure::is_pulled);
}

Result<StreamProgram> compile_stream(const Schedule& schedule,
                                     int rank,
                                     std::span<const ChannelBinding> channels) {
  return Compiler(schedule, rank, channels).run();
}

}  // namespace sennit::stream
