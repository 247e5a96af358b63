// A schedule for the tests of printed forms.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

// Has every kind of step and every field that a schedule can have; right in structure alone.
Schedule schedule_with_everything();

}  // namespace sennit
