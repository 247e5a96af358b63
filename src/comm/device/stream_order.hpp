// StreamOrder: keeps the calls of one communicator in their order where they go into several
// streams, as programs for NCCL do: PyTorch puts calls that are waited for into the caller's stream
// and others into one of its own. Calls share the FIFOs and the words of their communicator, so
// two may never run at once.
//
// In a capture the program orders its streams itself: an event from outside would spoil it.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace sennit {

class StreamOrder {
 public:
  // `driver` outlives the result.
  explicit StreamOrder(CudaDriver& driver) : driver_(driver), events_(driver.events()) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // For streams of the current device; first of all.
  Status open();

  // What is put into `stream` from here on runs after the last call.
  Status before(void* stream);
  // A call has been put into the stream of the last before().
  Status after(void* stream);

  // Waits on the host until the last call has ended. What a graph holds is not among the calls.
  Status drain();

  // What is put into `stream` from here on runs after what the others hold; the other way about.
  Status join(std::span<void* const> others, void* stream);
  Status fork(void* stream, std::span<void* const> others);

 private:
  CudaDriver& driver_;
  CudaEvents& events_;
  void* last_end_ = nullptr;  // event: the last call has ended
  void* joint_ = nullptr;     // event of join and fork
  void* drained_ = nullptr;   // stream of drain(), made where a failure can still be reported
  // By their ids: a handle may be of another stream in another thread, or later.
  std::uint64_t next_stream_ = 0;
  std::optional<std::uint64_t> last_stream_;
};

}  // namespace sennit
