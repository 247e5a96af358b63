#include "exec/stream/slot_program.hpp"

#include "world/stream_words.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sennit::stream {
namespace {

// The number-th message of a channel.
using Place = std::pair<int, int>;

class SlotCompiler {
 public:
  SlotCompiler(const Schedule& schedule, int rank)
      : schedule_(schedule), messages_of_(schedule.ranks.size()) {
    program_.problem = schedule.problem;
    program_.rank = rank;
  }

  Result<SlotProgram> run() {
    if (schedule_.problem.ranks > kMaxRanks) {
      return refuse(fmt::format("it joins more than {} ranks", kMaxRanks));
    }
    if (!schedule_.scratch.empty()) {
      return refuse("it uses scratch memory");
    }
    for (int rank = 0; rank < schedule_.problem.ranks; ++rank) {
      SENNIT_RETURN_IF_ERROR(number_messages(rank));
      const auto count = static_cast<int>(messages_of(rank).size());
      program_.messages.push_back(count);
      program_.rounds = std::max(program_.rounds, count);
    }
    program_.puts = messages_of(program_.rank);
    SENNIT_RETURN_IF_ERROR(take_messages());
    std::ranges::stable_sort(program_.takes, {}, &Take::message);
    if (!sent_stay(false)) {
      return refuse("a block that is sent is written in the same call");
    }
    program_.may_be_in_place = sent_stay(true);
    return std::move(program_);
  }

 private:
  Status refuse(std::string_view why) const {
    return fail(Code::kUnsupported,
                "{}/{} is no schedule for slots in host memory: {}",
                name(schedule_.problem.collective),
                schedule_.algorithm,
                why);
  }

  std::vector<Put>& messages_of(int rank) { return messages_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Channel& channel_at(int channel) const {
    return schedule_.channels[static_cast<std::size_t>(channel)];
  }

  template <typename Function>
  Status for_each_step(int rank, Function function) const {
    for (const Lane& lane : schedule_.ranks[static_cast<std::size_t>(rank)]) {
      for (const Step& step : lane.steps) {
        SENNIT_RETURN_IF_ERROR(function(step));
      }
    }
    return {};
  }

  Status number_messages(int rank) {
    std::map<int, int> sent;  // by channel
    return for_each_step(rank, [&](const Step& step) -> Status {
      if (step.kind != StepKind::kSend) {
        return step.out.empty() ? Status() : refuse("it sends on what came, or a result");
      }
      if (step.from.size() != 1 || step.from.front().space != Space::kInput) {
        return refuse("a message of it is not one block of an input");
      }
      for (const int channel : step.out) {
        numbers_[{channel, sent[channel]++}] = static_cast<int>(messages_of(rank).size());
        Put put{.from = step.from.front(), .readers = {}};
        for (const LaneId& reader : channel_at(channel).readers) {
          put.readers.push_back(reader.rank);
        }
        messages_of(rank).push_back(std::move(put));
      }
      return {};
    });
  }

  Status take_messages() {
    std::map<int, int> taken;  // by channel
    return for_each_step(program_.rank, [&](const Step& step) -> Status {
      if (step.kind == StepKind::kSend) {
        return {};
      }
      if (step.kind == StepKind::kCopy) {
        for (std::size_t i = 0; i < step.from.size(); ++i) {
          program_.own_copies.push_back({step.from[i], step.to[i]});
        }
        return {};
      }
      if (step.kind != StepKind::kRecv) {
        return refuse("it reduces, or has messages without data");
      }
      if (step.to.size() != 1 || step.to.front().space != Space::kOutput) {
        return refuse("a message of it does not go to one block of an output");
      }
      const int channel = step.in.front();
      const auto number = numbers_.find({channel, taken[channel]++});
      if (number == numbers_.end()) {
        return refuse("it takes what nobody sends");
      }
      program_.takes.push_back({.sender = channel_at(channel).writer.rank,
                                .message = number->second,
                                .to = step.to.front()});
      return {};
    });
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

  // Nothing writes a block that is sent or copied, and nothing writes a block twice.
  bool sent_stay(bool in_place) const {
    std::vector<Block> written;
    std::vector<Block> read;
    for (const Take& take : program_.takes) {
      written.push_back(cell(take.to, in_place));
    }
    for (const BlockCopy& copy : program_.own_copies) {
      if (cell(copy.to, in_place) != cell(copy.from, in_place)) {
        written.push_back(cell(copy.to, in_place));
        read.push_back(cell(copy.from, in_place));
      }
    }
    for (const Put& put : program_.puts) {
      read.push_back(cell(put.from, in_place));
    }
    std::ranges::sort(written);
    return std::ranges::adjacent_find(written) == written.end() &&
           std::ranges::none_of(read, [&](const Block& block) {
             return std::ranges::binary_search(written, block);
           });
  }

  const Schedule& schedule_;
  SlotProgram program_;
  std::vector<std::vector<Put>> messages_of_;  // by rank
  std::map<Place, int> numbers_;               // of each message, among those of its sender
};

}  // namespace

Result<SlotProgram> compile_slots(const Schedule& schedule, int rank) {
  return SlotCompiler(schedule, rank).run();
}

}  // namespace sennit::stream
