#include "schedule_edits.hpp"

#include <algorithm>
#include <utility>

namespace sennit::tests {

Lane& lane_at(Schedule& schedule, LaneId id) {
  return schedule.ranks[static_cast<std::size_t>(id.rank)][static_cast<std::size_t>(id.lane)];
}

Step& step_at(Schedule& schedule, const Place& place) {
  return lane_at(schedule, place.lane).steps[static_cast<std::size_t>(place.step)];
}

namespace {

// `moved` tells where a step of the lane is now; none: it is gone.
void rename_steps(Schedule& schedule,
                  LaneId id,
                  const std::function<std::optional<int>(int)>& moved) {
  for (Lane& lane : schedule.ranks[static_cast<std::size_t>(id.rank)]) {
    for (Step& step : lane.steps) {
      std::vector<StepRef> refs;
      for (StepRef ref : step.after) {
        const std::optional<int> now = ref.lane == id.lane ? moved(ref.step) : ref.step;
        if (now) {
          refs.push_back({ref.lane, *now});
        }
      }
      step.after = std::move(refs);
    }
  }
}

// Where lane `id` names message `number` of `channel`.
std::optional<Place> use_of(Schedule& schedule, LaneId id, int channel, bool sends, int number) {
  const auto& steps = lane_at(schedule, id).steps;
  for (int s = 0; std::cmp_less(s, steps.size()); ++s) {
    const Step& step = steps[static_cast<std::size_t>(s)];
    for (const int named : sends ? step.out : step.in) {
      if (named == channel && number-- == 0) {
        return Place{id, s};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Place> any_step(Random& random,
                              Schedule& schedule,
                              const std::function<bool(const Step&)>& fits) {
  std::vector<Place> places;
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    const auto& lanes = schedule.ranks[static_cast<std::size_t>(rank)];
    for (int lane = 0; std::cmp_less(lane, lanes.size()); ++lane) {
      const auto& steps = lanes[static_cast<std::size_t>(lane)].steps;
      for (int step = 0; std::cmp_less(step, steps.size()); ++step) {
        if (fits(steps[static_cast<std::size_t>(step)])) {
          places.push_back({{rank, lane}, step});
        }
      }
    }
  }
  if (places.empty()) {
    return std::nullopt;
  }
  return places[static_cast<std::size_t>(pick(random, static_cast<int>(places.size())))];
}

void remove_step(Schedule& schedule, const Place& place) {
  auto& steps = lane_at(schedule, place.lane).steps;
  steps.erase(steps.begin() + place.step);
  rename_steps(schedule, place.lane, [&](int step) {
    return step == place.step ? std::nullopt : std::optional(step > place.step ? step - 1 : step);
  });
}

void insert_step(Schedule& schedule, const Place& place, Step step) {
  rename_steps(
      schedule, place.lane, [&](int s) { return std::optional(s >= place.step ? s + 1 : s); });
  auto& steps = lane_at(schedule, place.lane).steps;
  steps.insert(steps.begin() + place.step, std::move(step));
}

std::vector<Use> uses_of(Schedule& schedule, const Place& place) {
  const auto& steps = lane_at(schedule, place.lane).steps;
  const Step& step = steps[static_cast<std::size_t>(place.step)];
  std::vector<Use> uses;
  for (const bool sends : {false, true}) {
    for (const int channel : sends ? step.out : step.in) {
      std::ptrdiff_t number = 0;
      for (int s = 0; s < place.step; ++s) {
        const Step& earlier = steps[static_cast<std::size_t>(s)];
        number += std::ranges::count(sends ? earlier.out : earlier.in, channel);
      }
      uses.push_back({channel, sends, static_cast<int>(number)});
    }
  }
  return uses;
}

std::vector<Place> other_ends(Schedule& schedule, const Use& use) {
  const Channel& channel = schedule.channels[static_cast<std::size_t>(use.channel)];
  const std::vector<LaneId> lanes = use.sends ? channel.readers : std::vector{channel.writer};
  std::vector<Place> places;
  for (const LaneId lane : lanes) {
    if (const auto place = use_of(schedule, lane, use.channel, !use.sends, use.number)) {
      places.push_back(*place);
    }
  }
  return places;
}

}  // namespace sennit::tests
