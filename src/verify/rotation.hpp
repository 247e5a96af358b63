// Rotation: schedules of two roots that are one program under other names of the ranks. What is
// proved of one is then proved of the other, since nothing in a proof depends on a rank's name but
// `reproducible`, which speaks of the order of ranks.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

// Whether `rotated` is `schedule` with every rank r, the root included, called (r + shift) mod n,
// for shift >= 0.
bool is_rotated(const Schedule& schedule, const Schedule& rotated, int shift);

}  // namespace sennit
