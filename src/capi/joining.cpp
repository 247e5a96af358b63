#include "capi/joining.hpp"

#include "comm/allowed_paths.hpp"
#include "comm/nodes/nodes_comm.hpp"
#include "comm/rail_cards.hpp"
#include "comm/tuning_file.hpp"
#include "discover/machine_island.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

namespace sennit {
namespace {

// The same config with the device named by number: "cuda" is the device of the thread that asks.
Result<CommConfig> with_device_named(CommConfig config) {
  if (config.device == "cuda") {
    SENNIT_ASSIGN_OR_RETURN(const int device, device_of(config.device));
    config.device = fmt::format("cuda:{}", device);
  }
  return config;
}

// Joins on the thread of a handle that nobody else knows, and hands out what it has become.
Result<Joined> join_apart(const CommConfig& config,
                          const InterruptibleJoining& join_host_ranks,
                          BackgroundJoin& background) {
  sennit_comm joined;
  joined.config = config;
  joined.engine = ProgressEngine::of_this_thread();
  SENNIT_RETURN_IF_ERROR(join_ranks(joined, [&]() -> Result<std::shared_ptr<Communicator>> {
    SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<Communicator> comm,
                            join_host_ranks([&] { return background.reason(); }));
    background.enter(comm);
    return comm;
  }));
  return Joined{std::move(joined.comm), std::move(joined.device)};
}

}  // namespace

void BackgroundJoin::give_up() {
  const std::scoped_lock lock(mutex_);
  is_given_up_ = true;
  if (const std::shared_ptr<Communicator> comm = comm_.lock()) {
    comm->abort();
  }
}

Status BackgroundJoin::reason() const {
  const std::scoped_lock lock(mutex_);
  return is_given_up_ ? fail(Code::kAborted, "the communicator was aborted while it joined")
                      : Status();
}

void BackgroundJoin::enter(const std::shared_ptr<Communicator>& comm) {
  const std::scoped_lock lock(mutex_);
  comm_ = comm;
  if (is_given_up_) {
    comm->abort();
  }
}

Result<int> device_of(std::string_view name) {
  if (name == "host") {
    return -1;
  }
  if (name == "cuda") {
    SENNIT_ASSIGN_OR_RETURN(CudaDriver * driver, cuda_driver());
    return driver->current_device();
  }
  constexpr std::string_view kPrefix = "cuda:";
  int device = -1;
  if (name.starts_with(kPrefix)) {
    const auto [end, error] =
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), device);
    device = error == std::errc() && end == name.data() + name.size() ? device : -1;
  }
  if (device < 0) {
    return fail(Code::kInvalidArgument,
                R"(the device is '{}'; it can be "host", "cuda" or "cuda:0")",
                name);
  }
  return device;
}

Result<sennit_config_t> read_config(const sennit_config_t* config) {
  sennit_config_t full = SENNIT_CONFIG_INITIALIZER;
  if (config == nullptr) {
    return full;
  }
  if (config->struct_size < sizeof(std::size_t)) {
    return fail(Code::kInvalidArgument, "the config was not set by SENNIT_CONFIG_INITIALIZER");
  }
  std::memcpy(&full, config, std::min(config->struct_size, sizeof(full)));
  full.struct_size = sizeof(full);
  return full;
}

CommConfig merge(CommConfig base, const sennit_config_t& config) {
  const auto take = [](auto& target, auto value) {
    if (value != 0) {
      target = value;
    }
  };
  if (config.name != nullptr) {
    base.name = config.name;
  }
  if (config.paths != nullptr) {
    base.paths = config.paths;
  }
  if (config.path_policy != nullptr) {
    base.path_policy = config.path_policy;
  }
  if (config.codec != nullptr) {
    base.codec = config.codec;
  }
  if (config.tuning_table != nullptr) {
    base.tuning_table = config.tuning_table;
  }
  if (config.device != nullptr) {
    base.device = config.device;
  }
  take(base.join_timeout_s, config.join_timeout_s);
  take(base.deadline_s, config.deadline_s);
  take(base.slot_bytes, config.slot_bytes);
  take(base.slots, config.slots);
  take(base.ports, config.ports);
  take(base.device_blocks, config.device_blocks);
  take(base.first_warning_s, config.first_warning_s);
  if (config.idle_hook != nullptr) {
    base.idle = {
        .call = config.idle_hook, .argument = config.idle_argument, .after_s = config.idle_after_s};
  }
  base.reproducible = base.reproducible || config.reproducible != 0;
  return base;
}

// Which of the groups that path nvlink may join the device is of, by the config; 0: it says
// nothing, or counts ranks off.
Result<int> declared_island(const CommConfig& config, CudaDriver& driver, int device) {
  if (config.machine.empty()) {
    return 0;
  }
  if (config.device_group > 0) {
    return fail(Code::kInvalidArgument,
                "SENNIT_MACHINE and SENNIT_DEVICE_GROUP both declare groups of GPUs; set one");
  }
  SENNIT_ASSIGN_OR_RETURN(const Topology machine, load_machine(config.machine));
  SENNIT_ASSIGN_OR_RETURN(const CudaDevice described, driver.describe(device));
  const Result<NvmlDriver*> nvml = nvml_driver();
  if (!nvml.ok()) {
    return fail(nvml.status().code(),
                "SENNIT_MACHINE: {}, which would say which GPU of the machine this rank has; let "
                "the container use it, or set SENNIT_DEVICE_GROUP instead",
                nvml.status().message());
  }
  return island_of(machine, **nvml, described.pci_bus_id);
}

