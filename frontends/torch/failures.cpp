#include "failures.hpp"

#include <pybind11/pybind11.h>
#include <utility>

namespace py = pybind11;

namespace sennit::pytorch {
namespace {

void drop(PyObject* object) {
  if (Py_IsInitialized() != 0) {
    const py::gil_scoped_acquire locked;
    Py_DECREF(object);
  }
}

}  // namespace

Failure::Failure(PyObject* exception) : exception_(exception, &drop) {}

Failure Failure::last(sennit_status_t status) {
  const py::gil_scoped_acquire locked;
  py::object made =
      py::module_::import("sennit.torch.failures").attr("last")(static_cast<int>(status));
  return Failure(made.release().ptr());
}

Failure Failure::with_text(sennit_status_t status, const std::string& text) {
  const py::gil_scoped_acquire locked;
  py::object made =
      py::module_::import("sennit.torch.failures").attr("new")(static_cast<int>(status), text);
  return Failure(made.release().ptr());
}

void Failure::raise() const {
  const py::gil_scoped_acquire locked;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception_.get())), exception_.get());
  throw py::error_already_set();
}

void run_signal_handlers(sennit_comm_t comm) {
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) {
    py::error_already_set interrupt;
    sennit_comm_abort(comm);
    throw interrupt;  // NOLINT(cert-err60-cpp): pybind11 shares what it holds
  }
}

}  // namespace sennit::pytorch
