// Communicators: making, deriving, asking, ending.
#include "communicator.hpp"

#include "companion.hpp"
#include "group.hpp"
#include "several_nodes.hpp"
#include "shares.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sennit_nccl {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(sennit_unique_id_t));

struct Request {
  bool blocking = true;
  std::string name;     // empty: not said
  int most_blocks = 0;  // of a call; 0: not said
};

// What of a caller's config matters here. The rest are hints about NCCL's own ways (channels,
// networks), which change no result.
ncclResult_t read_config(const ncclConfig_t* config, Request& request) {
  if (config == nullptr) {
    return ncclSuccess;
  }
  constexpr std::size_t kHead = offsetof(ncclConfig_t, blocking);
  ncclConfig_t full{};
  full.blocking = SENNIT_NCCL_CONFIG_UNDEFINED;
  full.maxCTAs = SENNIT_NCCL_CONFIG_UNDEFINED;
  if (config->size < kHead || config->magic != SENNIT_NCCL_CONFIG_MAGIC) {
    return refuse(ncclInvalidArgument, "the config was not set by NCCL_CONFIG_INITIALIZER");
  }
  std::memcpy(&full, config, std::min(config->size, sizeof(full)));
  request.blocking =
      full.blocking == SENNIT_NCCL_CONFIG_UNDEFINED ? request.blocking : full.blocking != 0;
  if (full.maxCTAs != SENNIT_NCCL_CONFIG_UNDEFINED) {
    if (full.maxCTAs < 1) {
      return refuse(ncclInvalidArgument,
                    "maxCTAs of the config is " + std::to_string(full.maxCTAs) + ", less than 1");
    }
    request.most_blocks = full.maxCTAs;
  }
  request.name = full.commName != nullptr ? full.commName : "";
  return ncclSuccess;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// NCCL takes its variable where the program's config has nothing, and Sennit's own before it. A
// text that is no number is passed over, as NCCL does.
int most_blocks_of(const Request& request) {
  constexpr int kMost = 256;
  if (is_set("SENNIT_DEVICE_BLOCKS")) {
    return 0;
  }
  int blocks = request.most_blocks;
  if (const char* const variable = std::getenv("NCCL_MAX_CTAS");
      blocks == 0 && variable != nullptr) {
    std::from_chars(variable, variable + std::strlen(variable), blocks);
  }
  return std::clamp(blocks, 0, kMost);
}

bool is_host() {
  const char* device = std::getenv("SENNIT_DEVICE");
  return device != nullptr && std::string_view(device) == "host";
}

// Programs for NCCL may let other ranks wait as long as they like, while they save a checkpoint,
// say, and watch their calls themselves; ranks that die are found all the same. The first call of a
// communicator, which makes it, may come that late, too.
sennit_config_t config_of(const Request& request) {
  constexpr double kLongJoin = 1800;
  constexpr double kNoDeadline = -1;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.name = request.name.empty() ? nullptr : request.name.c_str();
  config.device = device_name();
  config.device_blocks = most_blocks_of(request);
  config.non_blocking = request.blocking ? 0 : 1;
  config.join_timeout_s = is_set("SENNIT_JOIN_TIMEOUT_S") ? 0 : kLongJoin;
  config.deadline_s = is_set("SENNIT_DEADLINE_S") ? 0 : kNoDeadline;
  return config;
}

// Threads may be on their way out of a call of the communicator, or have it in a group.
ncclResult_t await_users(ncclComm_t comm, const char* what_was_done) {
  constexpr std::chrono::seconds kPatience{10};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (comm->users.load() > 0) {
    if (std::chrono::steady_clock::now() > end) {
      return refuse(ncclInvalidUsage,
                    std::string("a thread has not left its call of the communicator, or has it in "
                                "a group that has not ended; it is ") +
                        what_was_done);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ncclSuccess;
}

// Takes over the new handle; `status` may say that it is still joining.
ncclResult_t hand_out(std::unique_ptr<ncclComm> made, sennit_status_t status, ncclComm_t* result) {
  const bool exists = status == SENNIT_OK || status == SENNIT_IN_PROGRESS;
  *result = exists && made->comm != nullptr ? made.release() : nullptr;
  if (*result != nullptr) {
    begin_share(*result);
  }
  const ncclResult_t done = result_of(status);
  if (*result == nullptr || status != SENNIT_OK) {
    return done;
  }
  const ncclResult_t decided = decide_who_calls(*result);
  if (decided != ncclSuccess) {
    ncclCommDestroy(std::exchange(*result, nullptr));
  }
  return decided;
}

ncclResult_t init(
    ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, const Request& request) {
  if (comm == nullptr) {
    return refuse(ncclInvalidArgument, "the result pointer is NULL");
  }
  forget_refusal();
  say_what_is_ours();
  sennit_unique_id_t key;
  std::memcpy(&key, &id, sizeof(key));
  sennit_config_t config = config_of(request);
  // One thread may make several ranks in a group, so none of them may wait for the others here.
  config.non_blocking = config.non_blocking != 0 || in_group() ? 1 : 0;
  auto made = std::make_unique<ncclComm>();
  made->blocking = request.blocking;
  const sennit_status_t status = sennit_comm_init_rank(&made->comm, ranks, &key, rank, &config);
  const ncclResult_t result = hand_out(std::move(made), status, comm);
  if (result == ncclInProgress && in_group()) {
    join_at_end(*comm);
    return ncclSuccess;
  }
  return result;
}

// What runs or waits in NVIDIA's communicator ends.
void end_passing_on(ncclComm_t comm) {
  if (comm->is_passed_on.exchange(false)) {
    end_companion(comm, true);
  }
}

// Makes a communicator out of another, now or at the end of the group.
template <typename Make>
ncclResult_t derive(ncclComm_t parent,
                    ncclComm_t* result,
                    const ncclConfig_t* config,
                    const Make& make) {
  if (const ncclResult_t usable = check(parent); usable != ncclSuccess) {
    return usable;
  }
  if (result == nullptr) {
    return refuse(ncclInvalidArgument, "the result pointer is NULL");
  }
  Request request{.blocking = parent->blocking, .name = {}};
  if (const ncclResult_t read = read_config(config, request); read != ncclSuccess) {
    return read;
  }
  const auto run = [parent, result, request, make] {
    const Use use(parent);
    forget_refusal();
    // At the end of a group another thread may run this, which has another current device.
    int number = -1;
    sennit_comm_device(parent->comm, &number);
    const std::string device = number < 0 ? "host" : "cuda:" + std::to_string(number);
    sennit_config_t full = config_of(request);
    full.device = device.c_str();
    auto made = std::make_unique<ncclComm>();
    made->blocking = request.blocking;
    const sennit_status_t status = make(parent->comm, &made->comm, &full);
    return hand_out(std::move(made), status, result);
  };
  return now_or_at_end(parent, run);
}

}  // namespace

const char* device_name() { return is_set("SENNIT_DEVICE") ? nullptr : "cuda"; }

}  // namespace sennit_nccl

using namespace sennit_nccl;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) {
    return refuse(ncclInvalidArgument, "the result pointer is NULL");
  }
  forget_refusal();
  sennit_unique_id_t fresh;
  const sennit_status_t status = sennit_unique_id_create(&fresh);
  std::memcpy(id, &fresh, sizeof(*id));
  return result_of(status);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return of_group(init(comm, ranks, id, rank, {}));
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  Request request;
  const ncclResult_t read = read_config(config, request);
  return of_group(read != ncclSuccess ? read : init(comm, ranks, id, rank, request));
}

