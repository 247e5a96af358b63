// Results, their strings, and the last error.
#include "communicator.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace sennit_nccl {
namespace {

thread_local std::string refusal;

}  // namespace

ncclResult_t result_of(sennit_status_t status) {
  switch (status) {
    case SENNIT_OK:
      return ncclSuccess;
    case SENNIT_IN_PROGRESS:
      return ncclInProgress;
    case SENNIT_INVALID_ARGUMENT:
      return ncclInvalidArgument;
    case SENNIT_INVALID_USAGE:
    case SENNIT_UNSUPPORTED:
    case SENNIT_MISMATCH:
    case SENNIT_NOT_PROVED:
    case SENNIT_ABORTED:
      return ncclInvalidUsage;
    case SENNIT_RANK_FAILED:
    case SENNIT_DEADLINE_EXCEEDED:
    case SENNIT_JOIN_TIMEOUT:
      return ncclRemoteError;
    case SENNIT_SYSTEM_ERROR:
      return ncclSystemError;
    case SENNIT_INTERNAL_ERROR:
    case SENNIT_STATUS_MAX_:
      break;
  }
  return ncclInternalError;
}

ncclResult_t refuse(ncclResult_t result, std::string why) {
  refusal = std::move(why);
  return result;
}

const char* last_error() { return refusal.empty() ? sennit_last_error_message() : refusal.c_str(); }

void forget_refusal() { refusal.clear(); }

ncclResult_t check(ncclComm_t comm) {
  if (comm == nullptr || comm->comm == nullptr) {
    return refuse(ncclInvalidArgument,
                  comm == nullptr ? "the communicator is NULL"
                                  : "the communicator is not made before its group has ended");
  }
  return ncclSuccess;
}

}  // namespace sennit_nccl

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) {
    return sennit_nccl::refuse(ncclInvalidArgument, "the result pointer is NULL");
  }
  *version = SENNIT_NCCL_VERSION;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr std::array<const char*, ncclNumResults> kTexts = {
      "no error",
      "a call of CUDA failed",
      "the operating system refused a call",
      "a defect of Sennit (ncclGetLastError says more)",
      "an argument is wrong (ncclGetLastError says which)",
      "the call is not allowed here (ncclGetLastError says why)",
      "another rank died, gave up or did not come (ncclGetLastError says which)",
      "the operation has not finished yet"};
  const auto index = static_cast<std::size_t>(result);
  return index < kTexts.size() ? kTexts[index] : "no result that is known";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return sennit_nccl::last_error(); }

// SENNIT_DEBUG is read at each use.
void ncclResetDebugInit(void) {}

}  // extern "C"

SENNIT_NCCL_TWIN(ncclGetVersion);
SENNIT_NCCL_TWIN(ncclGetErrorString);
SENNIT_NCCL_TWIN(ncclGetLastError);
SENNIT_NCCL_TWIN(ncclResetDebugInit);
