#include "sim/simulate.hpp"

#include "sim/cost_form.hpp"
#include "sim/layout.hpp"

#include <algorithm>
#include <deque>
#include <queue>

namespace sennit {
namespace {

using sim::CostForm;
using sim::CostStep;
using sim::Fabric;
using sim::FlowNetwork;
using sim::Layout;
using sim::Part;
using sim::Time;

constexpr double kSecondsPerTick = 1e-12;
constexpr double kMicrosecondsPerTick = 1e-6;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Runs one plan on one machine, event by event.
class Simulator {
 public:
  Simulator(const Plan& plan, Fabric& fabric, const SimulationRequest& request)
      : plan_(plan), fabric_(fabric), request_(request), network_(fabric.capacities()) {}

  Result<Simulation> run() {
    for (std::size_t s = 0; s < plan_.strands.size(); ++s) {
      SENNIT_RETURN_IF_ERROR(add_strand(static_cast<int>(s)));
    }
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      wake(static_cast<int>(l));
    }
    while (true) {
      while (!awake_.empty()) {
        look_at(take_awake());
      }
      network_.settle(now_);
      const Time next =
          std::min(network_.next_end(), timers_.empty() ? sim::kNever : timers_.top().time);
      if (next == sim::kNever) {
        break;
      }
      now_ = next;
      handle_events();
    }
    SENNIT_RETURN_IF_ERROR(check_finished());
    return result();
  }

 private:
  enum class State : std::uint8_t { kWaiting, kRunning, kLending, kDone };

  struct Channel {
    std::int64_t sent = 0;
    int first_taken = 0;  // into taken_, one for each reader
    int readers = 0;
    std::int64_t slots = 0;
    int writer = 0;  // lane
    std::vector<int> reader_lanes{};
    std::vector<int> path_of_message{};  // of a bundle, by message number modulo slots
  };

  // A strand copy: where its lanes and channels begin.
  struct Copy {
    int strand = 0;
    int copy = 0;
    int first_lane = 0;
    int first_channel = 0;
  };

  struct Lane {
    int copy = 0;  // into copies_
    int flat = 0;  // into the flat strand's lanes
    int burst = 1;
    std::int64_t tiles = 0;
    std::int64_t units = 0;
    std::int64_t unit = 0;
    int step = 0;
    int parts_left = 0;
    State state = State::kWaiting;
    bool awake = false;
    Time begin = 0;

    [[nodiscard]] std::int64_t first_tile() const { return unit * burst; }
    [[nodiscard]] std::int64_t last_tile() const {
      return std::min(first_tile() + burst, tiles) - 1;
    }
    [[nodiscard]] std::int64_t unit_tiles() const { return last_tile() - first_tile() + 1; }
  };

