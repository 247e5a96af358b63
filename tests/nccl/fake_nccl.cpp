// Stands for NVIDIA's NCCL: writes down what it is called with, and moves nothing. It has no
// ncclWaitSignal, as an older NCCL has not. FAKE_NCCL_VERSION is what it says it is, and the rank
// FAKE_NCCL_FAILS_AT cannot join. Where FAKE_NCCL_DIES is set the process ends while it joins, with
// FAKE_NCCL_FAILS_TO_END ncclCommDestroy fails, with FAKE_NCCL_KEEPS_WINDOWS the end of a window.
#include "nccl_abi.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

struct ncclComm {
  int rank;
};

namespace {

std::mutex mutex;
std::vector<std::string> calls;
std::atomic<int> ids{0};

void write_down(const std::string& call) {
  const std::scoped_lock lock(mutex);
  calls.push_back(call);
}

int number(const char* variable, int otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? static_cast<int>(std::strtol(value, nullptr, 10)) : otherwise;
}

std::string of_rank(ncclComm_t comm) { return " rank " + std::to_string(comm->rank); }

}  // namespace

extern "C" {

// For tests: the calls so far.
std::vector<std::string>* fake_nccl_calls() { return &calls; }

ncclResult_t ncclGetVersion(int* version) {
  *version = number("FAKE_NCCL_VERSION", 23007);
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return "the fake does not like it"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, ++ids, sizeof(*id));
  write_down("ncclGetUniqueId");
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  write_down("ncclCommInitRank rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
             " id " + std::to_string(id.internal[0]) + std::to_string(id.internal[127]));
  if (number("FAKE_NCCL_DIES", 0) != 0) {
    std::_Exit(1);
  }
  if (rank == number("FAKE_NCCL_FAILS_AT", -1)) {
    return ncclSystemError;
  }
  *comm = new ncclComm{rank};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  write_down("ncclCommDestroy" + of_rank(comm));
  delete comm;
  return number("FAKE_NCCL_FAILS_TO_END", 0) != 0 ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  write_down("ncclCommAbort" + of_rank(comm));
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* /*send*/,
                      size_t count,
                      ncclDataType_t /*type*/,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t /*stream*/) {
  write_down("ncclSend" + of_rank(comm) + " count " + std::to_string(count) + " to " +
             std::to_string(peer));
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  write_down("ncclGroupStart");
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  write_down("ncclGroupEnd");
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  write_down("ncclCommGetAsyncError" + of_rank(comm));
  *result = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  write_down("ncclCommFinalize" + of_rank(comm));
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  write_down("ncclMemAlloc " + std::to_string(bytes));
  *pointer = std::malloc(bytes);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* pointer) {
  write_down("ncclMemFree");
  std::free(pointer);
  return ncclSuccess;
}

// Asks for its own version as NCCL's functions call each other: through the loader.
ncclResult_t ncclCommWindowRegister(
    ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags) {
  int version = 0;
  ncclGetVersion(&version);
  write_down("ncclCommWindowRegister" + of_rank(comm) + " bytes " + std::to_string(bytes) +
             " flags " + std::to_string(flags) + " by " + std::to_string(version));
  if (flags == 99) {
    return ncclInvalidArgument;
  }
  *window = reinterpret_cast<ncclWindow_t>(static_cast<char*>(buffer) + 1);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t /*window*/) {
  write_down("ncclCommWindowDeregister" + of_rank(comm));
  return number("FAKE_NCCL_KEEPS_WINDOWS", 0) != 0 ? ncclInvalidUsage : ncclSuccess;
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* result) {
  write_down("ncclDevCommCreate" + of_rank(comm));
  std::memcpy(result, requirements, sizeof(int));
  return ncclSuccess;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* /*device_comm*/) {
  write_down("ncclDevCommDestroy" + of_rank(comm));
  return ncclSuccess;
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void* properties) {
  *static_cast<int*>(properties) = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window,
                                      size_t offset,
                                      int peer,
                                      void** pointer) {
  *pointer = reinterpret_cast<char*>(window) + offset + static_cast<size_t>(100 * peer);
  return ncclSuccess;
}

ncclResult_t ncclSignal(
    int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t /*stream*/) {
  write_down("ncclSignal" + of_rank(comm) + " " + std::to_string(peer) + std::to_string(signal) +
             std::to_string(context) + std::to_string(flags));
  return ncclSuccess;
}

// Passed on where ranks are on several nodes.
ncclResult_t ncclAllReduce(const void* /*send*/,
                           void* /*recv*/,
                           size_t count,
                           ncclDataType_t /*type*/,
                           ncclRedOp_t /*op*/,
                           ncclComm_t comm,
                           cudaStream_t /*stream*/) {
  write_down("ncclAllReduce" + of_rank(comm) + " count " + std::to_string(count));
  return count == 99 ? ncclInvalidArgument : ncclSuccess;
}

}  // extern "C"
