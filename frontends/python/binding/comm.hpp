// The handle of a communicator, and how Python code waits without holding the GIL or losing Ctrl-C.
#pragma once

#include "buffer.hpp"
#include "streams.hpp"

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sennit::python {

// How long a wait runs before it looks for signals: short to a person, long to the machine.
inline constexpr double kSignalSlice_s = 0.05;

// Owns one sennit_comm_t. Any thread, one at a time; abort() also while another thread waits.
class Comm {
 public:
  explicit Comm(sennit_comm_t comm) : comm_(comm) {}
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // The handle; raises InvalidUsage once the communicator has been destroyed.
  [[nodiscard]] sennit_comm_t get() const;
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  // The CUDA device of this rank; -1 for a host rank, and while it joins.
  [[nodiscard]] int device() const;
  [[nodiscard]] sennit_status_t state() const;
  void abort();
  void destroy();
  // Gives the handle up to the caller.
  sennit_comm_t release() { return comm_.exchange(nullptr); }

  // The stream for calls without buffers: the current one of the library that made the buffers of
  // the last call, where that can be asked, else the default stream.
  [[nodiscard]] Stream stream() const;
  void remember(const ProducerStream& stream);
  // Takes over the work of a GPU call that the program has dropped: to destroy it would wait for
  // its end.
  void leave_behind(sennit_work_t work);
  // Destroys those of them that have ended.
  void destroy_ended();

 private:
  std::atomic<sennit_comm_t> comm_;
  mutable std::optional<int> device_;
  ProducerStream stream_;
  std::vector<sennit_work_t> left_behind_;
  std::mutex ending_;  // so that no thread aborts what another one frees
};

void bind_comm(nanobind::module_& module);

}  // namespace sennit::python
