#include "drivers/cuda/events.hpp"

#include "drivers/cuda/driver_calls.hpp"

#include <cuda_runtime.h>

#include <string_view>

namespace sennit::cuda {
namespace {

cudaEvent_t to_event(void* event) { return static_cast<cudaEvent_t>(event); }

Result<void*> make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  SENNIT_RETURN_IF_ERROR(to_status(cudaEventCreateWithFlags(&event, flags), "making an event"));
  return static_cast<void*>(event);
}

// The answer to a query.
Result<bool> has_ended(cudaError_t answer, std::string_view what) {
  if (answer == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  SENNIT_RETURN_IF_ERROR(to_status(answer, what));
  return true;
}

}  // namespace

Result<void*> Events::create_event() { return make_event(cudaEventDisableTiming); }
Result<void*> Events::create_timed_event() { return make_event(cudaEventDefault); }

Status Events::destroy_event(void* event) {
  return to_status(cudaEventDestroy(to_event(event)), "destroying an event");
}

Status Events::record(void* event, void* stream) {
  return to_status(cudaEventRecord(to_event(event), to_stream(stream)), "recording an event");
}

Status Events::wait_for(void* event, void* stream) {
  return to_status(cudaStreamWaitEvent(to_stream(stream), to_event(event), 0),
                   "making a stream wait for an event");
}

Result<bool> Events::has_passed(void* event) {
  const CaptureScope outside;
  SENNIT_RETURN_IF_ERROR(outside.status());
  return has_ended(cudaEventQuery(to_event(event)), "querying an event");
}

Result<bool> Events::is_idle(void* stream) {
  const CaptureScope outside;
  SENNIT_RETURN_IF_ERROR(outside.status());
  return has_ended(cudaStreamQuery(to_stream(stream)), "asking whether a stream is idle");
}

Result<std::optional<double>> Events::elapsed_us(void* begin, void* end) {
  const CaptureScope outside;
  SENNIT_RETURN_IF_ERROR(outside.status());
  float ms = 0;
  const cudaError_t error = cudaEventElapsedTime(&ms, to_event(begin), to_event(end));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return std::optional<double>();
  }
  SENNIT_RETURN_IF_ERROR(to_status(error, "asking for the time between two events"));
  return std::optional(1000.0 * ms);
}

Status Events::call_host(void (*act)(void*), void* argument, void* stream) {
  return to_status(cudaLaunchHostFunc(to_stream(stream), act, argument),
                   "putting a call of the host into a stream");
}

}  // namespace sennit::cuda
