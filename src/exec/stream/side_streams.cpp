#include "exec/stream/side_streams.hpp"

#include <utility>

namespace sennit::stream {

Status SideStreams::open(int count) {
  close();
  const Status status = make(count);
  if (!status.ok()) {
    close();  // there are all of them, or none
  }
  return status;
}

Status SideStreams::make(int count) {
  sides_.resize(static_cast<std::size_t>(count));
  for (Side& side : sides_) {
    SENNIT_ASSIGN_OR_RETURN(side.stream, driver_.create_stream());
    SENNIT_ASSIGN_OR_RETURN(side.event, driver_.create_event());
  }
  SENNIT_ASSIGN_OR_RETURN(forked_, driver_.create_event());
  return {};
}

void SideStreams::close() {
  for (const Side& side : sides_) {
    if (side.stream != nullptr) {
      (void)driver_.destroy_stream(side.stream);
    }
  }
  for (const Side& side : sides_) {
    if (side.event != nullptr) {
      (void)driver_.destroy_event(side.event);
    }
  }
  sides_.clear();
  if (forked_ != nullptr) {
    (void)driver_.destroy_event(std::exchange(forked_, nullptr));
  }
}

Status SideStreams::fork(void* stream) {
  for (Side& side : sides_) {
    side.is_used = false;  // a call may have failed half way
  }
  return sides_.empty() ? Status() : driver_.record(forked_, stream);
}

Result<void*> SideStreams::use(int index) {
  Side& side = sides_[static_cast<std::size_t>(index)];
  if (!side.is_used) {
    SENNIT_RETURN_IF_ERROR(driver_.wait_for(forked_, side.stream));
    side.is_used = true;
  }
  return side.stream;
}

Status SideStreams::order(int before, int after) {
  SENNIT_ASSIGN_OR_RETURN(void* const earlier, use(before));
  SENNIT_ASSIGN_OR_RETURN(void* const later, use(after));
  void* const event = sides_[static_cast<std::size_t>(before)].event;
  SENNIT_RETURN_IF_ERROR(driver_.record(event, earlier));
  return driver_.wait_for(event, later);
}

Status SideStreams::join(void* stream) {
  for (Side& side : sides_) {
    if (std::exchange(side.is_used, false)) {
      SENNIT_RETURN_IF_ERROR(driver_.record(side.event, side.stream));
      SENNIT_RETURN_IF_ERROR(driver_.wait_for(side.event, stream));
    }
  }
  return {};
}

}  // namespace sennit::stream