// Several ids let many ranks meet at several places. On one node one place serves all.
ncclResult_t ncclCommInitRankScalable(
    ncclComm_t* comm, int ranks, int rank, int id_count, ncclUniqueId* ids, ncclConfig_t* config) {
  if (id_count < 1 || ids == nullptr) {
    return of_group(refuse(ncclInvalidArgument, "no unique id is given"));
  }
  return ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr || count < 1) {
    return refuse(ncclInvalidArgument, "the number of devices must be positive");
  }
  forget_refusal();
  say_what_is_ours();
  const auto size = static_cast<std::size_t>(count);
  std::vector<int> numbers(size);
  for (std::size_t i = 0; i < size; ++i) {
    numbers[i] = devices != nullptr ? devices[i] : static_cast<int>(i);
  }
  std::vector<sennit_comm_t> made(size);
  const sennit_config_t config = config_of({});
  const sennit_status_t status =
      sennit_comm_init_all(made.data(), count, is_host() ? nullptr : numbers.data(), &config);
  for (std::size_t i = 0; i < size && status == SENNIT_OK; ++i) {
    comms[i] = new ncclComm{.comm = made[i]};
    begin_share(comms[i]);
  }
  return result_of(status);
}

ncclResult_t ncclCommSplit(
    ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  return of_group(
      derive(comm, result, config, [color, key](auto parent, auto* made, const auto* full) {
        return sennit_comm_split(parent, color, key, made, full);
      }));
}

