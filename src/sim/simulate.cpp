#include "sim/simulate.hpp"

#include "sim/bundles.hpp"
#include "sim/cost_form.hpp"
#include "sim/stage.hpp"
#include "sim/turns.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

namespace sennit {
namespace {

using sim::Caller;
using sim::CostForm;
using sim::CostStep;
using sim::Event;
using sim::Fabric;
using sim::FlowNetwork;
using sim::Part;
using sim::StrandCopy;
using sim::Time;
using sim::Timer;
using Lane = sim::RunningLane;
using State = sim::LaneState;

constexpr double kSecondsPerTick = 1e-12;
constexpr double kMicrosecondsPerTick = 1e-6;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool has_kernels(const Plan& plan) {
  return std::ranges::any_of(plan.strands, [](const Strand& strand) {
    return std::ranges::any_of(strand.lanes, [](const std::vector<LaneBinding>& lanes) {
      return std::ranges::any_of(
          lanes, [](const LaneBinding& lane) { return lane.engine == Engine::kSm; });
    });
  });
}

// Runs one plan on one machine, event by event.
class Simulator {
 public:
  Simulator(const Plan& plan, Fabric& fabric, const SimulationRequest& request)
      : plan_(plan),
        fabric_(fabric),
        request_(request),
        network_(fabric.capacities()),
        call_time_(sim::call_time(plan, fabric.topology())) {}

