#include "schedule/passes.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sennit {
namespace {

using Lanes = std::vector<Lane>;

// Whether two steps of the lane put messages into one channel, or take them out of it: those have
// an order that both ends know.
bool shares_channel(const Lane& lane) {
  std::set<int> seen;
  for (const Step& step : lane.steps) {
    for (const auto& channels : {step.in, step.out}) {
      for (const int channel : channels) {
        if (!seen.insert(channel).second) {
          return true;
        }
      }
    }
  }
  return false;
}

bool writes_any(const Step& step, const std::vector<Block>& blocks) {
  return std::ranges::find_first_of(step.to, blocks) != step.to.end();
}

// The lanes of one rank.
class Loosener {
 public:
  explicit Loosener(const Lanes& lanes) : lanes_(lanes) {}

  Lanes run() {
    for (const Lane& lane : lanes_) {
      std::vector<StepRef>& moved = moved_.emplace_back();
      const bool stays = shares_channel(lane);
      for (std::size_t index = 0; index < lane.steps.size(); ++index) {
        if (!stays || index == 0) {
          loosened_.push_back({.need = lane.need, .steps = {}});
        }
        Lane& target = loosened_.back();
        moved.push_back(
            {static_cast<int>(loosened_.size()) - 1, static_cast<int>(target.steps.size())});
        target.steps.push_back(lane.steps[index]);
      }
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (std::size_t index = 0; index < lanes_[lane].steps.size(); ++index) {
        order(lane, index);
      }
    }
    return std::move(loosened_);
  }

 private:
  // Makes a step wait for those that it waited for by name, and for the one before it in its lane
  // that made what it reads.
  void order(std::size_t lane, std::size_t index) {
    const StepRef own = moved_[lane][index];
    Step& step =
        loosened_[static_cast<std::size_t>(own.lane)].steps[static_cast<std::size_t>(own.step)];
    for (StepRef& ref : step.after) {
      ref = moved_[static_cast<std::size_t>(ref.lane)][static_cast<std::size_t>(ref.step)];
    }
    for (std::size_t before = index; before-- > 0;) {
      if (writes_any(lanes_[lane].steps[before], step.from)) {
        const StepRef maker = moved_[lane][before];
        if (maker.lane != own.lane && std::ranges::find(step.after, maker) == step.after.end()) {
          step.after.push_back(maker);
        }
      }
    }
  }

  const Lanes& lanes_;
  Lanes loosened_;
  std::vector<std::vector<StepRef>> moved_;
};

// The lane of `rank` in which a step names the channel.
template <typename List>
LaneId lane_of(const Schedule& schedule, int rank, int channel, List Step::* list) {
  const Lanes& lanes = schedule.ranks[static_cast<std::size_t>(rank)];
  const auto found = std::ranges::find_if(lanes, [&](const Lane& lane) {
    return std::ranges::any_of(lane.steps, [&](const Step& step) {
      return std::ranges::find(step.*list, channel) != (step.*list).end();
    });
  });
  return {rank, static_cast<int>(found - lanes.begin())};
}

}  // namespace

Schedule loosen(Schedule schedule) {
  for (Lanes& lanes : schedule.ranks) {
    lanes = Loosener(lanes).run();
  }
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    Channel& channel = schedule.channels[c];
    const auto index = static_cast<int>(c);
    channel.writer = lane_of(schedule, channel.writer.rank, index, &Step::out);
    for (LaneId& reader : channel.readers) {
      reader = lane_of(schedule, reader.rank, index, &Step::in);
    }
  }
  return schedule;
}

}  // namespace sennit
