// Failures as the exceptions of Python that programs know: sennit.RankFailed and the like.
#pragma once

#include "sennit/sennit.h"

#include <Python.h>

#include <memory>
#include <string>

namespace sennit::pytorch {

// An exception of Python that may be raised as often as somebody asks.
class Failure {
 public:
  // The last error of this thread, if it has this status.
  static Failure last(sennit_status_t status);
  static Failure with_text(sennit_status_t status, const std::string& text);

  // Throws it; Python takes it over where the exception leaves C++.
  [[noreturn]] void raise() const;

 private:
  explicit Failure(PyObject* exception);
  std::shared_ptr<PyObject> exception_;
};

inline void check(sennit_status_t status) {
  if (status != SENNIT_OK) {
    Failure::last(status).raise();
  }
}

[[noreturn]] inline void refuse(sennit_status_t status, const std::string& text) {
  Failure::with_text(status, text).raise();
}

inline void require(bool is_right, const std::string& text) {
  if (!is_right) {
    refuse(SENNIT_INVALID_ARGUMENT, text);
  }
}

// Runs the signal handlers of Python. Throws what they raise, after ending the communicator.
void run_signal_handlers(sennit_comm_t comm);

}  // namespace sennit::pytorch
