#include "schedule/scaling.hpp"

#include "schedule/logical_time.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace sennit {
namespace {

bool is_input(const Block& block) { return block.space == Space::kInput; }

// How many contributions each value has, by running one tile on counts. Whether they are the right
// ones is the proof's business.
class Counts {
 public:
  explicit Counts(const Schedule& schedule)
      : memory_(schedule.ranks.size()), sent_(schedule.channels.size()) {}

  // Of each block of the result of `step`, which comes next in logical time.
  std::vector<int> run(int rank, const Step& step) {
    std::vector<int> result;
    const std::size_t width = step.kind == StepKind::kReduce ? step.to.size() : step.from.size();
    for (std::size_t i = 0; i < step.from.size(); ++i) {
      add(result, i % width, of(rank, step.from[i]));
    }
    for (const int channel : step.in) {
      const std::vector<int>& message = next_message(channel, rank);
      for (std::size_t j = 0; j < message.size(); ++j) {
        add(result, j, message[j]);
      }
    }
    for (std::size_t j = 0; j < std::min(step.to.size(), result.size()); ++j) {
      memory_[static_cast<std::size_t>(rank)][step.to[j]] = result[j];
    }
    for (const int channel : step.out) {
      sent_[static_cast<std::size_t>(channel)].push_back(result);
    }
    return result;
  }

 private:
  static void add(std::vector<int>& counts, std::size_t block, int count) {
    counts.resize(std::max(counts.size(), block + 1), 0);
    counts[block] += count;
  }

  int of(int rank, const Block& block) {
    return is_input(block) ? 1 : memory_[static_cast<std::size_t>(rank)][block];
  }

  const std::vector<int>& next_message(int channel, int rank) {
    return sent_[static_cast<std::size_t>(channel)][taken_[{channel, rank}]++];
  }

  std::vector<std::map<Block, int>> memory_;          // [rank]
  std::vector<std::vector<std::vector<int>>> sent_;   // [channel][message][block]
  std::map<std::pair<int, int>, std::size_t> taken_;  // messages, by channel and reading rank
};

// Copies and messages that only move a complete sum must not finish it again.
bool makes_sums(const Step& step, int ranks) {
  const std::size_t lists = step.from.empty()                ? 0
                            : step.kind == StepKind::kReduce ? step.from.size() / step.to.size()
                                                             : 1;
  return lists + step.in.size() > 1 || (ranks == 1 && std::ranges::any_of(step.from, is_input));
}

Status mark_sum(Step& step, const std::vector<int>& counts, int ranks) {
  const auto complete = std::ranges::count(counts, ranks);
  if (complete == 0 || !makes_sums(step, ranks)) {
    return {};
  }
  if (complete < static_cast<std::ptrdiff_t>(counts.size())) {
    return fail(Code::kUnsupported,
                "it has a {} that completes {} of {} sums, so none can be finished there",
                name(step.kind),
                complete,
                counts.size());
  }
  step.post = true;
  return {};
}

}  // namespace

Result<Schedule> mark_scaling(Schedule schedule, const ScaledParts& parts) {
  LogicalTime time = logical_time(schedule);
  if (time.cyclic) {
    return fail(Code::kNotProved, "its steps wait for each other in a circle");
  }
  std::ranges::stable_sort(time.nodes, {}, &StepNode::tick);
  Counts counts(schedule);
  for (const StepNode& node : time.nodes) {
    Step& step =
        schedule.ranks[static_cast<std::size_t>(node.rank)][static_cast<std::size_t>(node.lane)]
            .steps[static_cast<std::size_t>(node.step)];
    const std::vector<int> result = counts.run(node.rank, step);
    step.pre = parts.contributions && std::ranges::any_of(step.from, is_input);
    if (parts.sums) {
      SENNIT_RETURN_IF_ERROR(mark_sum(step, result, schedule.problem.ranks));
    }
  }
  return schedule;
}

}  // namespace sennit