namespace {

Status require_device(CudaDriver& driver, int device) {
  SENNIT_ASSIGN_OR_RETURN(const int devices, driver.device_count());
  if (device >= devices) {
    return fail(Code::kInvalidArgument,
                "the device is 'cuda:{}', but this process sees {} GPUs (CUDA_VISIBLE_DEVICES)",
                device,
                devices);
  }
  return {};
}

}  // namespace

Status join_ranks(sennit_comm& handle, const Joining& join_host_ranks) {
  SENNIT_ASSIGN_OR_RETURN(const int device, device_of(handle.config.device));
  if (device < 0) {
    SENNIT_ASSIGN_OR_RETURN(handle.comm, join_host_ranks());
    return {};
  }
  // What this rank alone can know to fail fails before others wait for it.
  SENNIT_RETURN_IF_ERROR(CodecRules::parse(handle.config.codec).status());
  SENNIT_ASSIGN_OR_RETURN(CudaDriver* const driver, cuda_driver());
  SENNIT_RETURN_IF_ERROR(require_device(*driver, device));
  SENNIT_ASSIGN_OR_RETURN(const auto copy_engines, parse_copy_engines(handle.config.copy_engines));
  SENNIT_ASSIGN_OR_RETURN(const AllowedPaths paths, parse_paths(handle.config.paths, true));
  SENNIT_ASSIGN_OR_RETURN(const int island, declared_island(handle.config, *driver, device));
  SENNIT_ASSIGN_OR_RETURN(auto profile, load_gpu_profile(handle.config.gpu_profile));
  SENNIT_ASSIGN_OR_RETURN(handle.comm, join_host_ranks());
  const auto make_device_comm =
      [&](const std::shared_ptr<Communicator>& comm) -> Result<std::unique_ptr<DeviceComm>> {
    SENNIT_ASSIGN_OR_RETURN(CodecRules codec_rules, CodecRules::parse(comm->config().codec));
    const int counted_off = handle.config.device_group;
    handle.engine->attach(comm);
    auto made =
        DeviceComm::create(*driver,
                           device,
                           comm->world(),
                           {.name = comm->config().name,
                            .deadline_s = handle.config.deadline_s,
                            .blocks = handle.config.device_blocks,
                            .copy_engines = copy_engines,
                            .codec_rules = std::move(codec_rules),
                            .reproducible = handle.config.reproducible,
                            .nvlink = paths.nvlink,
                            .device = paths.device,
                            .group = counted_off > 0 ? comm->rank() / counted_off : island,
                            .groups_by = counted_off > 0 ? "SENNIT_DEVICE_GROUP" : "SENNIT_MACHINE",
                            .host_share = handle.config.host_share,
                            .dynamic_share = handle.config.dynamic_share,
                            .profile = profile},
                           [&](const void* mine, void* all, std::size_t bytes) {
                             return handle.engine->gather(*comm, mine, all, bytes);
                           });
    handle.engine->detach(*comm);
    return made;
  };
  const auto make_comm = [&]() -> Result<std::unique_ptr<GpuComm>> {
    if (handle.comm->world().nodes() > 1) {
      SENNIT_ASSIGN_OR_RETURN(auto comm,
                              NodesComm::create(*driver, device, handle.comm, make_device_comm));
      return std::unique_ptr<GpuComm>(std::move(comm));
    }
    SENNIT_ASSIGN_OR_RETURN(auto comm, make_device_comm(handle.comm));
    return std::unique_ptr<GpuComm>(std::move(comm));
  };
  auto device_comm = make_comm();
  if (!device_comm.ok()) {
    handle.comm->abort();  // the others need not wait for this rank
    return device_comm.status();
  }
  handle.device = std::move(device_comm).value();
  return {};
}

Status open(sennit_comm_t* result,
            const CommConfig& config,
            bool non_blocking,
            const InterruptibleJoining& join_host_ranks) {
  auto handle = std::make_unique<sennit_comm>();
  handle->config = config;
  handle->engine = ProgressEngine::of_this_thread();
  if (non_blocking) {
    SENNIT_ASSIGN_OR_RETURN(handle->config, with_device_named(config));
    // A thread that nobody waits for: destroy() must not have to sit out the others' coming.
    std::promise<Result<Joined>> joined;
    handle->joining = joined.get_future();
    handle->background = std::make_shared<BackgroundJoin>();
    std::thread([full = handle->config,
                 join_host_ranks,
                 background = handle->background,
                 cards = RailCards::of_this_thread(),
                 promise = std::move(joined)]() mutable {
      RailCards::adopt(std::move(cards));
      promise.set_value(join_apart(full, join_host_ranks, *background));
    }).detach();
    *result = handle.release();
    return {Code::kInProgress, "the communicator is joining"};
  }
  SENNIT_RETURN_IF_ERROR(join_ranks(*handle, [&] { return join_host_ranks({}); }));
  handle->engine->attach(handle->comm);
  *result = handle.release();
  return {};
}

}  // namespace sennit
