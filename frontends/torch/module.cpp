// The module sennit_torch: makes backends over communicators that Python has joined.
#include "backend.hpp"

#include <cstdint>
#include <map>
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

// Python holds settings without looking into them.
struct Held {
  SharedSettings settings;
};

Held settings(std::string algorithm,
              std::string path,
              std::string protocol,
              std::int64_t tile_bytes,
              bool reproducible,
              std::string codec) {
  return {std::make_shared<CallSettings>(CallSettings{std::move(algorithm),
                                                      std::move(path),
                                                      std::move(protocol),
                                                      tile_bytes,
                                                      reproducible,
                                                      std::move(codec)})};
}

Held exchange(const Held& held) { return {exchange_settings(held.settings)}; }

c10::intrusive_ptr<c10d::Backend> make(std::uintptr_t comm,
                                       int rank,
                                       int size,
                                       py::function join_gpus,
                                       const std::map<std::string, Held>& by_collective) {
  SettingsByCollective of_group;
  for (const auto& [collective, held] : by_collective) {
    of_group.emplace(collective, held.settings);
  }
  return c10::make_intrusive<Backend>(
      Ranks{rank, size}, comm_at(comm), joining_by(std::move(join_gpus)), std::move(of_group));
}

}  // namespace
}  // namespace sennit::pytorch

PYBIND11_MODULE(sennit_torch, module) {
  py::class_<sennit::pytorch::Held>(module, "CallSettings");
  module.def("settings",
             &sennit::pytorch::settings,
             py::arg("algorithm"),
             py::arg("path"),
             py::arg("protocol"),
             py::arg("tile_bytes"),
             py::arg("reproducible"),
             py::arg("codec"));
  module.def("exchange_settings", &sennit::pytorch::exchange, py::arg("settings"));
  module.def("make",
             &sennit::pytorch::make,
             py::arg("comm"),
             py::arg("rank"),
             py::arg("size"),
             py::arg("join_gpus"),
             py::arg("settings"));
}
