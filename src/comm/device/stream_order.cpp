#include "comm/device/stream_order.hpp"

namespace sennit {

StreamOrder::~StreamOrder() {
  for (void* event : {last_end_, meeting_}) {
    if (event != nullptr) {
      (void)driver_.destroy_event(event);
    }
  }
}

Status StreamOrder::open() {
  SENNIT_ASSIGN_OR_RETURN(last_end_, driver_.create_event());
  SENNIT_ASSIGN_OR_RETURN(meeting_, driver_.create_event());
  return {};
}

Status StreamOrder::before(void* stream) {
  if (!last_stream_ || stream == *last_stream_) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
  return is_capturing ? Status() : driver_.wait_for(last_end_, stream);
}

// The event is recorded now, and not when another stream comes: by then this one may be no more.
Status StreamOrder::after(void* stream) {
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
  if (is_capturing) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(driver_.record(last_end_, stream));
  last_stream_ = stream;
  return {};
}

// By a stream of ours: the user's may be no more, and what he has put in behind the call is none of
// our business.
Status StreamOrder::drain() {
  if (!last_stream_) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(void* const stream, driver_.create_stream());
  Status status = driver_.wait_for(last_end_, stream);
  if (status.ok()) {
    status = driver_.synchronize(stream);
  }
  const Status destroyed = driver_.destroy_stream(stream);
  return status.ok() ? destroyed : status;
}

Status StreamOrder::join(std::span<void* const> others, void* stream) {
  for (void* const other : others) {
    SENNIT_RETURN_IF_ERROR(driver_.record(meeting_, other));
    SENNIT_RETURN_IF_ERROR(driver_.wait_for(meeting_, stream));
  }
  return {};
}

Status StreamOrder::fork(void* stream, std::span<void* const> others) {
  if (others.empty()) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(driver_.record(meeting_, stream));
  for (void* const other : others) {
    SENNIT_RETURN_IF_ERROR(driver_.wait_for(meeting_, other));
  }
  return {};
}

}  // namespace sennit