ncclResult_t ncclCommShrink(ncclComm_t comm,
                            int* excluded,
                            int excluded_count,
                            ncclComm_t* result,
                            ncclConfig_t* config,
                            int flags) {
  if (excluded_count < 0 || (excluded_count > 0 && excluded == nullptr)) {
    return of_group(refuse(ncclInvalidArgument, "the list of excluded ranks is NULL"));
  }
  const std::vector<int> without(excluded, excluded + excluded_count);
  const bool abort = (flags & SENNIT_NCCL_SHRINK_ABORT) != 0;
  return of_group(derive(
      comm, result, config, [comm, without, abort](auto parent, auto* made, const auto* full) {
        if (abort) {
          sennit_comm_abort(parent);
          end_passing_on(comm);
        }
        const auto count = static_cast<int>(without.size());
        return sennit_comm_shrink(parent, without.data(), count, made, full);
      }));
}

// What it waits for may need calls of this thread for other ranks, which its group holds back.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (const ncclResult_t usable = check(comm); usable != ncclSuccess) {
    return of_group(usable);
  }
  return now_or_after_calls(comm, [comm] {
    const ncclResult_t theirs =
        comm->is_passed_on ? pass_on<&ncclCommFinalize>("ncclCommFinalize", comm, comm->companion)
                           : ncclSuccess;
    const ncclResult_t ours = on(comm, sennit_comm_finalize);
    return theirs != ncclSuccess ? theirs : ours;
  });
}

// In a group that uses the communicator it is destroyed after the calls of the group.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr || destroy_at_end(comm)) {
    return ncclSuccess;
  }
  forget_refusal();
  if (const ncclResult_t free = await_users(comm, "not destroyed"); free != ncclSuccess) {
    return free;
  }
  sennit_status_t state = SENNIT_OK;
  const bool failed = sennit_comm_async_error(comm->comm, &state) != SENNIT_OK ||
                      (state != SENNIT_OK && state != SENNIT_IN_PROGRESS);
  end_share(comm);
  end_companion(comm, failed);
  const sennit_status_t status = sennit_comm_destroy(comm->comm);
  delete comm;
  return result_of(status);
}

// Ends what waits and frees: nobody may use the communicator afterwards. Another thread may still
// be on its way out of a call, as when PyTorch's watchdog gives up what the program waits for.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) {
    return ncclSuccess;
  }
  comm->aborted.store(true);
  sennit_comm_abort(comm->comm);
  end_passing_on(comm);
  if (destroy_at_end(comm)) {
    return ncclSuccess;
  }
  const ncclResult_t free = await_users(comm, "aborted, and not freed");
  return free != ncclSuccess ? free : ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (result == nullptr) {
    return refuse(ncclInvalidArgument, "the result pointer is NULL");
  }
  sennit_status_t state = SENNIT_OK;
  const ncclResult_t asked =
      on(comm, [&](sennit_comm_t c) { return sennit_comm_async_error(c, &state); });
  *result = result_of(state);
  if (asked != ncclSuccess || state != SENNIT_OK) {
    return asked;
  }
  *result = poll_who_calls(comm);  // where it was joining until now
  if (*result == ncclSuccess && comm->is_passed_on) {
    return pass_on<&ncclCommGetAsyncError>("ncclCommGetAsyncError", comm, comm->companion, result);
  }
  return asked;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return on(comm, [&](sennit_comm_t c) { return sennit_comm_size(c, count); });
}

// Of a host rank, which has none: 0.
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const ncclResult_t result =
      on(comm, [&](sennit_comm_t c) { return sennit_comm_device(c, device); });
  if (result == ncclSuccess) {
    *device = std::max(0, *device);
  }
  return result;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return on(comm, [&](sennit_comm_t c) { return sennit_comm_rank(c, rank); });
}

}  // extern "C"

SENNIT_NCCL_TWIN(ncclGetUniqueId);
SENNIT_NCCL_TWIN(ncclCommInitRank);
SENNIT_NCCL_TWIN(ncclCommInitRankConfig);
SENNIT_NCCL_TWIN(ncclCommInitRankScalable);
SENNIT_NCCL_TWIN(ncclCommInitAll);
SENNIT_NCCL_TWIN(ncclCommSplit);
SENNIT_NCCL_TWIN(ncclCommShrink);
SENNIT_NCCL_TWIN(ncclCommFinalize);
SENNIT_NCCL_TWIN(ncclCommDestroy);
SENNIT_NCCL_TWIN(ncclCommAbort);
SENNIT_NCCL_TWIN(ncclCommGetAsyncError);
SENNIT_NCCL_TWIN(ncclCommCount);
SENNIT_NCCL_TWIN(ncclCommCuDevice);
SENNIT_NCCL_TWIN(ncclCommUserRank);
