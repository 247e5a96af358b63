// What an ncclComm_t points to, and how the library's statuses map to NCCL's results.
#pragma once

#include "nccl_abi.h"

#include "sennit/sennit.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

struct ncclComm {
  sennit_comm_t comm = nullptr;
  // NVIDIA's communicator of the same ranks, or why there is none. All ranks have the same.
  ncclComm_t companion = nullptr;
  std::string why_no_companion = "no window or device communicator was made on this communicator";
  // Whether its windows are the companion's, too; all ranks have the same.
  bool nvidia_keeps_windows = false;
  // Whether a window was made, and whether NCCL was asked for.
  bool has_had_windows = false;
  bool companion_sought = false;
  // Whether the companion makes its calls, since its ranks are on several nodes; all ranks have the
  // same. Decided once it has been joined.
  std::atomic<bool> is_passed_on{false};
  enum class Decision : int { kNone, kUnderWay, kMade };
  std::atomic<Decision> decision{Decision::kNone};
  ncclResult_t decided = ncclSuccess;  // once it is made
  // Calls of a communicator that does not block may answer ncclInProgress.
  bool blocking = true;
  // What ran on it and on its companion, reported at its end.
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> passed_on{0};
  // By another thread, while this one may wait for the other ranks.
  std::atomic<bool> aborted{false};
  // Threads inside a call, and calls of groups that have not ended: nothing is freed before.
  std::atomic<int> users{0};
};

namespace sennit_nccl {

// The result that says the same as the status.
ncclResult_t result_of(sennit_status_t status);

// Refuses a call by itself: `why` is what ncclGetLastError then says on this thread.
ncclResult_t refuse(ncclResult_t result, std::string why);

// What ncclGetLastError says: of the last refusal of this thread, or of the library.
const char* last_error();
// The library's own error is the last one now.
void forget_refusal();

// Where buffers lie: for NCCL's callers on the current device, unless SENNIT_DEVICE says otherwise,
// which NULL leaves to the library.
const char* device_name();

// Neither NULL nor already failed before it was made.
ncclResult_t check(ncclComm_t comm);

// As long as one is there, an abort by another thread ends what waits but frees nothing.
class Use {
 public:
  explicit Use(ncclComm_t comm) : comm_(comm) { comm_->users.fetch_add(1); }
  ~Use() {
    if (comm_ != nullptr) {
      comm_->users.fetch_sub(1);
    }
  }
  [[nodiscard]] ncclComm_t comm() const { return comm_; }
  Use(Use&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Use& operator=(Use&&) = delete;

 private:
  ncclComm_t comm_;
};

// Runs a call on a communicator that must be there, and translates its status.
template <typename Run>
ncclResult_t on(ncclComm_t comm, Run&& run) {
  const ncclResult_t usable = check(comm);
  if (usable != ncclSuccess) {
    return usable;
  }
  const Use use(comm);
  forget_refusal();
  return result_of(run(comm->comm));
}

}  // namespace sennit_nccl

// A function's twin, pncclX, which profilers that stand in for ncclX call. In the file of ncclX.
#define SENNIT_NCCL_TWIN(name) \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) p##name
