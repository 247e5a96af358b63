#include "comm/device/completion_event.hpp"

namespace sennit {

Result<std::unique_ptr<CompletionEvent>> CompletionEvent::create(CudaDriver& driver,
                                                                 int device,
                                                                 void* stream) {
  const DeviceScope scope(driver, device);
  SENNIT_RETURN_IF_ERROR(scope.status());
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver.is_capturing(stream));
  if (is_capturing) {
    return fail(Code::kInvalidUsage,
                "a work was requested for a call in a stream that is under CUDA graph capture, but "
                "the call runs when the graph is launched, as often as that is. Make the call "
                "without a work; to wait for it, record an event of your own behind the launch of "
                "the graph");
  }
  std::unique_ptr<CompletionEvent> self(new CompletionEvent(driver, device));
  SENNIT_ASSIGN_OR_RETURN(self->event_, driver.events().create_event());
  return self;
}

CompletionEvent::~CompletionEvent() {
  if (event_ != nullptr) {
    const DeviceScope scope(driver_, device_);
    (void)events_.destroy_event(event_);
  }
}

Status CompletionEvent::record(void* stream) {
  SENNIT_RETURN_IF_ERROR(events_.record(event_, stream));
  is_recorded_ = true;
  return {};
}

Result<bool> CompletionEvent::has_passed() const {
  // A thread without a device of its own would otherwise make a context on device 0.
  const DeviceScope scope(driver_, device_);
  SENNIT_RETURN_IF_ERROR(scope.status());
  return events_.has_passed(event_);
}

}  // namespace sennit
