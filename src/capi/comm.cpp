// Communicators in the C ABI: making, deriving, asking, ending.
#include "base/seconds.hpp"
#include "base/sha256.hpp"
#include "capi/groups.hpp"
#include "capi/guard.hpp"
#include "capi/handles.hpp"
#include "capi/joining.hpp"
#include "comm/derive.hpp"
#include "comm/progress_engine.hpp"
#include "world/nodes/launcher_store.hpp"
#include "world/nodes/unique_id.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sennit {
namespace {

// finalize and destroy need no peer: outstanding works get this long, then they are abandoned.
constexpr std::chrono::seconds kFinalizeTime{4};

Status open_with_config(sennit_comm_t* result,
                        const Identity& identity,
                        const sennit_config_t* config) {
  SENNIT_ASSIGN_OR_RETURN(const sennit_config_t given, read_config(config));
  SENNIT_ASSIGN_OR_RETURN(const CommConfig base, CommConfig::from_environment());
  const CommConfig full = merge(base, given);
  return open(result,
              full,
              given.non_blocking != 0,
              [identity, full](const std::function<Status()>& reason) {
                return Communicator::create(identity, full, {.reason = reason});
              });
}

template <typename T>
Status check_result(const T* result) {
  return result != nullptr ? Status() : fail(Code::kInvalidArgument, "the result pointer is NULL");
}

Status check_size(int size, int rank) {
  if (size < 1 || rank < 0 || rank >= size) {
    return fail(Code::kInvalidArgument, "rank {} of {} ranks cannot be", rank, size);
  }
  return {};
}

std::string key_of(const sennit_unique_id_t& id) {
  return {reinterpret_cast<const char*>(id.bytes), sizeof(id.bytes)};
}

// Where the ranks of several nodes meet: where the environment says, or on the machine that made
// the id, which most likely is rank 0's. Empty: they are on one node.
Result<std::string> root_for(const sennit_unique_id_t& id) {
  const Result<std::string> named = root_from_environment();
  if (named.ok() && named->empty()) {
    return std::string();
  }
  std::vector<std::string> hosts = addresses_of(UniqueIdBytes(id.bytes));
  if (named.ok()) {
    hosts.insert(hosts.begin(), *named);
  }
  if (hosts.empty()) {
    return named.status();
  }
  return fmt::format("{}", fmt::join(hosts, ","));
}

// Takes the end of a non-blocking init, if it has come: ok when all ranks have joined, kInProgress
// while they do, or why they have not.
Status settle_locked(sennit_comm& handle) {
  if (handle.joining.valid()) {
    if (handle.joining.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return {Code::kInProgress, "the communicator is joining"};
    }
    auto joined = handle.joining.get();
    if (!joined.ok()) {
      handle.last_error = joined.status();
      return handle.last_error;
    }
    handle.comm = std::move(joined->comm);
    handle.device = std::move(joined->device);
    handle.engine->attach(handle.comm);
  }
  // Partner: the acquire in settle().
  handle.has_joined.store(handle.comm != nullptr, std::memory_order_release);
  return handle.comm != nullptr ? Status() : handle.last_error;
}

Status settle(sennit_comm& handle) {
  // Every call asks, and once it has joined a communicator stays so. Partner: the release in
  // settle_locked(), behind `comm`, `device` and what the engine has of them.
  if (handle.has_joined.load(std::memory_order_acquire)) {
    return {};
  }
  const std::scoped_lock lock(handle.settling);
  return settle_locked(handle);
}

// Ends a join in the background, which this rank asks for no more: by the time it has ended, nobody
// waits for it. False: it has ended.
bool give_up_joining(sennit_comm& handle) {
  const std::scoped_lock lock(handle.settling);
  if (settle_locked(handle).code() != Code::kInProgress) {
    return false;
  }
  handle.background->give_up();
  handle.last_error = handle.background->reason();
  handle.joining = {};
  return true;
}

struct Membership {
  std::int64_t color;
  std::int64_t key;
};

struct Derivation {
  CommConfig config;
  bool non_blocking = false;
};

Result<Derivation> derivation(const Communicator& parent, const sennit_config_t* config) {
  SENNIT_ASSIGN_OR_RETURN(const sennit_config_t given, read_config(config));
  CommConfig base = parent.config();
  base.die_at.reset();  // it counts the calls of the world alone
  return Derivation{.config = merge(std::move(base), given),
                    .non_blocking = given.non_blocking != 0};
}

Status split(
    const sennit_comm& handle, int color, int key, sennit_comm_t* result, const Derivation& how) {
  const Communicator& parent = *handle.comm;
  const Membership mine{color, key};
  std::vector<Membership> all(static_cast<std::size_t>(parent.size()));
  Operation gather;
  gather.collective = Collective::kAllGather;
  gather.send = &mine;
  gather.recv = all.data();
  gather.count = 2;
  gather.dtype = Dtype::kInt64;
  // Other threads may make calls of the parent at the same time: the name is that of this one.
  SENNIT_ASSIGN_OR_RETURN(const std::uint64_t call, handle.engine->run(*handle.comm, gather));
  std::vector<int> members;
  for (int rank = 0; rank < parent.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)].color == color) {
      members.push_back(rank);
    }
  }
  std::ranges::stable_sort(
      members, {}, [&](int rank) { return all[static_cast<std::size_t>(rank)].key; });
  const std::string what = parent.name_split(call);
  if (color < 0) {
    *result = nullptr;
    return {};
  }
  return open(result,
              how.config,
              how.non_blocking,
              [comm = handle.comm, what, members, call, config = how.config](
                  const std::function<Status()>& reason) {
                return join_part(comm, what, members, call, config, reason);
              });
}

