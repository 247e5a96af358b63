#include "schedule/passes.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sennit {
namespace {

using Lanes = std::vector<Lane>;

const Step& step_at(const Lanes& lanes, StepRef ref) {
  return lanes[static_cast<std::size_t>(ref.lane)].steps[static_cast<std::size_t>(ref.step)];
}

bool contains(const auto& list, const auto& value) {
  return std::ranges::find(list, value) != list.end();
}

// Joins steps within the lanes of one rank.
class Joiner {
 public:
  explicit Joiner(const Lanes& lanes) : lanes_(lanes) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (const Step& step : lanes[lane].steps) {
        for (const StepRef ref : step.after) {
          if (ref.lane != static_cast<int>(lane)) {
            awaited_.insert(ref);
          }
        }
      }
    }
  }

  Lanes run() {
    Lanes joined;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      joined.push_back(join_lane(static_cast<int>(lane)));
    }
    for (Lane& lane : joined) {
      for (Step& step : lane.steps) {
        remap(step.after);
      }
    }
    return joined;
  }

 private:
  Lane join_lane(int lane) {
    const Lane& old = lanes_[static_cast<std::size_t>(lane)];
    Lane joined{.need = old.need, .steps = {}};
    std::vector<int>& moved = new_index_.emplace_back();
    for (int index = 0; std::cmp_less(index, old.steps.size()); ++index) {
      const Step& step = old.steps[static_cast<std::size_t>(index)];
      if (index > 0 && may_join(joined.steps.back(), {lane, index})) {
        Step& target = joined.steps.back();
        target.out.insert(target.out.end(), step.out.begin(), step.out.end());
      } else {
        joined.steps.push_back(step);
      }
      moved.push_back(static_cast<int>(joined.steps.size()) - 1);
    }
    return joined;
  }

  // Whether the step `ref` is a send that `target`, which ends right before it, can make itself.
  [[nodiscard]] bool may_join(const Step& target, StepRef ref) const {
    const Step& send = step_at(lanes_, ref);
    if (target.kind != StepKind::kRecv && target.kind != StepKind::kRecvReduce) {
      return false;
    }
    if (send.kind != StepKind::kSend || send.from != target.to) {
      return false;
    }
    // A step of another lane that waits for the target would wait for the send's free slot as well,
    // which could be a new cycle.
    if (awaited_.contains(StepRef{ref.lane, ref.step - 1})) {
      return false;
    }
    // What the send waits for must hold when the target starts.
    const bool free_to_go = std::ranges::all_of(send.after, [&](StepRef earlier) {
      return (earlier.lane == ref.lane && earlier.step < ref.step) ||
             contains(target.after, earlier);
    });
    // One step sends at most one message to a channel.
    return free_to_go && std::ranges::none_of(
                             send.out, [&](int channel) { return contains(target.out, channel); });
  }

  void remap(std::vector<StepRef>& after) const {
    for (StepRef& ref : after) {
      ref.step = new_index_[static_cast<std::size_t>(ref.lane)][static_cast<std::size_t>(ref.step)];
    }
    std::ranges::sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }

  const Lanes& lanes_;
  std::set<StepRef> awaited_;                // by a step of another lane
  std::vector<std::vector<int>> new_index_;  // [lane][old index]
};

// Drops what steps store although nobody will ever read it, on one rank.
class DeadStores {
 public:
  DeadStores(const Problem& problem, int rank, Lanes& lanes)
      : problem_(problem), rank_(rank), lanes_(lanes) {}

  void drop() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      auto& steps = lanes_[lane].steps;
      for (std::size_t index = 0; index < steps.size(); ++index) {
        Step& step = steps[index];
        const bool forwards = !step.in.empty() && !step.out.empty();
        if (forwards && std::ranges::all_of(step.to, [&](const Block& block) {
              return overwritten_unread(lane, index, cell(block)) &&
                     !touched_elsewhere(lane, cell(block));
            })) {
          step.to.clear();
        }
      }
    }
  }

 private:
  // In place an output block is the memory of an input block. Taking the two for one cell is right
  // in place and only careful out of place.
  [[nodiscard]] Block cell(const Block& block) const {
    if (block.space == Space::kOutput) {
      if (const auto alias = problem_.aliased_input(rank_, block.index)) {
        return input_block(*alias);
      }
    }
    return block;
  }

  [[nodiscard]] bool names(const std::vector<Block>& blocks, const Block& wanted) const {
    return std::ranges::any_of(blocks, [&](const Block& block) { return cell(block) == wanted; });
  }

  [[nodiscard]] bool overwritten_unread(std::size_t lane,
                                        std::size_t index,
                                        const Block& wanted) const {
    const auto& steps = lanes_[lane].steps;
    for (std::size_t later = index + 1; later < steps.size(); ++later) {
      if (names(steps[later].from, wanted)) {
        return false;
      }
      if (names(steps[later].to, wanted)) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool touched_elsewhere(std::size_t lane, const Block& wanted) const {
    for (std::size_t other = 0; other < lanes_.size(); ++other) {
      for (const Step& step : lanes_[other].steps) {
        if (other != lane && (names(step.from, wanted) || names(step.to, wanted))) {
          return true;
        }
      }
    }
    return false;
  }

  const Problem& problem_;
  int rank_;
  Lanes& lanes_;
};

}  // namespace

Schedule fuse(Schedule schedule) {
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    Lanes& lanes = schedule.ranks[static_cast<std::size_t>(rank)];
    lanes = Joiner(lanes).run();
    DeadStores(schedule.problem, rank, lanes).drop();
  }
  return schedule;
}

}  // namespace sennit
