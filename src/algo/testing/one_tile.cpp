#include "algo/testing/one_tile.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

namespace sennit::one_tile {
namespace {

using Contribution = std::pair<int, int>;  // rank, input block

struct Value {
  std::string expression;
  std::vector<Contribution> contributions;
};

struct Message {
  std::vector<Value> values;
  int chain = 0;          // messages in the longest chain that ends with this one
  std::set<int> entered;  // ranks whose first step is known to have begun
};

Value sum(const Value& left, const Value& right, bool commutative) {
  const bool exchanged = commutative && right.expression < left.expression;
  const std::string& first = exchanged ? right.expression : left.expression;
  const std::string& second = exchanged ? left.expression : right.expression;
  Value result{.expression = "(" + first + "+" + second + ")", .contributions = left.contributions};
  result.contributions.insert(
      result.contributions.end(), right.contributions.begin(), right.contributions.end());
  return result;
}

// What a step knows at its end, and hands to those that wait for it.
struct Knowledge {
  int chain = 0;
  std::set<int> entered;

  void learn(int other_chain, const std::set<int>& other_entered) {
    chain = std::max(chain, other_chain);
    entered.insert(other_entered.begin(), other_entered.end());
  }
};

class Tile {
 public:
  Tile(const Schedule& schedule, const Options& options)
      : schedule_(schedule), options_(options), queues_(schedule.channels.size()) {
    for (std::size_t c = 0; c < queues_.size(); ++c) {
      queues_[c].resize(schedule.channels[c].readers.size());
    }
    for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
      for (int index = 0; index < schedule.problem.input_blocks(rank); ++index) {
        cells_[{rank, input_block(index)}] = {.expression = fmt::format("{}.{}", rank, index),
                                              .contributions = {{rank, index}}};
      }
      const auto& lanes = schedule.ranks[static_cast<std::size_t>(rank)];
      done_.emplace_back(lanes.size());
      for (int lane = 0; std::cmp_less(lane, lanes.size()); ++lane) {
        lanes_.push_back({rank, lane});
      }
    }
  }

  // Runs each lane as far as it gets before the next has its turn, in an order that the seed
  // chooses: some lanes are then far ahead of others, which is where races show.
  std::string run() {
    std::mt19937 random(options_.seed);
    std::ranges::shuffle(lanes_, random);
    bool moved = true;
    while (moved) {
      moved = false;
      for (const LaneId id : lanes_) {
        while (defect_.empty() && ready(id)) {
          execute(id);
          moved = true;
        }
      }
      if (!defect_.empty()) {
        return defect_;
      }
    }
    return at_rest();
  }

  [[nodiscard]] const Value* output(int rank, int index) const {
    const auto found = cells_.find({rank, cell(rank, output_block(index))});
    return found == cells_.end() ? nullptr : &found->second;
  }

  [[nodiscard]] int longest_chain() const { return longest_chain_; }

  // A rank leaves when all its lanes have ended; then it knows what any of them knows.
  [[nodiscard]] bool all_entered_before_last_steps() const {
    return std::ranges::all_of(done_, [&](const auto& lanes) {
      std::set<int> entered;
      for (const std::vector<Knowledge>& steps : lanes) {
        if (!steps.empty()) {
          entered.insert(steps.back().entered.begin(), steps.back().entered.end());
        }
      }
      return entered.empty() || std::cmp_equal(entered.size(), schedule_.problem.ranks);
    });
  }

 private:
  [[nodiscard]] const std::vector<Step>& steps(LaneId id) const {
    return schedule_.ranks[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)]
        .steps;
  }

