// What NCCL does and this library does not: kernels of the caller's own that reach into windows,
// and the memory of those.
// It is passed on to NVIDIA's NCCL with a companion of the communicator; where there is none, and
// for what could only be asked of NCCL if it were the communicator itself, the answer is
// ncclInvalidUsage, and ncclGetLastError says why.
#include "companion.hpp"
#include "fallback.hpp"
#include "group.hpp"
#include "stopwatch.hpp"

#include <cstddef>
#include <mutex>
#include <set>

namespace sennit_nccl {
namespace {

ncclResult_t refuse_forwarding(const std::string& name, const std::string& why) {
  return refuse(ncclInvalidUsage,
                name + " is not among what Sennit does, and is not passed on: " + why);
}

// Calls the function of this name with the arguments.
template <typename... Parameters>
ncclResult_t pass_on(const char* name, ncclComm_t theirs, Parameters... arguments) {
  auto* const function = fallback().function<ncclResult_t(Parameters...)>(name);
  if (function == nullptr) {
    return refuse_forwarding(
        name, "NCCL " + version_text(fallback().version) + " (" + fallback().path + ") has it not");
  }
  forget_refusal();
  return answer_of(name, function(arguments...), theirs);
}

// As a call of the companion of `comm`, which is made of the arguments by `call`.
template <typename Call>
ncclResult_t with_companion(const char* name, ncclComm_t comm, const Call& call) {
  const ncclResult_t usable = check(comm);
  if (usable != ncclSuccess) {
    return usable;
  }
  const Use use(comm);
  if (comm->companion == nullptr) {
    return refuse_forwarding(name, comm->why_no_companion);
  }
  comm->passed_on.fetch_add(1, std::memory_order_relaxed);
  const Stopwatch watch(name);
  const ncclResult_t result = on_device(comm, [&] { return call(comm->companion); });
  watch.count(0, "it serves kernels of the program (docs/nccl.md)");
  return result;
}

ncclResult_t with_window(const char* name, ncclWindow_t window, const auto& call) {
  return is_nvidias(window) ? call()
                            : refuse_forwarding(name, "the window is not one that NCCL has made");
}

// What NCCL has allocated, which it also frees.
class NvidiasMemory {
 public:
  static NvidiasMemory& all() {
    static auto* const memory = new NvidiasMemory;  // programs free at their very end
    return *memory;
  }
  void insert(void* pointer) {
    const std::scoped_lock lock(mutex_);
    pointers_.insert(pointer);
  }
  bool erase(void* pointer) {
    const std::scoped_lock lock(mutex_);
    return pointers_.erase(pointer) > 0;
  }

 private:
  std::mutex mutex_;
  std::set<void*> pointers_;
};

}  // namespace
}  // namespace sennit_nccl

using namespace sennit_nccl;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

// Memory that NCCL can make windows of, where it shall keep windows. Ours otherwise: the ranks map
// each other's wherever they are, and NCCL's only where the system lets them.
ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  forget_refusal();
  if (!is_fallback_named() || fallback().handle == nullptr) {
    return result_of(sennit_mem_alloc_on(pointer, bytes, device_name()));
  }
  const ncclResult_t result = pass_on("ncclMemAlloc", nullptr, pointer, bytes);
  if (result == ncclSuccess) {
    NvidiasMemory::all().insert(*pointer);
  }
  return result;
}

ncclResult_t ncclMemFree(void* pointer) {
  forget_refusal();
  return NvidiasMemory::all().erase(pointer) ? pass_on("ncclMemFree", nullptr, pointer)
                                             : result_of(sennit_mem_free(pointer));
}

