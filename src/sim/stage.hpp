// Stage: all that a simulation moves on, as plain data: lanes, what their channels hold, which
// round their blocks are in.
#pragma once

#include "sim/channel_counts.hpp"
#include "sim/cost_form.hpp"
#include "sim/flow_network.hpp"
#include "sim/layout.hpp"
#include "sim/rounds.hpp"
#include "sim/simulate.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace sennit::sim {

enum class LaneState : std::uint8_t { kWaiting, kRunning, kLending, kDone };

// A strand copy: where its lanes and channels begin.
struct StrandCopy {
  int strand = 0;
  int copy = 0;
  int first_lane = 0;
  int first_channel = 0;
};

struct RunningLane {
  int copy = 0;   // into the strand copies
  int block = 0;  // of Rounds: the lanes of a rank in one strand copy
  int flat = 0;   // into the flat strand's lanes
  bool goes_last = false;
  int burst = 1;
  std::int64_t tiles = 0;
  std::int64_t units = 0;
  std::int64_t unit = 0;
  int step = 0;
  int parts_left = 0;
  LaneState state = LaneState::kDone;
  bool awake = false;
  Time begins_after = 0;  // its call
  Time begin = 0;         // of the step that runs

  [[nodiscard]] std::int64_t first_tile() const { return unit * burst; }
  [[nodiscard]] std::int64_t last_tile() const { return std::min(first_tile() + burst, tiles) - 1; }
  [[nodiscard]] std::int64_t unit_tiles() const { return last_tile() - first_tile() + 1; }
};

// A rank, whose calls follow each other like kernels in a stream.
struct Caller {
  int call = -1;  // that runs
  std::vector<int> lanes{};
  std::vector<int> bundles{};  // channels that it writes
  int lanes_left = 0;
};

enum class Event : std::uint8_t {
  kLaunch,  // the start-up of a lane's step is over
  kArrive,  // messages of a channel have come to its readers
  kFree,    // the writer of a channel knows what a reader has taken
  kCall,    // a rank begins its next call
  kBegin,   // a lane begins in it
};

struct Timer {
  Time time = 0;
  std::int64_t order = 0;
  Event event = Event::kLaunch;
  int subject = 0;  // lane, channel, channel, rank
  int reader = 0;
  std::int64_t messages = 0;

  bool operator>(const Timer& other) const {
    return time != other.time ? time > other.time : order > other.order;
  }
};

struct Stage {
  // A deque, so that the flows' views into a form stay valid when another is added.
  std::deque<CostForm> forms;   // by strand
  std::vector<Layout> layouts;  // by strand
  std::vector<StrandCopy> copies;
  std::vector<Caller> callers;  // by rank
  std::vector<RunningLane> lanes;
  ChannelCounts channels;
  Rounds rounds;

  [[nodiscard]] const CostForm& form_of(const RunningLane& lane) const {
    return forms[static_cast<std::size_t>(copy_of(lane).strand)];
  }
  [[nodiscard]] const StrandCopy& copy_of(const RunningLane& lane) const {
    return copies[static_cast<std::size_t>(lane.copy)];
  }
  [[nodiscard]] int rank_of(const RunningLane& lane) const {
    return form_of(lane).flat().lanes()[static_cast<std::size_t>(lane.flat)].rank;
  }
  // The step that the lane is at.
  [[nodiscard]] const CostStep& step_of(const RunningLane& lane) const {
    const CostForm& form = form_of(lane);
    const FlatStrand::LaneInfo& info = form.flat().lanes()[static_cast<std::size_t>(lane.flat)];
    const int step = info.first_step + lane.step;
    return form.steps()[static_cast<std::size_t>(step)];
  }
  // The number in `channels` of a channel of the lane's strand.
  [[nodiscard]] int channel_of(const RunningLane& lane, int channel) const {
    return copy_of(lane).first_channel + channel;
  }
  // Whether another lane has done what a step of this one waits for.
  [[nodiscard]] bool is_over(const RunningLane& lane, const Wait& wait) const;
  // Messages by direct_get lie in the sender's own blocks until their readers have them.
  [[nodiscard]] bool is_released(const RunningLane& lane) const;
  // Whether the step's message goes by the path that `part` belongs to.
  [[nodiscard]] bool is_taken(const RunningLane& lane,
                              const CostStep& step,
                              const Part& part) const;

  // No call has begun.
  Status set(const Plan& plan, Fabric& fabric, const SimulationRequest& request);

 private:
  void add_copy(const Plan& plan, int strand, int copy);
  void add_lanes(const Strand& bound, std::int64_t tiles);
  void add_channels(const Strand& bound, int first_lane);
};

// What a kernel of the plan takes to begin and to end; 0 where it has none.
Time call_time(const Plan& plan, const Topology& machine);

}  // namespace sennit::sim
