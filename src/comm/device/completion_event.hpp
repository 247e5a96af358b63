// CompletionEvent: an event that is recorded in a stream behind one call, so that the host can ask
// whether that call has ended.
//
//   SENNIT_ASSIGN_OR_RETURN(const auto event, CompletionEvent::create(driver, device, stream));
//   ... enqueue the call into `stream` ...
//   SENNIT_RETURN_IF_ERROR(event->record(stream));
//   SENNIT_ASSIGN_OR_RETURN(const bool has_ended, event->has_passed());
//
// It is made before the call is enqueued, so that what can fail has failed by then. Any thread may
// use it, whatever its current device is; one thread at a time.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <memory>

namespace sennit {

class CompletionEvent {
 public:
  // For a stream of `device`. `driver` outlives the result. kInvalidUsage where `stream` is under
  // capture: an event that was recorded in a capture stands for no moment of any replay.
  static Result<std::unique_ptr<CompletionEvent>> create(CudaDriver& driver,
                                                         int device,
                                                         void* stream);
  ~CompletionEvent();
  CompletionEvent(const CompletionEvent&) = delete;
  CompletionEvent& operator=(const CompletionEvent&) = delete;

  // The current device is that of create().
  Status record(void* stream);
  [[nodiscard]] bool is_recorded() const { return is_recorded_; }

  // Does not block. Only after record().
  [[nodiscard]] Result<bool> has_passed() const;

  // The destructor makes no CUDA call: for a forked child, where CUDA cannot be called.
  void forget() { event_ = nullptr; }

 private:
  CompletionEvent(CudaDriver& driver, int device)
      : driver_(driver), events_(driver.events()), device_(device) {}

  CudaDriver& driver_;
  CudaEvents& events_;
  int device_;
  void* event_ = nullptr;
  bool is_recorded_ = false;
};

}  // namespace sennit