Status shrink(const sennit_comm& handle,
              const std::vector<int>& excluded,
              sennit_comm_t* result,
              const Derivation& how) {
  const std::string what = [&] {
    const auto guard = handle.engine->lock();
    return handle.comm->name_shrink();
  }();
  return open(result,
              how.config,
              how.non_blocking,
              [comm = handle.comm, what, excluded, config = how.config](
                  const std::function<Status()>& reason) {
                return join_survivors(comm, what, excluded, config, reason);
              });
}

// Waits for what this rank has outstanding, a bounded time, and says that no more calls come.
Status finalize(sennit_comm& handle) {
  if (handle.comm == nullptr) {
    return {};
  }
  const Status in_streams = handle.device != nullptr ? handle.device->finalize() : Status();
  const Clock::time_point end = Clock::now() + kFinalizeTime;
  while (handle.comm->failure().ok() && Clock::now() < end) {
    const auto outstanding = [&] {
      const auto guard = handle.engine->lock();
      return handle.comm->calls().outstanding();
    }();
    if (outstanding == nullptr) {
      break;
    }
    handle.engine->run_until(*handle.comm, *outstanding, end - Clock::now());
  }
  const auto guard = handle.engine->lock();
  const bool idle = handle.comm->calls().outstanding() == nullptr;
  // Others may wait for what is abandoned, of either kind.
  if (!idle || !in_streams.ok()) {
    handle.comm->abort();
    handle.comm->calls().progress();
  }
  handle.comm->finalize();
  return idle ? in_streams
              : fail(Code::kInvalidUsage,
                     "finalize of communicator '{}' abandoned calls that had not ended",
                     handle.comm->config().name);
}

}  // namespace

Status check_comm(sennit_comm_t comm) {
  if (comm == nullptr) {
    return fail(Code::kInvalidArgument, "the communicator is NULL");
  }
  const Status joined = settle(*comm);
  if (joined.code() == Code::kInProgress) {
    return fail(Code::kInvalidUsage, "the communicator has not finished joining");
  }
  return joined.ok() ? comm->comm->check_process() : joined;
}

Clock::duration to_limit(double timeout_s) {
  constexpr double kLongest = 1e9;
  return timeout_s < 0 || timeout_s > kLongest ? Clock::duration::max() : clock_span(timeout_s);
}

}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_unique_id_create(sennit_unique_id_t* id) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(id));
    make_unique_id(std::span(id->bytes));
    return {};
  });
}

sennit_status_t sennit_unique_id_from_text(sennit_unique_id_t* id, const char* text) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(id));
    if (text == nullptr || *text == '\0') {
      return fail(Code::kInvalidArgument, "the text of a unique id is empty");
    }
    const std::string hex = sha256_hex(text) + sha256_hex(std::string(text) + "/2");
    static_assert(sizeof(id->bytes) == 128);
    std::memcpy(id->bytes, hex.data(), sizeof(id->bytes));
    return {};
  });
}

sennit_status_t sennit_comm_init_env(sennit_comm_t* comm, const sennit_config_t* config) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(comm));
    SENNIT_ASSIGN_OR_RETURN(const Identity identity, identity_from_environment(&meet_by_launcher));
    return open_with_config(comm, identity, config);
  });
}

sennit_status_t sennit_comm_init_rank(sennit_comm_t* comm,
                                      int size,
                                      const sennit_unique_id_t* id,
                                      int rank,
                                      const sennit_config_t* config) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(comm));
    SENNIT_RETURN_IF_ERROR(check_result(id));
    SENNIT_RETURN_IF_ERROR(check_size(size, rank));
    SENNIT_ASSIGN_OR_RETURN(std::string root, root_for(*id));
    return open_with_config(comm,
                            {.rank = rank,
                             .size = size,
                             .key = key_of(*id),
                             .root = std::move(root),
                             .is_key_secret = is_random(UniqueIdBytes(id->bytes))},
                            config);
  });
}

