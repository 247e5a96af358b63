#include "comm/device/stream_order.hpp"

namespace sennit {

StreamOrder::~StreamOrder() {
  for (void* event : {last_end_, joint_}) {
    if (event != nullptr) {
      (void)events_.destroy_event(event);
    }
  }
  if (drained_ != nullptr) {
    (void)driver_.destroy_stream(drained_);
  }
}

Status StreamOrder::open() {
  SENNIT_ASSIGN_OR_RETURN(last_end_, events_.create_event());
  SENNIT_ASSIGN_OR_RETURN(joint_, events_.create_event());
  SENNIT_ASSIGN_OR_RETURN(drained_, driver_.create_stream());
  return {};
}

Status StreamOrder::before(void* stream) {
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
  if (is_capturing) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(next_stream_, driver_.stream_id(stream));
  return !last_stream_ || next_stream_ == *last_stream_ ? Status()
                                                        : events_.wait_for(last_end_, stream);
}

// The event is recorded now, and not when another stream comes: by then this one may be no more.
Status StreamOrder::after(void* stream) {
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
  if (is_capturing) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(events_.record(last_end_, stream));
  last_stream_ = next_stream_;
  return {};
}

// By a stream of ours: the user's may be no more, and what he has put in behind the call is none of
// our business.
Status StreamOrder::drain() {
  if (!last_stream_) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(events_.wait_for(last_end_, drained_));
  return driver_.synchronize(drained_);
}

Status StreamOrder::join(std::span<void* const> others, void* stream) {
  for (void* const other : others) {
    SENNIT_RETURN_IF_ERROR(events_.record(joint_, other));
    SENNIT_RETURN_IF_ERROR(events_.wait_for(joint_, stream));
  }
  return {};
}

Status StreamOrder::fork(void* stream, std::span<void* const> others) {
  if (others.empty()) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(events_.record(joint_, stream));
  for (void* const other : others) {
    SENNIT_RETURN_IF_ERROR(events_.wait_for(joint_, other));
  }
  return {};
}

}  // namespace sennit
