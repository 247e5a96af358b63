// For tests: random numbers, and the execution of a strand in a random order.
#pragma once

#include "schedule/plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace sennit::verify_test {

using Random = std::mt19937;

inline int pick(Random& random, int count) {
  return std::uniform_int_distribution(0, count - 1)(random);
}

inline bool chance(Random& random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

// The path, an index into the channel's paths, of each message of a bundle.
using PickPath = std::function<int(int channel, int message)>;

// Runs a strand for a number of tiles, one step at a time in a random order, by the rules of
// schedule.hpp and nothing else.
class Execution {
 public:
  // Where lengths vary: the channels' tiles that have messages, the rest is left out at both ends.
  explicit Execution(
      const Strand& strand,
      int tiles,
      std::vector<int> tiles_of_channel = {},
      PickPath pick_path = [](int, int) { return 0; })
      : strand_(strand),
        tiles_(tiles),
        tiles_of_channel_(std::move(tiles_of_channel)),
        pick_path_(std::move(pick_path)) {
    const Schedule& schedule = *strand.schedule;
    for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (std::size_t lane = 0; lane < schedule.ranks[r].size(); ++lane) {
        lanes_.push_back({.rank = rank,
                          .id = static_cast<int>(lane),
                          .steps = &schedule.ranks[r][lane].steps,
                          .burst = strand.lanes[r][lane].burst});
      }
    }
    sent_.assign(schedule.channels.size(), 0);
    for (const Channel& channel : schedule.channels) {
      taken_.emplace_back(channel.readers.size(), 0);
    }
  }

  // Whether all tiles came to their end.
  bool run(Random& random) {
    while (true) {
      std::vector<LaneState*> ready;
      for (LaneState& lane : lanes_) {
        if (!is_done(lane) && (lane.exposing ? is_released(lane) : may_start(lane))) {
          ready.push_back(&lane);
        }
      }
      if (ready.empty()) {
        return std::ranges::all_of(lanes_, [this](const LaneState& lane) { return is_done(lane); });
      }
      advance(*ready[static_cast<std::size_t>(pick(random, static_cast<int>(ready.size())))]);
    }
  }

 private:
  struct LaneState {
    int rank = 0;
    int id = 0;
    const std::vector<Step>* steps = nullptr;
    int burst = 1;
    int tile = 0;  // first of its burst
    int step = 0;
    bool exposing = false;
  };

  [[nodiscard]] bool is_done(const LaneState& lane) const {
    return lane.tile >= tiles_ || lane.steps->empty();
  }
  [[nodiscard]] static const Step& step_of(const LaneState& lane) {
    return (*lane.steps)[static_cast<std::size_t>(lane.step)];
  }
  [[nodiscard]] int end_tile(const LaneState& lane) const {
    return std::min(lane.tile + lane.burst, tiles_);
  }
  [[nodiscard]] bool is_finished(int rank, StepRef step, int tile) const {
    return finished_.contains({rank, step.lane, step.step, tile});
  }

  [[nodiscard]] static bool uses(const Step& step, int scratch) {
    for (const auto* list : {&step.from, &step.to}) {
      for (const Block& block : *list) {
        if (block.space == Space::kScratch && block.scratch == scratch) {
          return true;
        }
      }
    }
    return false;
  }

  // Whether all users of `scratch` on `rank` have finished `tile`.
  [[nodiscard]] bool is_free(int rank, int scratch, int tile) const {
    for (const LaneState& lane : lanes_) {
      for (std::size_t s = 0; lane.rank == rank && s < lane.steps->size(); ++s) {
        if (uses((*lane.steps)[s], scratch) &&
            !is_finished(rank, {lane.id, static_cast<int>(s)}, tile)) {
          return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] bool may_start(const LaneState& lane) const {
    const Step& step = step_of(lane);
    const Schedule& schedule = *strand_.schedule;
    for (int tile = lane.tile; tile < end_tile(lane); ++tile) {
      for (const StepRef ref : step.after) {
        if (!is_finished(lane.rank, ref, tile)) {
          return false;
        }
      }
      for (std::size_t s = 0; s < schedule.scratch.size(); ++s) {
        const int earlier = tile - schedule.scratch[s].depth;
        if (uses(step, static_cast<int>(s)) && earlier >= 0 &&
            !is_free(lane.rank, static_cast<int>(s), earlier)) {
          return false;
        }
      }
    }
    for (const int channel : step.in) {
      const auto c = static_cast<std::size_t>(channel);
      if (sent_[c] - taken_[c][reader_of(channel, lane.rank)] <
          std::ranges::count(step.in, channel) * tiles_with(channel, lane)) {
        return false;
      }
    }
    for (const int channel : step.out) {
      const auto more =
          static_cast<int>(std::ranges::count(step.out, channel)) * tiles_with(channel, lane);
      if (more > 0 && !has_slots(channel, more)) {
        return false;
      }
    }
    return true;
  }

  // Whether the next `count` messages find free slots on the paths that are picked for them.
  [[nodiscard]] bool has_slots(int channel, int count) const {
    const auto c = static_cast<std::size_t>(channel);
    std::vector<int> held(strand_.channels[c].paths.size(), 0);
    for (int m = std::ranges::min(taken_[c]); m < sent_[c] + count; ++m) {
      ++held[static_cast<std::size_t>(pick_path_(channel, m))];
    }
    return std::ranges::max(held) <= strand_.channels[c].slots;
  }

  [[nodiscard]] bool is_exposed(int channel, int message) const {
    const ChannelBinding& binding = strand_.channels[static_cast<std::size_t>(channel)];
    const auto path = static_cast<std::size_t>(pick_path_(channel, message));
    return protocol_on(binding, binding.paths[path].kind) == Protocol::kDirectGet;
  }

  // Of the lane's burst, the tiles in which the channel has messages.
  [[nodiscard]] int tiles_with(int channel, const LaneState& lane) const {
    const int end =
        tiles_of_channel_.empty()
            ? end_tile(lane)
            : std::min(end_tile(lane), tiles_of_channel_[static_cast<std::size_t>(channel)]);
    return std::max(0, end - lane.tile);
  }

  [[nodiscard]] std::size_t reader_of(int channel, int rank) const {
    const auto& readers = strand_.schedule->channels[static_cast<std::size_t>(channel)].readers;
    return static_cast<std::size_t>(std::ranges::find(readers, rank, &LaneId::rank) -
                                    readers.begin());
  }

  [[nodiscard]] bool is_released(const LaneState& lane) const {
    return std::ranges::all_of(step_of(lane).out, [this](int channel) {
      const auto c = static_cast<std::size_t>(channel);
      for (int m = std::ranges::min(taken_[c]); m < sent_[c]; ++m) {
        if (is_exposed(channel, m)) {
          return false;
        }
      }
      return true;
    });
  }

  void advance(LaneState& lane) {
    if (!lane.exposing) {
      for (const int channel : step_of(lane).in) {
        taken_[static_cast<std::size_t>(channel)][reader_of(channel, lane.rank)] +=
            tiles_with(channel, lane);
      }
      for (const int channel : step_of(lane).out) {
        sent_[static_cast<std::size_t>(channel)] += tiles_with(channel, lane);
      }
      lane.exposing = !is_released(lane);
      if (lane.exposing) {
        return;
      }
    }
    lane.exposing = false;
    for (int tile = lane.tile; tile < end_tile(lane); ++tile) {
      finished_[{lane.rank, lane.id, lane.step, tile}] = true;
    }
    if (++lane.step == static_cast<int>(lane.steps->size())) {
      lane.step = 0;
      lane.tile += lane.burst;
    }
  }

  const Strand& strand_;
  int tiles_;
  std::vector<int> tiles_of_channel_;
  PickPath pick_path_;
  std::vector<LaneState> lanes_;
  std::vector<int> sent_;
  std::vector<std::vector<int>> taken_;  // [channel][reader]
  std::map<std::tuple<int, int, int, int>, bool> finished_;
};

}  // namespace sennit::verify_test