  Result<Simulation> run() {
    SENNIT_RETURN_IF_ERROR(stage_.set(plan_, fabric_, request_));
    begin_calls();
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
  [[nodiscard]] const sim::ChannelDelays& delays_of(const Lane& lane, int channel) const {
    return stage_.form_of(lane).delays()[at(channel)];
  }

  void wake(int lane) {
    if (!stage_.lanes[at(lane)].awake) {
      stage_.lanes[at(lane)].awake = true;
      awake_.push_back(lane);
    }
  }

  int take_awake() {
    const int lane = awake_.front();
    awake_.pop_front();
    stage_.lanes[at(lane)].awake = false;
    return lane;
  }

  void look_at(int number) {
    const Lane& lane = stage_.lanes[at(number)];
    if (lane.state == State::kWaiting && may_start(lane)) {
      const int rank = stage_.rank_of(lane);
      if (stage_.step_of(lane).change == 0 ||
          turns_.may_enter(fabric_.device_of(rank), rank, number)) {
        start(number);
      }
    } else if (lane.state == State::kLending && stage_.is_released(lane)) {
      complete(number);
    }
  }

  [[nodiscard]] bool may_start(const Lane& lane) const {
    if (!stage_.rounds.may_run(lane.block, lane.first_tile(), lane.goes_last)) {
      return false;
    }
    const CostStep& step = stage_.step_of(lane);
    const std::int64_t tiles = lane.unit_tiles();
    for (const sim::Taken& in : step.taken) {
      if (!stage_.channels.has(stage_.channel_of(lane, in.channel), in.reader, in.count * tiles)) {
        return false;
      }
    }
    for (const sim::Sent& out : step.sent) {
      if (!has_room(lane, step, out)) {
        return false;
      }
    }
    return std::ranges::all_of(step.waits,
                               [&](const sim::Wait& wait) { return stage_.is_over(lane, wait); });
  }

  void start(int number) {
    Lane& lane = stage_.lanes[at(number)];
    const CostStep& step = stage_.step_of(lane);
    lane.state = State::kRunning;
    lane.begin = now_;
    choose_paths(lane, step);
    Time delay = 0;
    for (const Part& part : step.parts) {
      if (stage_.is_taken(lane, step, part)) {
        delay = std::max(delay, part.start);
      }
    }
    const int rank = stage_.rank_of(lane);
    if (step.change > 0 && turns_.enter(fabric_.device_of(rank), rank)) {
      delay += step.change;
    }
    if (delay > 0) {
      at_time(now_ + delay, {.event = Event::kLaunch, .subject = number});
    } else {
      launch(number);
    }
  }

  [[nodiscard]] bool has_room(const Lane& lane, const CostStep& step, const sim::Sent& out) const {
    const int channel = stage_.channel_of(lane, out.channel);
    const std::int64_t messages = out.count * lane.unit_tiles();
    return stage_.channels.is_bundle(channel)
               ? stage_.channels.has_room_on(channel, pick_path(lane, step, out), messages)
               : stage_.channels.has_room(channel, messages);
  }

  // A burst goes by one path.
  [[nodiscard]] int pick_path(const Lane& lane, const CostStep& step, const sim::Sent& out) const {
    const sim::Outgoing messages{.channel = stage_.channel_of(lane, out.channel),
                                 .count = out.count * lane.unit_tiles()};
    if (!request_.policy) {
      const auto bytes = static_cast<double>(unit_bytes(lane, step));
      const int preferred = stage_.copy_of(lane).copy % stage_.channels.paths(messages.channel);
      return sim::soonest_path(
          network_, stage_.channels, messages, {step.parts, out.channel, preferred}, bytes);
    }
    const FlatStrand& flat = stage_.form_of(lane).flat();
    const int rank = flat.lanes()[at(lane.flat)].rank;
    return sim::pick_path(
        *request_.policy, stage_.channels, stage_.callers[at(rank)].bundles, messages);
  }

  void choose_paths(const Lane& lane, const CostStep& step) {
    for (const sim::Sent& out : step.sent) {
      const int channel = stage_.channel_of(lane, out.channel);
      if (stage_.channels.is_bundle(channel)) {
        const int path = pick_path(lane, step, out);
        for (std::int64_t m = 0; m < out.count * lane.unit_tiles(); ++m) {
          stage_.channels.set_path(channel, stage_.channels.sent(channel) + m, path);
        }
      }
    }
  }

  [[nodiscard]] std::int64_t unit_bytes(const Lane& lane, const CostStep& step) const {
    const StrandCopy& copy = stage_.copy_of(lane);
    const std::int64_t width = plan_.strands[at(copy.strand)].width;
    std::int64_t bytes = 0;
    for (std::int64_t tile = lane.first_tile(); tile <= lane.last_tile(); ++tile) {
      bytes += stage_.layouts[at(copy.strand)].message(step, copy.copy + tile * width);
    }
    return bytes;
  }

  void launch(int number) {
    Lane& lane = stage_.lanes[at(number)];
    const CostStep& step = stage_.step_of(lane);
    const auto bytes = static_cast<double>(unit_bytes(lane, step));
    for (const Part& part : step.parts) {
      const bool bounded = part.limit > 0 || !part.uses->empty();
      if (bytes == 0 || !bounded || !stage_.is_taken(lane, step, part)) {
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

  void at_time(Time time, Timer timer) {
    timer.time = time;
    timer.order = timer_order_++;
    timers_.push(timer);
  }

  void handle(const Timer& timer) {
    switch (timer.event) {
      case Event::kLaunch:
        return launch(timer.subject);
      case Event::kArrive:
        return arrive(timer.subject, timer.messages);
      case Event::kFree:
        return free(timer.subject, timer.reader, timer.messages);
      case Event::kCall:
        return begin_call(timer.subject);
      case Event::kBegin:
        return begin_lane(timer.subject);
    }
  }

  void arrive(int channel, std::int64_t messages) {
    stage_.channels.arrive(channel, messages);
    for (const int reader : stage_.channels.readers(channel)) {
      wake(reader);
    }
  }

  void free(int channel, int reader, std::int64_t taken) {
    stage_.channels.free(channel, reader, taken);
    wake(stage_.channels.writer(channel));
  }

  // All ranks at once, as if they had waited for each other.
  void begin_calls() {
    for (int rank = 0; rank < static_cast<int>(stage_.callers.size()); ++rank) {
      at_time(call_time_, {.event = Event::kCall, .subject = rank});
    }
  }

  void begin_call(int rank) {
    Caller& caller = stage_.callers[at(rank)];
    ++caller.call;
    caller.lanes_left = 1;  // this function, so that the call does not end meanwhile
    for (const int number : caller.lanes) {
      Lane& lane = stage_.lanes[at(number)];
      if (number == stage_.rounds.first_lane(lane.block)) {
        stage_.rounds.restart(lane.block);
      }
      lane.unit = 0;
      if (lane.units > 0) {
        ++caller.lanes_left;
        stage_.rounds.enter(lane.block, lane.goes_last);
        if (lane.begins_after > 0) {
          at_time(now_ + lane.begins_after, {.event = Event::kBegin, .subject = number});
        } else {
          begin_lane(number);
        }
      }
    }
    end_lane(caller, rank);
  }

  void begin_lane(int number) {
    stage_.lanes[at(number)].state = State::kWaiting;
    wake(number);
  }

  void end_lane(Caller& caller, int rank) {
    if (--caller.lanes_left == 0 && caller.call + 1 < request_.calls) {
      at_time(now_ + call_time_, {.event = Event::kCall, .subject = rank});
    }
  }

  // The lane has finished what it does in the round of its block.
  void end_round(const Lane& ended) {
    const int block = ended.block;
    stage_.rounds.leave(block, ended.goes_last);
    if (!stage_.rounds.is_for_last(block)) {
      return;
    }
    const bool over = stage_.rounds.is_over(block);
    if (over) {
      stage_.rounds.go_on(block);
    }
    for (int number = stage_.rounds.first_lane(block); number < stage_.rounds.end_lane(block);
         ++number) {
      const Lane& lane = stage_.lanes[at(number)];
      wake(number);
      if (over) {
        tell_all_free(lane);
      }
      if (over && lane.state != State::kDone) {
        stage_.rounds.enter(block, lane.goes_last);
      }
    }
  }

  // Slots are free when the round is over in which they were emptied.
  void tell_all_free(const Lane& lane) {
    for (const sim::Taken& in : stage_.form_of(lane).taken_by(lane.flat)) {
      tell_free(lane, in);
    }
  }

  void tell_free(const Lane& lane, const sim::Taken& in) {
    const int channel = stage_.channel_of(lane, in.channel);
    const std::int64_t taken = stage_.channels.taken(channel, in.reader);
    if (const Time delay = delays_of(lane, in.channel).free; delay > 0) {
      at_time(now_ + delay,
              {.event = Event::kFree, .subject = channel, .reader = in.reader, .messages = taken});
    } else {
      free(channel, in.reader, taken);
    }
  }

  void handle_events() {
    while (!timers_.empty() && timers_.top().time == now_) {
      const Timer timer = timers_.top();
      timers_.pop();
      handle(timer);
    }
    for (const int flow : network_.take_ended(now_)) {
      const int lane = lane_of_flow_[at(flow)];
      if (--stage_.lanes[at(lane)].parts_left == 0) {
        end_step(lane);
      }
    }
  }

  void send(const Lane& lane, int channel, std::int64_t messages) {
    const int number = stage_.channel_of(lane, channel);
    stage_.channels.send(number, messages);
    if (const Time flight = delays_of(lane, channel).flight; flight > 0) {
      at_time(now_ + flight, {.event = Event::kArrive, .subject = number, .messages = messages});
    } else {
      arrive(number, messages);
    }
  }

  // Messages are full, slots are free.
  void end_step(int number) {
    const Lane& lane = stage_.lanes[at(number)];
    const CostStep& step = stage_.step_of(lane);
    if (step.change > 0) {
      for (const int waiting : turns_.leave(fabric_.device_of(stage_.rank_of(lane)))) {
        wake(waiting);
      }
    }
    const std::int64_t tiles = lane.unit_tiles();
    for (const sim::Sent& out : step.sent) {
      send(lane, out.channel, out.count * tiles);
    }
    for (const sim::Taken& in : step.taken) {
      stage_.channels.take(stage_.channel_of(lane, in.channel), in.reader, in.count * tiles);
      if (!stage_.rounds.has_rounds(lane.block)) {
        tell_free(lane, in);
      }
    }
    if (step.exposes && !stage_.is_released(lane)) {
      stage_.lanes[at(number)].state = State::kLending;
    } else {
      complete(number);
    }
  }

  void complete(int number) {
    Lane& lane = stage_.lanes[at(number)];
    const CostStep& step = stage_.step_of(lane);
    const StrandCopy& copy = stage_.copy_of(lane);
    const FlatStrand& flat = stage_.forms[at(copy.strand)].flat();
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
    end_ = now_;
    if (++lane.step == info.steps) {
      lane.step = 0;
      ++lane.unit;
    }
    lane.state = lane.unit == lane.units ? State::kDone : State::kWaiting;
    wake(number);
    const bool done = lane.state == State::kDone;
    if (lane.step == 0 && stage_.rounds.has_rounds(lane.block) &&
        (done || stage_.rounds.is_past(lane.block, lane.first_tile()))) {
      end_round(lane);
    }
    if (done) {
      end_lane(stage_.callers[at(info.rank)], info.rank);
    }
    if (step.awaited) {
      const int own = flat.lane_index(info.rank, 0);
      const auto count = static_cast<int>(flat.schedule().ranks[at(info.rank)].size());
      for (int other = own; other < own + count; ++other) {
        wake(copy.first_lane + other);
      }
    }
  }

  [[nodiscard]] Status check_finished() const {
    for (const Lane& lane : stage_.lanes) {
      if (lane.state != State::kDone) {
        const FlatStrand& flat = stage_.form_of(lane).flat();
        return fail(Code::kNotProved,
                    "the plan locks up: {} of tile {} can never run",
                    flat.describe(flat.lanes()[at(lane.flat)].first_step + lane.step),
                    lane.first_tile());
      }
    }
    return {};
  }

  Simulation result() {
    Simulation run;
    run.seconds = static_cast<double>(end_) * kSecondsPerTick / request_.calls;
    const std::vector<double>& capacities = fabric_.capacities();
    for (std::size_t r = 0; r < capacities.size(); ++r) {
      const double bytes = network_.carried(static_cast<int>(r));
      if (bytes > 0) {
        run.resources.push_back({.name = fabric_.resource_name(static_cast<int>(r)),
                                 .gbps = capacities[r] / 1e-3,
                                 .bytes = bytes,
                                 .busy = bytes / (capacities[r] * static_cast<double>(end_))});
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
  sim::Stage stage_;
  sim::Turns turns_;
  std::deque<int> awake_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::int64_t timer_order_ = 0;
  std::vector<int> lane_of_flow_;
  Time call_time_ = 0;
  Time now_ = 0;
  Time end_ = 0;  // of the last step; words about free slots may travel later
  std::int64_t steps_ = 0;
  std::int64_t flows_ = 0;
  std::vector<TimelineEvent> timeline_;
};

}  // namespace

Result<Simulation> simulate(const Plan& plan,
                            const Topology& machine,
                            const SimulationRequest& request) {
  SENNIT_RETURN_IF_ERROR(check_structure(plan));
  SENNIT_RETURN_IF_ERROR(sim::check_choices(plan));
  if (has_codec(plan)) {
    return fail(Code::kUnsupported, "the plan has a codec, whose time nobody simulates yet");
  }
  if (request.in_turn && has_kernels(plan)) {
    return fail(Code::kUnsupported,
                "kernels that wait for each other hold a GPU that runs its ranks in turn, which is "
                "not simulated: request protocol copy_engines");
  }
  SENNIT_ASSIGN_OR_RETURN(
      Fabric fabric,
      Fabric::build(machine,
                    {.ranks = plan.problem().ranks, .ranks_per_device = request.ranks_per_device}));
  return Simulator(plan, fabric, request).run();
}

}  // namespace sennit