  struct Timer {
    Time time = 0;
    std::int64_t order = 0;
    int lane = 0;
    bool operator>(const Timer& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  Status add_strand(int strand) {
    Result<CostForm> form = CostForm::build(plan_.strands[at(strand)], fabric_);
    SENNIT_RETURN_IF_ERROR(form.status());
    forms_.push_back(std::move(*form));
    layouts_.push_back(sim::lay_out(plan_, strand, request_.count, request_.element_bytes));
    for (int copy = 0; copy < plan_.strands[at(strand)].width; ++copy) {
      add_copy(strand, copy);
    }
    return {};
  }

  void add_copy(int strand, int copy) {
    const Strand& bound = plan_.strands[at(strand)];
    const FlatStrand& flat = forms_.back().flat();
    const Copy here{.strand = strand,
                    .copy = copy,
                    .first_lane = static_cast<int>(lanes_.size()),
                    .first_channel = static_cast<int>(channels_.size())};
    const std::int64_t tiles = (layouts_.back().tiles - copy + bound.width - 1) / bound.width;
    for (std::size_t l = 0; l < flat.lanes().size(); ++l) {
      const FlatStrand::LaneInfo& info = flat.lanes()[l];
      Lane lane{.copy = static_cast<int>(copies_.size()),
                .flat = static_cast<int>(l),
                .burst = info.burst,
                .tiles = tiles,
                .units = (tiles + info.burst - 1) / info.burst};
      lane.state = lane.units == 0 || info.steps == 0 ? State::kDone : State::kWaiting;
      lanes_.push_back(lane);
    }
    for (std::size_t c = 0; c < bound.channels.size(); ++c) {
      const sennit::Channel& ends = bound.schedule->channels[c];
      Channel channel{
          .first_taken = static_cast<int>(taken_.size()),
          .readers = static_cast<int>(ends.readers.size()),
          .slots = bound.channels[c].slots,
          .writer = here.first_lane + flat.lane_index(ends.writer.rank, ends.writer.lane)};
      for (const LaneId reader : ends.readers) {
        channel.reader_lanes.push_back(here.first_lane + flat.lane_index(reader.rank, reader.lane));
      }
      if (bound.channels[c].paths.size() > 1) {
        channel.path_of_message.resize(at(bound.channels[c].slots));
      }
      taken_.resize(taken_.size() + ends.readers.size(), 0);
      channels_.push_back(std::move(channel));
    }
    copies_.push_back(here);
  }

  [[nodiscard]] const CostStep& step_of(const Lane& lane) const {
    const CostForm& form = forms_[at(copies_[at(lane.copy)].strand)];
    return form.steps()[at(form.flat().lanes()[at(lane.flat)].first_step + lane.step)];
  }
  Channel& channel_of(const Lane& lane, int channel) {
    return channels_[at(copies_[at(lane.copy)].first_channel + channel)];
  }
  [[nodiscard]] const Channel& channel_of(const Lane& lane, int channel) const {
    return channels_[at(copies_[at(lane.copy)].first_channel + channel)];
  }
  [[nodiscard]] std::int64_t taken_by_all(const Channel& channel) const {
    const auto first = taken_.begin() + channel.first_taken;
    return *std::min_element(first, first + channel.readers);
  }

  void wake(int lane) {
    if (!lanes_[at(lane)].awake) {
      lanes_[at(lane)].awake = true;
      awake_.push_back(lane);
    }
  }

  int take_awake() {
    const int lane = awake_.front();
    awake_.pop_front();
    lanes_[at(lane)].awake = false;
    return lane;
  }

  void look_at(int number) {
    const Lane& lane = lanes_[at(number)];
    if (lane.state == State::kWaiting && may_start(lane)) {
      start(number);
    } else if (lane.state == State::kLending && is_released(lane)) {
      complete(number);
    }
  }

  [[nodiscard]] bool may_start(const Lane& lane) const {
    const CostStep& step = step_of(lane);
    const std::int64_t tiles = lane.unit_tiles();
    for (const sim::Taken& in : step.taken) {
      const Channel& channel = channel_of(lane, in.channel);
      if (channel.sent - taken_[at(channel.first_taken + in.reader)] < in.count * tiles) {
        return false;
      }
    }
    for (const sim::Sent& out : step.sent) {
      const Channel& channel = channel_of(lane, out.channel);
      if (channel.sent + out.count * tiles - taken_by_all(channel) > channel.slots) {
        return false;
      }
    }
    return std::ranges::all_of(step.waits,
                               [&](const sim::Wait& wait) { return is_over(lane, wait); });
  }

  [[nodiscard]] bool is_over(const Lane& lane, const sim::Wait& wait) const {
    const std::int64_t tile = lane.last_tile() - wait.delay;
    if (tile < 0) {
      return true;
    }
    const Lane& other = lanes_[at(copies_[at(lane.copy)].first_lane + wait.lane)];
    const std::int64_t unit = tile / other.burst;
    return other.unit > unit || (other.unit == unit && other.step > wait.step);
  }

  // Messages by direct_get lie in the sender's own blocks until their readers have them.
  [[nodiscard]] bool is_released(const Lane& lane) const {
    return std::ranges::all_of(step_of(lane).sent, [&](const sim::Sent& out) {
      const Channel& channel = channel_of(lane, out.channel);
      return taken_by_all(channel) == channel.sent;
    });
  }

  void start(int number) {
    Lane& lane = lanes_[at(number)];
    const CostStep& step = step_of(lane);
    lane.state = State::kRunning;
    lane.begin = now_;
    choose_paths(lane, step);
    Time delay = 0;
    for (const Part& part : step.parts) {
      if (is_taken(lane, step, part)) {
        delay = std::max(delay, part.start);
      }
    }
    if (delay > 0) {
      timers_.push({.time = now_ + delay, .order = timer_order_++, .lane = number});
    } else {
      launch(number);
    }
  }

  // The sender of a bundle takes, for each message, the path that would be through with it first if
  // all that moves now went on.
  void choose_paths(const Lane& lane, const CostStep& step) {
    const auto bytes = static_cast<double>(unit_bytes(lane, step));
    for (const sim::Sent& out : step.sent) {
      Channel& channel = channel_of(lane, out.channel);
      if (channel.path_of_message.empty()) {
        continue;
      }
      double least = 0;
      int best = -1;
      for (const Part& part : step.parts) {
        if (part.channel != out.channel) {
          continue;
        }
        const double time =
            static_cast<double>(part.start) + bytes / network_.fair_share(*part.uses);
        if (best < 0 || time < least) {
          least = time;
          best = part.alternative;
        }
      }
      for (std::int64_t m = channel.sent; m < channel.sent + out.count * lane.unit_tiles(); ++m) {
        channel.path_of_message[static_cast<std::size_t>(m % channel.slots)] = best;
      }
    }
  }

  // Whether the step's message goes by the path that `part` belongs to.
  [[nodiscard]] bool is_taken(const Lane& lane, const CostStep& step, const Part& part) const {
    if (part.alternative < 0) {
      return true;
    }
    const Channel& channel = channel_of(lane, part.channel);
    const auto in = std::ranges::find(step.taken, part.channel, &sim::Taken::channel);
    const std::int64_t message =
        in == step.taken.end() ? channel.sent : taken_[at(channel.first_taken + in->reader)];
    return channel.path_of_message[static_cast<std::size_t>(message % channel.slots)] ==
           part.alternative;
  }

  [[nodiscard]] std::int64_t unit_bytes(const Lane& lane, const CostStep& step) const {
    const Copy& copy = copies_[at(lane.copy)];
    const std::int64_t width = plan_.strands[at(copy.strand)].width;
    std::int64_t bytes = 0;
    for (std::int64_t tile = lane.first_tile(); tile <= lane.last_tile(); ++tile) {
      bytes += layouts_[at(copy.strand)].message(step, copy.copy + tile * width);
    }
    return bytes;
  }

  void launch(int number) {
    Lane& lane = lanes_[at(number)];
    const CostStep& step = step_of(lane);
    const auto bytes = static_cast<double>(unit_bytes(lane, step));
    for (const Part& part : step.parts) {
      const bool bounded = part.limit > 0 || !part.uses->empty();
      if (bytes == 0 || !bounded || !is_taken(lane, step, part)) {
        continue;
      }
      const int flow = network_.start(now_, *part.uses, part.limit, bytes * part.factor);
      lane_of_flow_.resize(std::max(lane_of_flow_.size(), at(flow) + 1));
      lane_of_flow_[at(flow)] = number;
      ++lane.parts_left;
      ++flows_;
    }
    if (lane.parts_left == 0) {
      end_step(number);
    }
  }

  void handle_events() {
    while (!timers_.empty() && timers_.top().time == now_) {
      const int lane = timers_.top().lane;
      timers_.pop();
      launch(lane);
    }
    for (const int flow : network_.take_ended(now_)) {
      const int lane = lane_of_flow_[at(flow)];
      if (--lanes_[at(lane)].parts_left == 0) {
        end_step(lane);
      }
    }
  }

  // Messages are full, slots are free.
  void end_step(int number) {
    const Lane& lane = lanes_[at(number)];
    const CostStep& step = step_of(lane);
    const std::int64_t tiles = lane.unit_tiles();
    for (const sim::Sent& out : step.sent) {
      Channel& channel = channel_of(lane, out.channel);
      channel.sent += out.count * tiles;
      for (const int reader : channel.reader_lanes) {
        wake(reader);
      }
    }
    for (const sim::Taken& in : step.taken) {
      const Channel& channel = channel_of(lane, in.channel);
      taken_[at(channel.first_taken + in.reader)] += in.count * tiles;
      wake(channel.writer);
    }
    if (step.lends && !is_released(lane)) {
      lanes_[at(number)].state = State::kLending;
    } else {
      complete(number);
    }
  }

  void complete(int number) {
    Lane& lane = lanes_[at(number)];
    const CostStep& step = step_of(lane);
    const Copy& copy = copies_[at(lane.copy)];
    const FlatStrand& flat = forms_[at(copy.strand)].flat();
    const FlatStrand::LaneInfo& info = flat.lanes()[at(lane.flat)];
    if (request_.timeline) {
      timeline_.push_back({.rank = info.rank,
                           .strand = copy.strand,
                           .copy = copy.copy,
                           .lane = info.lane,
                           .step = lane.step,
                           .tile = lane.first_tile(),
                           .begin_us = static_cast<double>(lane.begin) * kMicrosecondsPerTick,
                           .end_us = static_cast<double>(now_) * kMicrosecondsPerTick});
    }
    ++steps_;
    if (++lane.step == info.steps) {
      lane.step = 0;
      ++lane.unit;
    }
    lane.state = lane.unit == lane.units ? State::kDone : State::kWaiting;
    wake(number);
    if (step.awaited) {
      const int own = flat.lane_index(info.rank, 0);
      const auto count = static_cast<int>(flat.schedule().ranks[at(info.rank)].size());
      for (int other = own; other < own + count; ++other) {
        wake(copy.first_lane + other);
      }
    }
  }

  [[nodiscard]] Status check_finished() const {
    for (const Lane& lane : lanes_) {
      if (lane.state != State::kDone) {
        const FlatStrand& flat = forms_[at(copies_[at(lane.copy)].strand)].flat();
        return fail(Code::kNotProved,
                    "the plan locks up: {} of tile {} can never run",
                    flat.describe(flat.lanes()[at(lane.flat)].first_step + lane.step),
                    lane.first_tile());
      }
    }
    return {};
  }

  // A kernel begins before the first step of its lanes and ends behind the last.
  [[nodiscard]] double call_seconds() const {
    const bool kernels = std::ranges::any_of(plan_.strands, [](const Strand& strand) {
      return std::ranges::any_of(strand.lanes, [](const std::vector<LaneBinding>& lanes) {
        return std::ranges::find(lanes, Engine::kSm, &LaneBinding::engine) != lanes.end();
      });
    });
    double most_us = 0;
    for (const Vertex& vertex : fabric_.topology().vertices) {
      most_us = std::max(most_us, vertex.call_us);
    }
    return kernels ? most_us * 1e-6 : 0;
  }

  Simulation result() {
    Simulation run;
    run.seconds = static_cast<double>(now_) * kSecondsPerTick + call_seconds();
    const std::vector<double>& capacities = fabric_.capacities();
    for (std::size_t r = 0; r < capacities.size(); ++r) {
      const double bytes = network_.carried(static_cast<int>(r));
      if (bytes > 0) {
        run.resources.push_back({.name = fabric_.resource_name(static_cast<int>(r)),
                                 .gbps = capacities[r] / 1e-3,
                                 .bytes = bytes,
                                 .busy = bytes / (capacities[r] * static_cast<double>(now_))});
      }
    }
    run.timeline = std::move(timeline_);
    run.steps = steps_;
    run.flows = flows_;
    return run;
  }

  const Plan& plan_;
  Fabric& fabric_;
  const SimulationRequest& request_;
  FlowNetwork network_;
  // A deque, so that the flows' views into a form stay valid when another is added.
  std::deque<CostForm> forms_;
  std::vector<Layout> layouts_;
  std::vector<Copy> copies_;
  std::vector<Lane> lanes_;
  std::vector<Channel> channels_;
  std::vector<std::int64_t> taken_;
  std::deque<int> awake_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::int64_t timer_order_ = 0;
  std::vector<int> lane_of_flow_;
  Time now_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t flows_ = 0;
  std::vector<TimelineEvent> timeline_;
};

}  // namespace

Result<Simulation> simulate(const Plan& plan,
                            const Topology& machine,
                            const SimulationRequest& request) {
  SENNIT_RETURN_IF_ERROR(check_structure(plan));
  SENNIT_ASSIGN_OR_RETURN(
      Fabric fabric,
      Fabric::build(machine,
                    {.ranks = plan.problem().ranks, .ranks_per_device = request.ranks_per_device}));
  return Simulator(plan, fabric, request).run();
}

}  // namespace sennit
