/* What fake_cuda.h declares, of the CUDA driver and GPUs of this machine. */
#include "fake_cuda.h"

#include <stdint.h>
#include <stdio.h>

typedef uint64_t Pointer;
int cuInit(unsigned);
int cuDeviceGetCount(int*);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(Pointer*, size_t);
int cuMemFree_v2(Pointer);
int cuMemcpyHtoD_v2(Pointer, const void*, size_t);
int cuMemcpyDtoH_v2(void*, Pointer, size_t);
int cuStreamCreate(void**, unsigned);
int cuStreamSynchronize(void*);

static void need(int result, const char* what) {
  if (result != 0) {
    fprintf(stderr, "%s: error %d of CUDA\n", what, result);
    exit(EXIT_FAILURE);
  }
}

void gpu_choose_device(int device) {
  void* context = NULL;
  int devices = 0;
  need(cuInit(0), "cuInit");
  need(cuDeviceGetCount(&devices), "cuDeviceGetCount");
  need(cuDevicePrimaryCtxRetain(&context, device % devices), "cuDevicePrimaryCtxRetain");
  need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}
void* gpu_malloc(size_t bytes) {
  Pointer memory = 0;
  need(cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
  return (void*)memory;
}
void gpu_free(void* memory) { need(cuMemFree_v2((Pointer)memory), "cuMemFree"); }
void gpu_write(void* device, const void* host, size_t bytes) {
  need(cuMemcpyHtoD_v2((Pointer)device, host, bytes), "cuMemcpyHtoD");
}
void gpu_read(void* host, const void* device, size_t bytes) {
  need(cuMemcpyDtoH_v2(host, (Pointer)device, bytes), "cuMemcpyDtoH");
}
void* gpu_make_stream(void) {
  enum { kWaitsForNoOther = 1 };
  void* stream = NULL;
  need(cuStreamCreate(&stream, kWaitsForNoOther), "cuStreamCreate");
  return stream;
}
void gpu_wait(void* stream) { need(cuStreamSynchronize(stream), "cuStreamSynchronize"); }
