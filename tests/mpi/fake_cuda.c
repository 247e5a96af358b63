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
enum { kInvalidContext = 201, kInvalidValue = 1, kMostQueued = 1 << 16, kContext = 0x7c0 };

static const size_t kRoom = (size_t)16 << 30;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* memory; /* as the program sees it */
static char* view;   /* where copies read and write it */
static size_t used;
static long copies;
static __thread int contexts;

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

API void* fake_malloc(size_t bytes) {
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
API void fake_free(void* freed) { (void)freed; }

static int is_device(const void* address) {
  const char* const byte = address;
  return memory != NULL && byte >= memory && byte < memory + kRoom;
}
/* Where a copy finds a byte. */
static char* seen(const void* address) {
  return is_device(address) ? view + ((const char*)address - memory) : (char*)address;
}

API void fake_write(void* device, const void* host, size_t bytes) {
  memcpy(seen(device), host, bytes);
}
API void fake_read(void* host, const void* device, size_t bytes) {
  memcpy(host, seen(device), bytes);
}
API long fake_copies(void) { return copies; }

API int cuPointerGetAttributes(unsigned count, const int* names, void** values, Pointer address) {
  const int is_there = is_device((const void*)address);
  for (unsigned i = 0; i < count; ++i) {
    switch (names[i]) {
      case 1: /* context */
        *(void**)values[i] = is_there ? (void*)kContext : NULL;
        break;
      case 2: /* type of memory */
        *(unsigned*)values[i] = is_there ? 2 : 0;
        break;
      case 8: /* managed */
        *(unsigned char*)values[i] = 0;
        break;
      case 9: /* device */
        *(int*)values[i] = is_there ? 0 : -2;
        break;
      default:
        return kInvalidValue;
    }
  }
  return 0;
}
API int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)kContext;
  return device == 0 ? 0 : kInvalidValue;
}
API int cuCtxPushCurrent_v2(void* context) {
  ++contexts;
  return context == (void*)kContext ? 0 : kInvalidContext;
}
API int cuCtxPopCurrent_v2(void** context) {
  *context = (void*)kContext;
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
  ++copies;
  pthread_mutex_unlock(&mutex);
  return 0;
}

API int cuMemcpyAsync(Pointer to, Pointer from, size_t bytes, void* stream) {
  return stream == (void*)1 ? enqueue((void*)to, (const void*)from, bytes) : kInvalidValue;
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
  if (stream != (void*)1 || from->type + to->type != 3 || shape[0] > from->pitch ||
      shape[0] > to->pitch || is_device(source) != (from->type == 2)) {
    return kInvalidValue;
  }
  int code = 0;
  for (size_t row = 0; row < shape[1] && code == 0; ++row) {
    code = enqueue(target + row * to->pitch, source + row * from->pitch, shape[0]);
  }
  return code;
}
API int cuStreamSynchronize(void* stream) {
  pthread_mutex_lock(&mutex);
  run_queue();
  pthread_mutex_unlock(&mutex);
  return stream == (void*)1 && contexts > 0 ? 0 : kInvalidContext;
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
