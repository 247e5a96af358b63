// What programs link against and Sennit has not: kernels of the caller's own that reach into NCCL's
// memory, one-sided signals, and the like. They answer ncclInvalidUsage, and ncclGetLastError says
// which it was. A function of this list takes what its caller passes and looks at none of it.
#include "communicator.hpp"

#define SENNIT_NCCL_REFUSED(name)                                                         \
  extern "C" __attribute__((visibility("default"))) ncclResult_t name(void) {             \
    return sennit_nccl::refuse(ncclInvalidUsage, #name " is not among what Sennit does"); \
  }                                                                                       \
  SENNIT_NCCL_TWIN(name);

SENNIT_NCCL_REFUSED(ncclDevCommCreate)
SENNIT_NCCL_REFUSED(ncclDevCommDestroy)
SENNIT_NCCL_REFUSED(ncclCommQueryProperties)
SENNIT_NCCL_REFUSED(ncclGetPeerDevicePointer)
SENNIT_NCCL_REFUSED(ncclGetLsaMultimemDevicePointer)
SENNIT_NCCL_REFUSED(ncclWinGetUserPtr)
SENNIT_NCCL_REFUSED(ncclPutSignal)
SENNIT_NCCL_REFUSED(ncclSignal)
SENNIT_NCCL_REFUSED(ncclWaitSignal)
SENNIT_NCCL_REFUSED(ncclCommGrow)
SENNIT_NCCL_REFUSED(ncclCommGetUniqueId)
SENNIT_NCCL_REFUSED(ncclCommRevoke)
SENNIT_NCCL_REFUSED(ncclCommSuspend)
SENNIT_NCCL_REFUSED(ncclCommResume)
SENNIT_NCCL_REFUSED(ncclCommMemStats)
