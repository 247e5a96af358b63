#include "comm.hpp"

#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace nb = nanobind;

namespace sennit::python {
namespace {

// What sennit_config_t holds, with strings of its own; zero or empty takes the variable or default.
struct Config {
  std::string name;
  double join_timeout_s = 0.0;
  double deadline_s = 0.0;
  std::optional<std::string> paths;
  std::int64_t slot_bytes = 0;
  std::int32_t slots = 0;
  std::int32_t ports = 0;

  [[nodiscard]] sennit_config_t view() const {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.name = name.empty() ? nullptr : name.c_str();
    config.join_timeout_s = join_timeout_s;
    config.deadline_s = deadline_s;
    config.paths = paths ? paths->c_str() : nullptr;
    config.slot_bytes = slot_bytes;
    config.slots = slots;
    config.ports = ports;
    return config;
  }
};

using MakeComm = std::function<sennit_status_t(sennit_comm_t*)>;

// Shared by the thread that makes a communicator and the one that waits for it.
struct Making {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  bool is_abandoned = false;
  ErrorRecord error;
  sennit_comm_t comm = nullptr;
};

void make_in_background(const std::shared_ptr<Making>& making, const MakeComm& make) {
  sennit_comm_t comm = nullptr;
  const sennit_status_t status = make(&comm);
  const std::lock_guard lock(making->mutex);
  if (making->is_abandoned) {
    sennit_comm_destroy(comm);
    return;
  }
  if (status != SENNIT_OK) {
    making->error = record_of(status);
  }
  making->comm = comm;
  making->has_ended = true;
  making->ended.notify_one();
}

bool has_ended_within_slice(Making& making) {
  const nb::gil_scoped_release unlocked;
  std::unique_lock lock(making.mutex);
  return making.ended.wait_for(
      lock, std::chrono::duration<double>(kSignalSlice_s), [&] { return making.has_ended; });
}

void abandon(Making& making) {
  const std::lock_guard lock(making.mutex);
  making.is_abandoned = true;
  if (making.has_ended) {
    sennit_comm_destroy(making.comm);
  }
}

// Joining may take a minute, and only the thread that Python calls main can see Ctrl-C. So another
// thread joins while this one looks for signals; after Ctrl-C that thread ends by its own timeout.
sennit_comm_t make_comm(MakeComm make, const std::function<void()>& on_interrupt) {
  const auto making = std::make_shared<Making>();
  std::thread([making, make = std::move(make)] { make_in_background(making, make); }).detach();
  while (!has_ended_within_slice(*making)) {
    if (PyErr_CheckSignals() != 0) {
      // The exception that the signal handler raised must survive what follows.
      const nb::python_error interrupt;
      abandon(*making);
      on_interrupt();
      throw nb::python_error(interrupt);
    }
  }
  if (making->error.status != SENNIT_OK) {
    raise(making->error);
  }
  return making->comm;
}

std::unique_ptr<Comm> owned(sennit_comm_t comm) {
  return comm == nullptr ? nullptr : std::make_unique<Comm>(comm);
}

std::unique_ptr<Comm> init_env(const Config& config) {
  return owned(make_comm(
      [config](sennit_comm_t* comm) {
        const sennit_config_t view = config.view();
        return sennit_comm_init_env(comm, &view);
      },
      [] {}));
}

std::unique_ptr<Comm> init_rank(int rank, int size, const std::string& key, const Config& config) {
  sennit_unique_id_t id{};
  check(sennit_unique_id_from_text(&id, key.c_str()));
  return owned(make_comm(
      [config, id, rank, size](sennit_comm_t* comm) {
        const sennit_config_t view = config.view();
        return sennit_comm_init_rank(comm, size, &id, rank, &view);
      },
      [] {}));
}

std::unique_ptr<Comm> split(Comm& parent, int color, int key, const Config& config) {
  return owned(make_comm(
      [parent = parent.get(), color, key, config](sennit_comm_t* comm) {
        const sennit_config_t view = config.view();
        return sennit_comm_split(parent, color, key, comm, &view);
      },
      [parent = parent.get()] { sennit_comm_abort(parent); }));
}

std::unique_ptr<Comm> shrink(Comm& parent, std::vector<int> excluded, const Config& config) {
  return owned(make_comm(
      [parent = parent.get(), excluded = std::move(excluded), config](sennit_comm_t* comm) {
        const sennit_config_t view = config.view();
        return sennit_comm_shrink(
            parent, excluded.data(), static_cast<int>(excluded.size()), comm, &view);
      },
      [parent = parent.get()] { sennit_comm_abort(parent); }));
}

std::uintptr_t register_buffer(Comm& comm, const Buffer& buffer) {
  void* handle = nullptr;
  check(sennit_comm_register(comm.get(), buffer.data(), buffer.nbytes(), &handle));
  return reinterpret_cast<std::uintptr_t>(handle);
}

void deregister(Comm& comm, std::uintptr_t handle) {
  check(sennit_comm_deregister(comm.get(), reinterpret_cast<void*>(handle)));
}

}  // namespace

Comm::~Comm() {
  const nb::gil_scoped_release unlocked;
  sennit_comm_destroy(comm_);
}

sennit_comm_t Comm::get() const {
  if (comm_ == nullptr) {
    raise(SENNIT_INVALID_USAGE, "the communicator has been destroyed");
  }
  return comm_;
}

int Comm::rank() const {
  int rank = 0;
  check(sennit_comm_rank(get(), &rank));
  return rank;
}

int Comm::size() const {
  int size = 0;
  check(sennit_comm_size(get(), &size));
  return size;
}

sennit_status_t Comm::state() const {
  sennit_status_t state = SENNIT_OK;
  check(sennit_comm_async_error(get(), &state));
  return state;
}

void Comm::abort() {
  sennit_status_t status = SENNIT_OK;
  {
    const sennit_comm_t comm = get();
    const nb::gil_scoped_release unlocked;
    status = sennit_comm_abort(comm);
  }
  check(status);
}

void Comm::destroy() {
  sennit_status_t status = SENNIT_OK;
  {
    const sennit_comm_t comm = std::exchange(comm_, nullptr);
    const nb::gil_scoped_release unlocked;
    status = sennit_comm_destroy(comm);
  }
  check(status);
}

void bind_comm(nb::module_& module) {
  nb::class_<Config>(module, "Config")
      .def(nb::init<std::string,
                    double,
                    double,
                    std::optional<std::string>,
                    std::int64_t,
                    std::int32_t,
                    std::int32_t>(),
           nb::arg("name"),
           nb::arg("join_timeout_s"),
           nb::arg("deadline_s"),
           nb::arg("paths").none(),
           nb::arg("slot_bytes"),
           nb::arg("slots"),
           nb::arg("ports"));
  nb::class_<Comm>(module, "Comm")
      .def_prop_ro("rank", &Comm::rank)
      .def_prop_ro("size", &Comm::size)
      .def_prop_ro("state", [](const Comm& comm) { return static_cast<int>(comm.state()); })
      .def("split", &split, nb::arg("color"), nb::arg("key"), nb::arg("config"))
      .def("shrink", &shrink, nb::arg("excluded"), nb::arg("config"))
      .def("register", &register_buffer, nb::arg("buffer"))
      .def("deregister", &deregister, nb::arg("handle"))
      .def("abort", &Comm::abort)
      .def("destroy", &Comm::destroy);
  module.def("init_env", &init_env, nb::arg("config"));
  module.def(
      "init_rank", &init_rank, nb::arg("rank"), nb::arg("size"), nb::arg("key"), nb::arg("config"));
}

}  // namespace sennit::python