  [[nodiscard]] std::vector<Knowledge>& done(LaneId id) {
    return done_[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)];
  }

  std::deque<Message>& queue(int channel, int rank) {
    const auto& readers = schedule_.channels[static_cast<std::size_t>(channel)].readers;
    const auto reader = std::ranges::find(readers, rank, &LaneId::rank);
    return queues_[static_cast<std::size_t>(channel)]
                  [static_cast<std::size_t>(reader - readers.begin())];
  }

  [[nodiscard]] Block cell(int rank, const Block& block) const {
    if (options_.in_place && block.space == Space::kOutput) {
      if (const auto alias = schedule_.problem.aliased_input(rank, block.index)) {
        return input_block(*alias);
      }
    }
    return block;
  }

  bool ready(LaneId id) {
    if (done(id).size() == steps(id).size()) {
      return false;
    }
    const Step& step = steps(id)[done(id).size()];
    return std::ranges::all_of(step.after,
                               [&](StepRef ref) {
                                 return std::cmp_less(ref.step, done({id.rank, ref.lane}).size());
                               }) &&
           std::ranges::all_of(step.in,
                               [&](int channel) { return !queue(channel, id.rank).empty(); }) &&
           std::ranges::all_of(step.out, [&](int channel) {
             return std::ranges::all_of(queues_[static_cast<std::size_t>(channel)],
                                        [&](const auto& messages) {
                                          return std::cmp_less(messages.size(), options_.slots);
                                        });
           });
  }

  void execute(LaneId id) {
    const Step& step = steps(id)[done(id).size()];
    Knowledge known{.chain = 0, .entered = {id.rank}};
    if (!done(id).empty()) {
      known.learn(done(id).back().chain, done(id).back().entered);
    }
    for (const StepRef ref : step.after) {
      const Knowledge& other = done({id.rank, ref.lane})[static_cast<std::size_t>(ref.step)];
      known.learn(other.chain, other.entered);
    }
    std::vector<std::vector<Value>> messages;
    for (const int channel : step.in) {
      Message message = std::move(queue(channel, id.rank).front());
      queue(channel, id.rank).pop_front();
      known.learn(message.chain, message.entered);
      messages.push_back(std::move(message.values));
    }
    const std::vector<Value> values = result(id, step, std::move(messages));
    if (!step.to.empty() && step.to.size() != values.size()) {
      defect_ =
          fmt::format("rank {} stores {} blocks in {}", id.rank, values.size(), step.to.size());
      return;
    }
    for (std::size_t k = 0; k < step.to.size(); ++k) {
      cells_[{id.rank, cell(id.rank, step.to[k])}] = values[k];
    }
    for (const int channel : step.out) {
      for (auto& waiting : queues_[static_cast<std::size_t>(channel)]) {
        waiting.push_back({values, known.chain + 1, known.entered});
      }
      longest_chain_ = std::max(longest_chain_, known.chain + 1);
    }
    done(id).push_back(std::move(known));
  }

  std::vector<Value> read(LaneId id, const std::vector<Block>& blocks) {
    std::vector<Value> values;
    for (const Block& block : blocks) {
      const auto found = cells_.find({id.rank, cell(id.rank, block)});
      if (found == cells_.end()) {
        defect_ = fmt::format(
            "rank {} reads {}[{}] before it is written", id.rank, name(block.space), block.index);
        return {};
      }
      values.push_back(found->second);
    }
    return values;
  }

  std::vector<Value> result(LaneId id, const Step& step, std::vector<std::vector<Value>> messages) {
    std::vector<std::vector<Value>> operands;
    if (step.kind == StepKind::kReduce) {
      const std::vector<Value> all = read(id, step.from);
      for (auto begin = all.begin(); begin != all.end();) {
        const auto end = begin + static_cast<std::ptrdiff_t>(step.to.size());
        operands.emplace_back(begin, end);
        begin = end;
      }
    } else if (!step.from.empty()) {
      operands.push_back(read(id, step.from));
    }
    std::ranges::move(messages, std::back_inserter(operands));
    if (step.kind == StepKind::kToken || operands.empty()) {
      return {};
    }
    std::vector<int> order = step.order;
    if (order.empty()) {
      order.resize(operands.size());
      std::iota(order.begin(), order.end(), 0);
    }
    std::vector<Value> total = operands[static_cast<std::size_t>(order[0])];
    for (std::size_t j = 1; j < order.size(); ++j) {
      const auto& operand = operands[static_cast<std::size_t>(order[j])];
      if (operand.size() != total.size()) {
        defect_ =
            fmt::format("rank {} reduces {} with {} blocks", id.rank, total.size(), operand.size());
        return {};
      }
      std::ranges::transform(
          total, operand, total.begin(), [this](const Value& left, const Value& right) {
            return sum(left, right, options_.commutative);
          });
    }
    return total;
  }

  std::string at_rest() {
    for (const LaneId id : lanes_) {
      if (done(id).size() != steps(id).size()) {
        return fmt::format(
            "dead: rank {} lane {} waits in step {}", id.rank, id.lane, done(id).size());
      }
    }
    std::map<int, std::string> expressions;  // of a block that several ranks hold
    const Problem& problem = schedule_.problem;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      for (int index = 0; index < problem.output_blocks(rank); ++index) {
        const auto [ranks, input] = problem.expected(rank, index);
        std::vector<Contribution> expected;
        for (const int source : ranks) {
          expected.emplace_back(source, input);
        }
        const Value* value = output(rank, index);
        std::vector<Contribution> got =
            value == nullptr ? std::vector<Contribution>{} : value->contributions;
        std::ranges::sort(got);
        if (value == nullptr || got != expected) {
          return fmt::format("rank {} output {} holds {}, not {}", rank, index, got, expected);
        }
        if (problem.collective == Collective::kAllReduce &&
            expressions.try_emplace(index, value->expression).first->second != value->expression) {
          return fmt::format("output {} is {} on rank 0 and {} on rank {}",
                             index,
                             expressions[index],
                             value->expression,
                             rank);
        }
      }
    }
    return {};
  }

  const Schedule& schedule_;
  Options options_;
  std::vector<std::vector<std::deque<Message>>> queues_;  // [channel][reader]
  std::map<std::pair<int, Block>, Value> cells_;
  std::vector<std::vector<std::vector<Knowledge>>> done_;  // [rank][lane], one a finished step
  std::vector<LaneId> lanes_;
  std::string defect_;
  int longest_chain_ = 0;
};

}  // namespace

std::string run(const Schedule& schedule, const Options& options) {
  return Tile(schedule, options).run();
}

std::map<std::pair<int, int>, std::string> final_values(const Schedule& schedule) {
  Tile tile(schedule, {});
  const std::string defect = tile.run();
  SENNIT_CHECK(defect.empty(), defect.c_str());
  std::map<std::pair<int, int>, std::string> values;
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    for (int index = 0; index < schedule.problem.output_blocks(rank); ++index) {
      values[{rank, index}] = tile.output(rank, index)->expression;
    }
  }
  return values;
}

int longest_chain(const Schedule& schedule) {
  // With a slot for every message no chain runs over credit.
  Tile tile(schedule, {.slots = 1 << 20});
  const std::string defect = tile.run();
  SENNIT_CHECK(defect.empty(), defect.c_str());
  return tile.longest_chain();
}

bool last_steps_follow_all_first_steps(const Schedule& schedule) {
  Tile tile(schedule, {});
  return tile.run().empty() && tile.all_entered_before_last_steps();
}

}  // namespace sennit::one_tile
