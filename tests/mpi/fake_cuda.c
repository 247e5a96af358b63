#define _GNU_SOURCE
#include "fake_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

typedef uint64_t Pointer;
enum { kInvalidContext = 201, kInvalidValue = 1, kMostQueued = 1 << 16, kDevices = 2 };
/* Of device 0; that of device 1 is 1 more. */
enum { kContext = 0x7c0 };
static void* const default_stream = (void*)1;
static char only_stream;

static const size_t kRoom = (size_t)16 << 30;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* memory; /* as the program sees it */
static char* view;   /* where copies read and write it */
static size_t used;
static __thread int contexts;
static __thread int current;
static __thread int has_default_stream;

/* Of libsennit.so on fake GPUs, if it is there. */
static struct {
  void* (*allocate)(size_t bytes);
  int (*device_of)(const void* pointer);
  void (*use_device)(int device);
  void* (*stream)(void);
  void (*synchronize)(void* stream);
} gpus;

__attribute__((constructor)) static void find_gpus(void) {
  gpus.allocate = (void* (*)(size_t))dlsym(RTLD_DEFAULT, "fake_allocate");
  gpus.device_of = (int (*)(const void*))dlsym(RTLD_DEFAULT, "fake_device_of");
  gpus.use_device = (void (*)(int))dlsym(RTLD_DEFAULT, "fake_use_device");
  gpus.stream = (void* (*)(void))dlsym(RTLD_DEFAULT, "fake_stream");
  gpus.synchronize = (void (*)(void*))dlsym(RTLD_DEFAULT, "fake_synchronize");
}

API void gpu_choose_device(int device) {
  if (gpus.use_device != NULL && (current != device || !has_default_stream)) {
    gpus.use_device(device);
    has_default_stream = 1;
  }
  current = device;
}

typedef struct {
  char* to;
  const char* from;
  size_t bytes;
} Copy;
static Copy queue[kMostQueued];
static int queued;

static void open_memory(void) {
  if (memory != NULL) {
    return;
  }
  const char* const is_open = getenv("FAKE_CUDA_OPEN");
  const int file = memfd_create("fake device", 0);
  if (file < 0 || ftruncate(file, (off_t)kRoom) != 0) {
    perror("the fake device's memory");
    abort();
  }
  const int flags = MAP_SHARED | MAP_NORESERVE;
  view = mmap(NULL, kRoom, PROT_READ | PROT_WRITE, flags, file, 0);
  memory = is_open != NULL ? view : mmap(NULL, kRoom, PROT_NONE, flags, file, 0);
  close(file);
  if (view == MAP_FAILED || memory == MAP_FAILED) {
    perror("mapping the fake device's memory");
    abort();
  }
}

API void* gpu_malloc(size_t bytes) {
  if (gpus.allocate != NULL) {
    gpu_choose_device(current);
    return gpus.allocate(bytes);
  }
  pthread_mutex_lock(&mutex);
  open_memory();
  char* const made = memory + used;
  used += (bytes + 255) / 256 * 256 + 256;
  if (used > kRoom) {
    fprintf(stderr, "the fake device has no memory left\n");
    abort();
  }
  pthread_mutex_unlock(&mutex);
  return made;
}
API void gpu_free(void* freed) { (void)freed; }

/* -1: the host. */
static int device_of(const void* address) {
  const char* const byte = address;
  if (gpus.device_of != NULL) {
    return gpus.device_of(address);
  }
  return memory != NULL && byte >= memory && byte < memory + kRoom ? 0 : -1;
}
static int is_device(const void* address) { return device_of(address) >= 0; }
/* Where a copy finds a byte. */
static char* seen(const void* address) {
  return gpus.device_of == NULL && is_device(address) ? view + ((const char*)address - memory)
                                                      : (char*)address;
}

API void gpu_write(void* device, const void* host, size_t bytes) {
  memcpy(seen(device), host, bytes);
}
API void gpu_read(void* host, const void* device, size_t bytes) {
  memcpy(host, seen(device), bytes);
}

API void* gpu_make_stream(void) { return gpus.stream(); }
API void gpu_wait(void* stream) { gpus.synchronize(stream); }

