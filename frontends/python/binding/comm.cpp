#include "comm.hpp"

#include "errors.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
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
  bool reproducible = false;
  std::optional<std::string> path_policy;
  std::optional<std::string> codec;
  std::int32_t device_blocks = 0;
  std::optional<std::string> tuning_table;
  std::optional<std::string> device;

  [[nodiscard]] sennit_config_t view() const {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.name = name.empty() ? nullptr : name.c_str();
    config.join_timeout_s = join_timeout_s;
    config.deadline_s = deadline_s;
    config.paths = paths ? paths->c_str() : nullptr;
    config.slot_bytes = slot_bytes;
    config.slots = slots;
    config.ports = ports;
    config.reproducible = reproducible ? 1 : 0;
    config.path_policy = path_policy ? path_policy->c_str() : nullptr;
    config.codec = codec ? codec->c_str() : nullptr;
    config.device_blocks = device_blocks;
    config.tuning_table = tuning_table ? tuning_table->c_str() : nullptr;
    config.device = device ? device->c_str() : nullptr;
    return config;
  }
};

// The name of a file is bytes, which need not be text.
void make_config(Config* self,
                 std::string name,
                 double join_timeout_s,
                 double deadline_s,
                 std::optional<std::string> paths,
                 std::int64_t slot_bytes,
                 std::int32_t slots,
                 std::int32_t ports,
                 bool reproducible,
                 std::optional<std::string> path_policy,
                 std::optional<std::string> codec,
                 std::int32_t device_blocks,
                 const std::optional<nb::bytes>& tuning_table,
                 std::optional<std::string> device) {
  new (self) Config{std::move(name),
                    join_timeout_s,
                    deadline_s,
                    std::move(paths),
                    slot_bytes,
                    slots,
                    ports,
                    reproducible,
                    std::move(path_policy),
                    std::move(codec),
                    device_blocks,
                    tuning_table ? std::optional<std::string>(
                                       std::in_place, tuning_table->c_str(), tuning_table->size())
                                 : std::nullopt,
                    std::move(device)};
}

constexpr std::chrono::microseconds kFirstPause{50};
constexpr std::chrono::microseconds kLongestPause{5000};
constexpr std::chrono::milliseconds kQuestionInterval{100};

ErrorRecord why_it_failed(sennit_comm_t comm, sennit_status_t status) {
  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  if (comm != nullptr && sennit_comm_last_error(comm, &error) == SENNIT_OK &&
      error.status == status) {
    return record_of(error);
  }
  return record_of(status);
}

// Makes a communicator, or none once `give_up` says so. Joining may take a minute and only this
// thread may be able to see Ctrl-C, so the library is asked not to block, and is asked again and
// again, at first often.
std::unique_ptr<Comm> make_comm(
    const Config& config,
    const std::function<sennit_status_t(sennit_comm_t*, const sennit_config_t*)>& make,
    const nb::object& give_up = nb::none()) {
  sennit_config_t view = config.view();
  view.non_blocking = 1;
  sennit_comm_t handle = nullptr;
  sennit_status_t status = SENNIT_OK;
  {
    const nb::gil_scoped_release unlocked;
    status = make(&handle, &view);
  }
  std::unique_ptr<Comm> comm = handle == nullptr ? nullptr : std::make_unique<Comm>(handle);
  auto pause = kFirstPause;
  auto next_question = std::chrono::steady_clock::now() + kQuestionInterval;
  while (status == SENNIT_IN_PROGRESS) {
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();  // `comm` goes, and leaves the joining behind
    }
    if (!give_up.is_none() && std::chrono::steady_clock::now() >= next_question) {
      if (nb::cast<bool>(give_up())) {
        return nullptr;
      }
      next_question = std::chrono::steady_clock::now() + kQuestionInterval;
    }
    const nb::gil_scoped_release unlocked;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
    const sennit_status_t asked = sennit_comm_async_error(handle, &status);
    status = asked == SENNIT_OK ? status : asked;
  }
  if (status != SENNIT_OK) {
    raise(why_it_failed(handle, status));
  }
  return comm;
}

std::unique_ptr<Comm> init_env(const Config& config) {
  return make_comm(config, &sennit_comm_init_env);
}

std::unique_ptr<Comm> init_rank(
    int rank, int size, const std::string& key, const Config& config, const nb::object& give_up) {
  sennit_unique_id_t id{};
  check(sennit_unique_id_from_text(&id, key.c_str()));
  const auto make = [&](sennit_comm_t* comm, const sennit_config_t* view) {
    return sennit_comm_init_rank(comm, size, &id, rank, view);
  };
  return make_comm(config, make, give_up);
}

std::unique_ptr<Comm> split(Comm& parent, int color, int key, const Config& config) {
  const sennit_comm_t handle = parent.get();  // raises, so it needs the GIL
  return make_comm(config, [&](sennit_comm_t* comm, const sennit_config_t* view) {
    return sennit_comm_split(handle, color, key, comm, view);
  });
}

