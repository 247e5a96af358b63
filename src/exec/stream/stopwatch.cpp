#include "exec/stream/stopwatch.hpp"

#include <cstddef>
#include <optional>

namespace sennit::stream {

Stopwatch::~Stopwatch() {
  for (void* const event : {begin_, ends_[kDirect], ends_[kHost]}) {
    if (event != nullptr) {
      (void)events_.destroy_event(event);
    }
  }
}

Status Stopwatch::open() {
  for (void** const event : {&begin_, &ends_[kDirect], &ends_[kHost]}) {
    SENNIT_ASSIGN_OR_RETURN(*event, events_.create_timed_event());
  }
  return {};
}

Status Stopwatch::begin(void* stream) {
  has_begun_ = true;
  return events_.record(begin_, stream);
}

Status Stopwatch::end(Strand strand, void* stream) {
  has_ended_[strand] = true;
  return events_.record(ends_[strand], stream);
}

Stopwatch::Reading Stopwatch::read() const {
  using State = Reading::State;
  if (!has_begun_) {
    return {.state = State::kVoid};
  }
  std::array<double, kStrands> us{};
  for (std::size_t strand = 0; strand < us.size(); ++strand) {
    if (!has_ended_[strand]) {
      continue;
    }
    const Result<std::optional<double>> elapsed = events_.elapsed_us(begin_, ends_[strand]);
    if (!elapsed.ok() || (*elapsed && **elapsed <= 0)) {
      return {.state = State::kVoid};
    }
    if (!*elapsed) {
      return {.state = State::kUnderWay};
    }
    us[strand] = **elapsed;
  }
  return {.state = State::kDone, .direct_us = us[kDirect], .host_us = us[kHost]};
}

}  // namespace sennit::stream
