#include "schedule/passes.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace sennit {
namespace {

bool contains(const auto& list, const auto& value) {
  return std::ranges::find(list, value) != list.end();
}

// Of one rank. Lanes that only stage messages for a reduction go, so the others get new numbers.
class Stages {
 public:
  explicit Stages(std::vector<Lane>& lanes) : lanes_(lanes), is_stage_(lanes.size(), false) {}

  // The lane that now takes what the lane with this number took before; by old number.
  std::vector<int> drop() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      taker_.push_back(static_cast<int>(lane));
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (Step& step : lanes_[lane].steps) {
        if (step.kind == StepKind::kReduce) {
          take_messages(static_cast<int>(lane), step);
        }
      }
    }
    return renumber();
  }

 private:
  // The lane with nothing but a recv into this block of scratch, if the step waits for it and no
  // other step touches the block or waits for the recv.
  [[nodiscard]] std::optional<int> stage_of(const Block& block, const Step& reduce) const {
    std::optional<int> found;
    int users = 0;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      const std::vector<Step>& steps = lanes_[lane].steps;
      for (const Step& step : steps) {
        users += contains(step.from, block) || contains(step.to, block) ? 1 : 0;
      }
      const bool is_stage = steps.size() == 1 && steps.front().kind == StepKind::kRecv &&
                            steps.front().to == std::vector{block} && steps.front().out.empty();
      if (is_stage && contains(reduce.after, StepRef{static_cast<int>(lane), 0})) {
        found = static_cast<int>(lane);
      }
    }
    return users == 2 && found && waiters_of(*found) == 1 ? found : std::nullopt;
  }

  [[nodiscard]] int waiters_of(int stage) const {
    int waiters = 0;
    for (const Lane& lane : lanes_) {
      for (const Step& step : lane.steps) {
        waiters += contains(step.after, StepRef{stage, 0}) ? 1 : 0;
      }
    }
    return waiters;
  }

  // All blocks of scratch, or none: a step has its own blocks before what it takes.
  void take_messages(int lane, Step& reduce) {
    std::vector<Block> own;
    std::vector<int> stages;
    for (const Block& block : reduce.from) {
      if (block.space != Space::kScratch) {
        own.push_back(block);
        continue;
      }
      const std::optional<int> stage = stage_of(block, reduce);
      if (!stage) {
        return;
      }
      stages.push_back(*stage);
    }
    const bool is_own_first = std::equal(own.begin(), own.end(), reduce.from.begin());
    if (stages.empty() || own.size() != 1 || !is_own_first) {
      return;
    }
    reduce.kind = StepKind::kRecvReduce;
    reduce.from = std::move(own);
    for (const int stage : stages) {
      const Step& recv = lanes_[static_cast<std::size_t>(stage)].steps.front();
      reduce.in.push_back(recv.in.front());
      std::erase(reduce.after, StepRef{stage, 0});
      reduce.after.insert(reduce.after.end(), recv.after.begin(), recv.after.end());
      is_stage_[static_cast<std::size_t>(stage)] = true;
      taker_[static_cast<std::size_t>(stage)] = lane;
    }
  }

  std::vector<int> renumber() {
    std::vector<int> number(lanes_.size(), 0);
    std::vector<Lane> kept;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      number[lane] = static_cast<int>(kept.size());
      if (!is_stage_[lane]) {
        kept.push_back(std::move(lanes_[lane]));
      }
    }
    lanes_ = std::move(kept);
    for (Lane& lane : lanes_) {
      for (Step& step : lane.steps) {
        for (StepRef& ref : step.after) {
          ref.lane = number[static_cast<std::size_t>(ref.lane)];
        }
      }
    }
    std::ranges::transform(
        taker_, taker_.begin(), [&](int lane) { return number[static_cast<std::size_t>(lane)]; });
    return taker_;
  }

  std::vector<Lane>& lanes_;
  std::vector<bool> is_stage_;
  std::vector<int> taker_;
};

bool uses_scratch(const Schedule& schedule) {
  const auto is_scratch = [](const Block& block) { return block.space == Space::kScratch; };
  for (const std::vector<Lane>& lanes : schedule.ranks) {
    for (const Lane& lane : lanes) {
      for (const Step& step : lane.steps) {
        if (std::ranges::any_of(step.from, is_scratch) ||
            std::ranges::any_of(step.to, is_scratch)) {
          return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

Schedule reduce_in_slots(Schedule schedule) {
  std::vector<std::vector<int>> takers;
  for (std::vector<Lane>& lanes : schedule.ranks) {
    takers.push_back(Stages(lanes).drop());
  }
  const auto move = [&](LaneId& end) {
    end.lane = takers[static_cast<std::size_t>(end.rank)][static_cast<std::size_t>(end.lane)];
  };
  for (Channel& channel : schedule.channels) {
    move(channel.writer);
    std::ranges::for_each(channel.readers, move);
  }
  if (!uses_scratch(schedule)) {
    schedule.scratch.clear();
  }
  return schedule;
}

}  // namespace sennit