std::unique_ptr<Comm> shrink(Comm& parent, const std::vector<int>& excluded, const Config& config) {
  const sennit_comm_t handle = parent.get();
  return make_comm(config, [&](sennit_comm_t* comm, const sennit_config_t* view) {
    return sennit_comm_shrink(
        handle, excluded.data(), static_cast<int>(excluded.size()), comm, view);
  });
}

std::uintptr_t register_buffer(Comm& comm, const Buffer& buffer, bool symmetric) {
  const auto function = symmetric ? sennit_comm_register_symmetric : sennit_comm_register;
  void* handle = nullptr;
  check(function(comm.get(), buffer.data(), buffer.nbytes(), &handle));
  return reinterpret_cast<std::uintptr_t>(handle);
}

void destroy_all(const std::vector<sennit_work_t>& works) {
  for (const sennit_work_t work : works) {
    sennit_work_destroy(work);
  }
}

void deregister(Comm& comm, std::uintptr_t handle) {
  check(sennit_comm_deregister(comm.get(), reinterpret_cast<void*>(handle)));
}

}  // namespace

Comm::~Comm() {
  const nb::gil_scoped_release unlocked;
  sennit_comm_destroy(comm_);
  destroy_all(left_behind_);
}

sennit_comm_t Comm::get() const {
  const sennit_comm_t comm = comm_;
  if (comm == nullptr) {
    raise(SENNIT_INVALID_USAGE, "the communicator has been destroyed");
  }
  return comm;
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

int Comm::device() const {
  constexpr int kHost = -1;
  if (!device_) {
    int device = kHost;
    check(sennit_comm_device(get(), &device));
    device_ = device;
  }
  return *device_;
}

Stream Comm::stream() const { return stream_.get(); }

void Comm::remember(const ProducerStream& stream) {
  stream_ = stream.can_be_asked() ? stream : ProducerStream();
}

void Comm::leave_behind(sennit_work_t work) { left_behind_.push_back(work); }

void Comm::destroy_ended() {
  std::erase_if(left_behind_, [](sennit_work_t work) {
    int is_done = 0;
    return sennit_work_test(work, &is_done) == SENNIT_OK && is_done != 0 &&
           sennit_work_destroy(work) == SENNIT_OK;
  });
}

sennit_status_t Comm::state() const {
  sennit_status_t state = SENNIT_OK;
  check(sennit_comm_async_error(get(), &state));
  return state;
}

void Comm::abort() {
  sennit_status_t status = SENNIT_OK;
  {
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(ending_);
    if (comm_ != nullptr) {
      status = sennit_comm_abort(comm_);
    }
  }
  check(status);
}

void Comm::destroy() {
  sennit_status_t status = SENNIT_OK;
  const std::vector<sennit_work_t> left_behind = std::exchange(left_behind_, {});
  {
    const nb::gil_scoped_release unlocked;
    const std::lock_guard lock(ending_);
    status = sennit_comm_destroy(comm_.exchange(nullptr));
    destroy_all(left_behind);
  }
  check(status);
}

void bind_comm(nb::module_& module) {
  nb::class_<Config>(module, "Config")
      .def("__init__",
           &make_config,
           nb::arg("name"),
           nb::arg("join_timeout_s"),
           nb::arg("deadline_s"),
           nb::arg("paths").none(),
           nb::arg("slot_bytes"),
           nb::arg("slots"),
           nb::arg("ports"),
           nb::arg("reproducible"),
           nb::arg("path_policy").none(),
           nb::arg("codec").none(),
           nb::arg("device_blocks"),
           nb::arg("tuning_table").none(),
           nb::arg("device").none());
  nb::class_<Comm>(module, "Comm")
      .def_prop_ro("rank", &Comm::rank)
      .def_prop_ro("size", &Comm::size)
      .def_prop_ro("device", &Comm::device)
      .def_prop_ro("state", [](const Comm& comm) { return static_cast<int>(comm.state()); })
      .def("split", &split, nb::arg("color"), nb::arg("key"), nb::arg("config"))
      .def("shrink", &shrink, nb::arg("excluded"), nb::arg("config"))
      .def("register", &register_buffer, nb::arg("buffer"), nb::arg("symmetric"))
      .def("deregister", &deregister, nb::arg("handle"))
      .def("release", [](Comm& comm) { return reinterpret_cast<std::uintptr_t>(comm.release()); })
      .def("abort", &Comm::abort)
      .def("destroy", &Comm::destroy);
  module.def("init_env", &init_env, nb::arg("config"));
  module.def("init_rank",
             &init_rank,
             nb::arg("rank"),
             nb::arg("size"),
             nb::arg("key"),
             nb::arg("config"),
             nb::arg("give_up") = nb::none());
}

}  // namespace sennit::python
