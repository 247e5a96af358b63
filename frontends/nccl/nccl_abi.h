/* The part of NCCL's binary interface that programs use, as of version 2.28.9: what a program that
 * was compiled against NVIDIA's header passes and expects. Written from the facts of the interface
 * (names, values, order and width of fields); tests/nccl compares it with NVIDIA's own header where
 * that is there. Handles are opaque on both sides. */
#ifndef SENNIT_FRONTENDS_NCCL_ABI_H_
#define SENNIT_FRONTENDS_NCCL_ABI_H_

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SENNIT_NCCL_VERSION 22809

typedef struct CUstream_st* cudaStream_t;
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* values from here on are made by ncclRedOpCreatePreMulSum */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* Grows at its end: of a caller's struct only `size` bytes are read. INT_MIN and NULL: not set. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;
#define SENNIT_NCCL_CONFIG_MAGIC 0xcafebeefU
#define SENNIT_NCCL_CONFIG_UNDEFINED INT_MIN
#define SENNIT_NCCL_SPLIT_NO_COLOR (-1)
#define SENNIT_NCCL_SHRINK_ABORT 0x01
#define SENNIT_NCCL_WIN_COLL_SYMMETRIC 0x01

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
void ncclResetDebugInit(void);

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommInitRankScalable(
    ncclComm_t* comm, int ranks, int rank, int id_count, ncclUniqueId* ids, ncclConfig_t* config);
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices);
ncclResult_t ncclCommSplit(
    ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config);
ncclResult_t ncclCommShrink(ncclComm_t comm,
                            int* excluded,
                            int excluded_count,
                            ncclComm_t* result,
                            ncclConfig_t* config,
                            int flags);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes);
ncclResult_t ncclMemFree(void* pointer);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t ncclCommWindowRegister(
    ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);

/* For kernels of the program's own. What is not looked at here is a pointer to anything. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* result);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* device_comm);
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, void* properties);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** pointer);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** pointer);
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
                           cudaStream_t stream);
ncclResult_t ncclSignal(
    int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int count, void* signals, ncclComm_t comm, cudaStream_t stream);

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op,
                                      void* scalar,
                                      ncclDataType_t type,
                                      ncclScalarResidence_t residence,
                                      ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

ncclResult_t ncclAllReduce(const void* send,
                           void* recv,
                           size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduce(const void* send,
                        void* recv,
                        size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t op,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send,
                           void* recv,
                           size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclBcast(void* buffer,
                       size_t count,
                       ncclDataType_t type,
                       int root,
                       ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send,
                           void* recv,
                           size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send,
                               void* recv,
                               size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t op,
                               ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclAlltoAll(const void* send,
                          void* recv,
                          size_t count,
                          ncclDataType_t type,
                          ncclComm_t comm,
                          cudaStream_t stream);
ncclResult_t ncclGather(const void* send,
                        void* recv,
                        size_t count,
                        ncclDataType_t type,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t ncclScatter(const void* send,
                         void* recv,
                         size_t count,
                         ncclDataType_t type,
                         int root,
                         ncclComm_t comm,
                         cudaStream_t stream);
ncclResult_t ncclSend(const void* send,
                      size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(
    void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupSimulateEnd(void* info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_FRONTENDS_NCCL_ABI_H_ */