sennit_status_t sennit_comm_init_all(sennit_comm_t* comms,
                                     int size,
                                     const int* devices,
                                     const sennit_config_t* config) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(comms));
    SENNIT_RETURN_IF_ERROR(check_size(size, 0));
    sennit_unique_id_t id;
    std::random_device random;
    std::ranges::generate(id.bytes, [&] { return static_cast<unsigned char>(random()); });
    // Joining blocks until all are there, so every rank joins on a thread of its own; afterwards
    // they all belong to the caller's engine.
    std::vector<std::unique_ptr<sennit_comm>> handles(static_cast<std::size_t>(size));
    std::vector<Status> failures(handles.size());
    SENNIT_ASSIGN_OR_RETURN(const sennit_config_t given, read_config(config));
    SENNIT_ASSIGN_OR_RETURN(const CommConfig base, CommConfig::from_environment());
    const CommConfig full = merge(base, given);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      handles[at] = std::make_unique<sennit_comm>();
      handles[at]->config = full;
      if (devices != nullptr) {
        handles[at]->config.device = fmt::format("cuda:{}", devices[rank]);
      }
      threads.emplace_back([&, rank, at] {
        handles[at]->engine = ProgressEngine::of_this_thread();
        failures[at] = join_ranks(*handles[at], [&] {
          return Communicator::create({.rank = rank, .size = size, .key = key_of(id)},
                                      handles[at]->config);
        });
      });
    }
    threads.clear();
    for (const Status& failure : failures) {
      SENNIT_RETURN_IF_ERROR(failure);
    }
    for (int rank = 0; rank < size; ++rank) {
      auto& handle = handles[static_cast<std::size_t>(rank)];
      handle->engine = ProgressEngine::of_this_thread();
      handle->engine->attach(handle->comm);
      comms[rank] = handle.release();
    }
    return {};
  });
}

sennit_status_t sennit_comm_split(
    sennit_comm_t comm, int color, int key, sennit_comm_t* result, const sennit_config_t* config) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    SENNIT_RETURN_IF_ERROR(check_result(result));
    SENNIT_ASSIGN_OR_RETURN(const Derivation how, derivation(*comm->comm, config));
    return split(*comm, color, key, result, how);
  });
}

sennit_status_t sennit_comm_shrink(sennit_comm_t comm,
                                   const int* excluded,
                                   int excluded_count,
                                   sennit_comm_t* result,
                                   const sennit_config_t* config) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    SENNIT_RETURN_IF_ERROR(check_result(result));
    if (excluded_count < 0 || (excluded_count > 0 && excluded == nullptr)) {
      return fail(Code::kInvalidArgument, "{} excluded ranks, but no list", excluded_count);
    }
    SENNIT_ASSIGN_OR_RETURN(const Derivation how, derivation(*comm->comm, config));
    return shrink(*comm, {excluded, excluded + excluded_count}, result, how);
  });
}

sennit_status_t sennit_comm_abort(sennit_comm_t comm) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(comm));
    if (give_up_joining(*comm)) {
      return {};
    }
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    if (comm->device != nullptr) {
      comm->device->abort();
    }
    comm->comm->abort();
    return {};
  });
}

sennit_status_t sennit_comm_finalize(sennit_comm_t comm) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    SENNIT_RETURN_IF_ERROR(check_not_in_open_group(comm));
    return finalize(*comm);
  });
}

sennit_status_t sennit_comm_destroy(sennit_comm_t comm) {
  return guard([&]() -> Status {
    if (comm == nullptr) {
      return {};
    }
    SENNIT_RETURN_IF_ERROR(check_not_in_open_group(comm));
    const std::unique_ptr<sennit_comm> handle(comm);
    if (give_up_joining(*handle) || handle->comm == nullptr) {
      return {};
    }
    Status status = finalize(*handle);
    if (handle->work_owner != nullptr) {
      handle->work_owner->end();
    }
    handle->device.reset();
    handle->engine->detach(*handle->comm);
    return status;
  });
}

sennit_status_t sennit_comm_async_error(sennit_comm_t comm, sennit_status_t* state) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(comm));
    SENNIT_RETURN_IF_ERROR(check_result(state));
    Code code = settle(*comm).code();
    if (code == Code::kOk) {
      comm->engine->poke(*comm->comm);
      const auto guard = comm->engine->lock();
      code = comm->comm->failure().code();
      if (code == Code::kOk && comm->device != nullptr) {
        code = comm->device->failure().code();
      }
    }
    *state = static_cast<sennit_status_t>(code);
    return {};
  });
}

sennit_status_t sennit_comm_last_error(sennit_comm_t comm, sennit_error_t* error) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_result(comm));
    if (settle(*comm).ok()) {
      const auto guard = comm->engine->lock();
      comm->last_error = comm->comm->failure();
      if (comm->last_error.ok() && comm->device != nullptr) {
        comm->last_error = comm->device->failure();
      }
    }
    return fill_error(comm->last_error, error) == SENNIT_OK
               ? Status()
               : fail(Code::kInvalidArgument, "the error was not set by SENNIT_ERROR_INITIALIZER");
  });
}

sennit_status_t sennit_comm_rank(sennit_comm_t comm, int* rank) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    SENNIT_RETURN_IF_ERROR(check_result(rank));
    *rank = comm->comm->rank();
    return {};
  });
}

sennit_status_t sennit_comm_size(sennit_comm_t comm, int* size) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    SENNIT_RETURN_IF_ERROR(check_result(size));
    *size = comm->comm->size();
    return {};
  });
}

sennit_status_t sennit_comm_device(sennit_comm_t comm, int* device) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    SENNIT_RETURN_IF_ERROR(check_result(device));
    *device = comm->device != nullptr ? comm->device->device() : -1;
    return {};
  });
}

}  // extern "C"
