// The handle of a communicator, and how Python code waits without holding the GIL or losing Ctrl-C.
#pragma once

#include "buffer.hpp"

#include "sennit/sennit.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <mutex>
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
  [[nodiscard]] sennit_status_t state() const;
  void abort();
  void destroy();

 private:
  std::atomic<sennit_comm_t> comm_;
  std::mutex ending_;  // so that no thread aborts what another one frees
};

void bind_comm(nanobind::module_& module);

}  // namespace sennit::python
