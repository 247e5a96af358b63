// The module sennit_torch: makes backends over communicators that Python has joined.
#include "backend.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/utils/pybind.h>
#include <utility>

namespace py = pybind11;

namespace sennit::pytorch {
namespace {

sennit_comm_t comm_at(std::uintptr_t address) { return reinterpret_cast<sennit_comm_t>(address); }

// What joins the GPU ranks is a function of Python, which gives the address of a communicator.
JoinGpus joining_by(py::function join) {
  const std::shared_ptr<py::function> held(new py::function(std::move(join)),
                                           [](py::function* function) {
                                             if (Py_IsInitialized() != 0) {
                                               const py::gil_scoped_acquire locked;
                                               delete function;
                                             }
                                           });
  return [held](const std::string& device) {
    const py::gil_scoped_acquire locked;
    return comm_at((*held)(device).cast<std::uintptr_t>());
  };
}

c10::intrusive_ptr<c10d::Backend> make(std::uintptr_t comm,
                                       int rank,
                                       int size,
                                       py::function join_gpus,
                                       std::string algorithm,
                                       std::string codec,
                                       bool reproducible) {
  return c10::make_intrusive<Backend>(
      Ranks{rank, size},
      comm_at(comm),
      joining_by(std::move(join_gpus)),
      CallSettings{std::move(algorithm), std::move(codec), reproducible});
}

}  // namespace
}  // namespace sennit::pytorch

PYBIND11_MODULE(sennit_torch, module) {
  module.def("make",
             &sennit::pytorch::make,
             py::arg("comm"),
             py::arg("rank"),
             py::arg("size"),
             py::arg("join_gpus"),
             py::arg("algorithm") = "",
             py::arg("codec") = "",
             py::arg("reproducible") = false);
}
