#pragma once

#include <optional>
#include <pybind11/pybind11.h>

namespace sennit::pytorch {

// Without the GIL while it lives. Some callers hold it, and what a rank waits for may be a thread
// that needs it.
class Unlocked {
 public:
  Unlocked() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
      released_.emplace();
    }
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

}  // namespace sennit::pytorch
