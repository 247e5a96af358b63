#include "schedule/one_lane.hpp"

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// One tile, round by round: in each, every lane whose next step may start at its begin takes that
// step, so that the steps of a round do not depend on each other.
class Tile {
 public:
  Tile(const Schedule& schedule, int slots)
      : schedule_(schedule), slots_(slots), order_(schedule.ranks.size()) {
    for (const auto& lanes : schedule.ranks) {
      next_.emplace_back(lanes.size(), 0);
    }
    for (const Channel& channel : schedule.channels) {
      sent_.push_back(0);
      received_.emplace_back(channel.readers.size(), 0);
    }
  }

  // The steps of each rank in their order; kNotProved where some never start.
  Result<std::vector<std::vector<StepRef>>> run() {
    while (run_round()) {
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      for (std::size_t lane = 0; lane < next_[rank].size(); ++lane) {
        if (at(next_[rank][lane]) < schedule_.ranks[rank][lane].steps.size()) {
          return fail(Code::kNotProved,
                      "{} with {} slots is dead: step {} of lane {} of rank {} never starts",
                      schedule_.algorithm,
                      slots_,
                      next_[rank][lane],
                      lane,
                      rank);
        }
      }
    }
    return std::move(order_);
  }

 private:
  struct Start {
    int rank;
    StepRef step;
  };

  [[nodiscard]] const Step& step_of(const Start& start) const {
    return schedule_.ranks[at(start.rank)][at(start.step.lane)].steps[at(start.step.step)];
  }

  bool run_round() {
    std::vector<Start> round;
    for (int rank = 0; rank < std::ssize(next_); ++rank) {
      for (int lane = 0; lane < std::ssize(next_[at(rank)]); ++lane) {
        const Start start{rank, {lane, next_[at(rank)][at(lane)]}};
        const auto& steps = schedule_.ranks[at(rank)][at(lane)].steps;
        if (start.step.step < std::ssize(steps) && may_start(start)) {
          round.push_back(start);
        }
      }
    }
    // What others wait for goes first.
    std::ranges::stable_partition(
        round, [&](const Start& start) { return step_of(start).kind == StepKind::kSend; });
    for (const Start& start : round) {
      take(start);
    }
    return !round.empty();
  }

  [[nodiscard]] bool may_start(const Start& start) const {
    const Step& step = step_of(start);
    const auto& next = next_[at(start.rank)];
    return std::ranges::all_of(step.after,
                               [&](StepRef ref) { return ref.step < next[at(ref.lane)]; }) &&
           std::ranges::all_of(
               step.in,
               [&](int channel) { return received(channel, start.rank) < sent_[at(channel)]; }) &&
           std::ranges::all_of(step.out, [&](int channel) {
             return sent_[at(channel)] - std::ranges::min(received_[at(channel)]) < slots_;
           });
  }

  void take(const Start& start) {
    for (const int channel : step_of(start).in) {
      ++received(channel, start.rank);
    }
    for (const int channel : step_of(start).out) {
      ++sent_[at(channel)];
    }
    ++next_[at(start.rank)][at(start.step.lane)];
    order_[at(start.rank)].push_back(start.step);
  }

  [[nodiscard]] std::size_t reader(int channel, int rank) const {
    const auto& readers = schedule_.channels[at(channel)].readers;
    return static_cast<std::size_t>(std::ranges::find(readers, rank, &LaneId::rank) -
                                    readers.begin());
  }
  int& received(int channel, int rank) { return received_[at(channel)][reader(channel, rank)]; }
  [[nodiscard]] int received(int channel, int rank) const {
    return received_[at(channel)][reader(channel, rank)];
  }

  const Schedule& schedule_;
  int slots_;
  std::vector<std::vector<int>> next_;      // [rank][lane]: steps taken
  std::vector<int> sent_;                   // by channel
  std::vector<std::vector<int>> received_;  // [channel][reader]
  std::vector<std::vector<StepRef>> order_;
};

}  // namespace

Result<Schedule> join_lanes(Schedule schedule, int slots) {
  SENNIT_ASSIGN_OR_RETURN(const auto order, Tile(schedule, slots).run());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    std::vector<Lane>& lanes = schedule.ranks[rank];
    Lane one;
    for (const StepRef ref : order[rank]) {
      const Lane& lane = lanes[at(ref.lane)];
      one.need = lane.need == Need::kReduce ? Need::kReduce : one.need;
      Step& step = one.steps.emplace_back(lane.steps[at(ref.step)]);
      step.after.clear();
    }
    lanes.clear();
    if (!one.steps.empty()) {
      lanes.push_back(std::move(one));
    }
  }
  for (Channel& channel : schedule.channels) {
    channel.writer.lane = 0;
    for (LaneId& reader : channel.readers) {
      reader.lane = 0;
    }
  }
  for (Scratch& scratch : schedule.scratch) {
    scratch.depth = 1;
  }
  return schedule;
}

}  // namespace sennit