API int cuPointerGetAttributes(unsigned count, const int* names, void** values, Pointer address) {
  const int device = device_of((const void*)address);
  const int is_there = device >= 0;
  for (unsigned i = 0; i < count; ++i) {
    switch (names[i]) {
      case 1: /* context */
        *(void**)values[i] = is_there ? (char*)kContext + device : NULL;
        break;
      case 2: /* type of memory */
        *(unsigned*)values[i] = is_there ? 2 : 0;
        break;
      case 8: /* managed */
        *(unsigned char*)values[i] = 0;
        break;
      case 9: /* device */
        *(int*)values[i] = is_there ? device : -2;
        break;
      default:
        return kInvalidValue;
    }
  }
  return 0;
}
API int cuInit(unsigned flags) { return (int)flags; }
API int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return 0;
}
API int cuCtxSetCurrent(void* context) {
  ++contexts;
  gpu_choose_device((int)((intptr_t)context - kContext));
  return 0;
}
API int cuMemAlloc_v2(Pointer* made, size_t bytes) {
  *made = (Pointer)gpu_malloc(bytes);
  return 0;
}
API int cuMemcpyDtoH_v2(void* to, Pointer from, size_t bytes) {
  gpu_read(to, (const void*)from, bytes);
  return 0;
}
API int cuMemcpyHtoD_v2(Pointer to, const void* from, size_t bytes) {
  gpu_write((void*)to, from, bytes);
  return 0;
}
API int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (char*)kContext + device;
  return device >= 0 && device < kDevices ? 0 : kInvalidValue;
}
API int cuCtxPushCurrent_v2(void* context) {
  const intptr_t device = (intptr_t)context - kContext;
  if (device < 0 || device >= kDevices) {
    return kInvalidContext;
  }
  gpu_choose_device((int)device);
  ++contexts;
  return 0;
}
API int cuCtxPopCurrent_v2(void** context) {
  *context = (char*)kContext + current;
  return contexts-- > 0 ? 0 : kInvalidContext;
}

/* Under the mutex. */
static void run_queue(void) {
  for (int i = 0; i < queued; ++i) {
    memcpy(seen(queue[i].to), seen(queue[i].from), queue[i].bytes);
  }
  queued = 0;
}
static int enqueue(const void* to, const void* from, size_t bytes) {
  if (contexts == 0) {
    return kInvalidContext;
  }
  if (is_device(to) == is_device(from) || bytes == 0) {
    return kInvalidValue;
  }
  pthread_mutex_lock(&mutex);
  if (queued == kMostQueued) {
    run_queue();
  }
  queue[queued++] = (Copy){(char*)to, from, bytes};
  pthread_mutex_unlock(&mutex);
  return 0;
}

API int cuMemcpyAsync(Pointer to, Pointer from, size_t bytes, void* stream) {
  return stream != default_stream ? enqueue((void*)to, (const void*)from, bytes) : kInvalidValue;
}

typedef struct {
  size_t x, y;
  unsigned type;
  void* host;
  Pointer device;
  void* array;
  size_t pitch;
} Side;
API int cuMemcpy2DAsync_v2(const void* copy, void* stream) {
  const Side* const from = copy;
  const Side* const to = from + 1;
  const size_t* const shape = (const size_t*)(to + 1);
  const char* const source = from->type == 1 ? from->host : (char*)from->device;
  char* const target = to->type == 1 ? to->host : (char*)to->device;
  if (stream == default_stream || from->type + to->type != 3 || shape[0] > from->pitch ||
      shape[0] > to->pitch || is_device(source) != (from->type == 2)) {
    return kInvalidValue;
  }
  int code = 0;
  for (size_t row = 0; row < shape[1] && code == 0; ++row) {
    code = enqueue(target + row * to->pitch, source + row * from->pitch, shape[0]);
  }
  return code;
}
API int cuStreamCreate(void** stream, unsigned flags) {
  *stream = gpus.stream != NULL ? gpus.stream() : &only_stream;
  return contexts > 0 && flags == 1 ? 0 : kInvalidContext;
}
API int cuStreamSynchronize(void* stream) {
  if (contexts == 0) {
    return kInvalidContext;
  }
  if (stream != default_stream && stream != NULL) {
    pthread_mutex_lock(&mutex);
    run_queue();
    pthread_mutex_unlock(&mutex);
  }
  if (gpus.synchronize != NULL) {
    gpus.synchronize(stream == default_stream ? NULL : stream);
  }
  return 0;
}
API int cuStreamQuery(void* stream) { return cuStreamSynchronize(stream); }
API int cuMemHostAlloc(void** made, size_t bytes, unsigned flags) {
  *made = malloc(bytes);
  return contexts > 0 && flags == 1 ? 0 : kInvalidContext;
}
API int cuGetErrorName(int code, const char** name) {
  static char text[32];
  snprintf(text, sizeof(text), "CUDA_ERROR_%d", code);
  *name = text;
  return 0;
}
