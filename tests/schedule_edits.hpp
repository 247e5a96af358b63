// For tests: steps of a schedule that are found, removed and inserted, with what refers to them.
#pragma once

#include "mutants.hpp"

#include "schedule/schedule.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace sennit::tests {

struct Place {
  LaneId lane;
  int step = 0;
};

Lane& lane_at(Schedule& schedule, LaneId id);
Step& step_at(Schedule& schedule, const Place& place);

inline bool is_any(const Step&) { return true; }

// Any step that `fits`, if there is one.
std::optional<Place> any_step(Random& random,
                              Schedule& schedule,
                              const std::function<bool(const Step&)>& fits);

// `after` goes on naming the same steps.
void remove_step(Schedule& schedule, const Place& place);
void insert_step(Schedule& schedule, const Place& place, Step step);

struct Use {
  int channel = 0;
  bool sends = false;
  int number = 0;
};

// The messages that a step takes and sends.
std::vector<Use> uses_of(Schedule& schedule, const Place& place);

// The steps at the other ends of a message.
std::vector<Place> other_ends(Schedule& schedule, const Use& use);

}  // namespace sennit::tests