// Called by all ranks, as in NCCL, which is why a companion may be made here.
ncclResult_t ncclCommWindowRegister(
    ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags) {
  const ncclResult_t usable = check(comm);
  if (usable != ncclSuccess) {
    return of_group(usable);
  }
  if (window == nullptr) {
    return of_group(refuse(ncclInvalidArgument, "the result pointer is NULL"));
  }
  return now_or_at_end(comm, [=] {
    const Use use(comm);
    forget_refusal();
    return make_window(comm, buffer, bytes, window, flags);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  const ncclResult_t usable = check(comm);
  if (usable != ncclSuccess) {
    return usable;
  }
  const Use use(comm);
  forget_refusal();
  return end_window(comm, window);
}

// Called by all ranks, too. What the requirements point to must last until the group's end.
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* result) {
  const ncclResult_t usable = check(comm);
  if (usable != ncclSuccess) {
    return of_group(usable);
  }
  return now_or_at_end(comm, [=] {
    const Use use(comm);
    forget_refusal();
    const ncclResult_t sought = seek_companion_for_kernels(comm);
    return sought != ncclSuccess
               ? sought
               : with_companion("ncclDevCommCreate", comm, [&](ncclComm_t theirs) {
                   return pass_on("ncclDevCommCreate", theirs, theirs, requirements, result);
                 });
  });
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* device_comm) {
  return with_companion("ncclDevCommDestroy", comm, [&](ncclComm_t theirs) {
    return pass_on("ncclDevCommDestroy", theirs, theirs, device_comm);
  });
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void* properties) {
  return with_companion("ncclCommQueryProperties", comm, [&](ncclComm_t theirs) {
    return pass_on("ncclCommQueryProperties", theirs, theirs, properties);
  });
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer) {
  return with_companion("ncclWinGetUserPtr", comm, [&](ncclComm_t theirs) {
    return with_window("ncclWinGetUserPtr", window, [&] {
      return pass_on("ncclWinGetUserPtr", theirs, theirs, window, pointer);
    });
  });
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window,
                                      size_t offset,
                                      int peer,
                                      void** pointer) {
  return with_window("ncclGetPeerDevicePointer", window, [&] {
    return pass_on("ncclGetPeerDevicePointer", nullptr, window, offset, peer, pointer);
  });
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** pointer) {
  return with_window("ncclGetLsaMultimemDevicePointer", window, [&] {
    return pass_on("ncclGetLsaMultimemDevicePointer", nullptr, window, offset, pointer);
  });
}

ncclResult_t ncclPutSignal(const void* buffer,
                           size_t count,
                           ncclDataType_t type,
                           int peer,
                           ncclWindow_t window,
                           size_t offset,
                           int signal,
                           int context,
                           unsigned flags,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return with_companion("ncclPutSignal", comm, [&](ncclComm_t theirs) {
    return with_window("ncclPutSignal", window, [&] {
      return pass_on("ncclPutSignal",
                     theirs,
                     buffer,
                     count,
                     type,
                     peer,
                     window,
                     offset,
                     signal,
                     context,
                     flags,
                     theirs,
                     stream);
    });
  });
}

ncclResult_t ncclSignal(
    int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream) {
  return with_companion("ncclSignal", comm, [&](ncclComm_t theirs) {
    return pass_on("ncclSignal", theirs, peer, signal, context, flags, theirs, stream);
  });
}

ncclResult_t ncclWaitSignal(int count, void* signals, ncclComm_t comm, cudaStream_t stream) {
  return with_companion("ncclWaitSignal", comm, [&](ncclComm_t theirs) {
    return pass_on("ncclWaitSignal", theirs, count, signals, theirs, stream);
  });
}

}  // extern "C"

SENNIT_NCCL_TWIN(ncclMemAlloc);
SENNIT_NCCL_TWIN(ncclMemFree);
SENNIT_NCCL_TWIN(ncclCommWindowRegister);
SENNIT_NCCL_TWIN(ncclCommWindowDeregister);
SENNIT_NCCL_TWIN(ncclDevCommCreate);
SENNIT_NCCL_TWIN(ncclDevCommDestroy);
SENNIT_NCCL_TWIN(ncclCommQueryProperties);
SENNIT_NCCL_TWIN(ncclWinGetUserPtr);
SENNIT_NCCL_TWIN(ncclGetPeerDevicePointer);
SENNIT_NCCL_TWIN(ncclGetLsaMultimemDevicePointer);
SENNIT_NCCL_TWIN(ncclPutSignal);
SENNIT_NCCL_TWIN(ncclSignal);
SENNIT_NCCL_TWIN(ncclWaitSignal);

// These change or describe the communicator itself, which is ours: an answer about the companion
// would be about another one. They take what their callers pass and look at none of it.
#define SENNIT_NCCL_REFUSED(name)                                                              \
  extern "C" __attribute__((visibility("default"))) ncclResult_t name(void) {                  \
    return refuse_forwarding(#name, "it is about the communicator itself, which is Sennit's"); \
  }                                                                                            \
  SENNIT_NCCL_TWIN(name);

SENNIT_NCCL_REFUSED(ncclCommGrow)
SENNIT_NCCL_REFUSED(ncclCommGetUniqueId)
SENNIT_NCCL_REFUSED(ncclCommRevoke)
SENNIT_NCCL_REFUSED(ncclCommSuspend)
SENNIT_NCCL_REFUSED(ncclCommResume)
SENNIT_NCCL_REFUSED(ncclCommMemStats)
