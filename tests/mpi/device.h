/* Cases of device.c: what they share, and those of its other files. */
#ifndef SENNIT_TESTS_MPI_DEVICE_H_
#define SENNIT_TESTS_MPI_DEVICE_H_

#include "fake_cuda.h"

#include <mpi.h>

enum { kCount = 1000, kUntouched = -7 };

/* Of MPI_COMM_WORLD. */
extern int rank;
extern int ranks;
/* What was wrong first in the case that runs; NULL: nothing. */
extern const char* complaint;

#define CHECK(is_right)              \
  do {                               \
    if (!(is_right) && !complaint) { \
      complaint = #is_right;         \
    }                                \
  } while (0)

static inline int* device_ints(int count, int first, int step) {
  int* const device = gpu_malloc(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) {
    const int value = first + i * step;
    gpu_write(device + i, &value, sizeof(value));
  }
  return device;
}
static inline int at(const int* device, int i) {
  int value;
  gpu_read(&value, device + i, sizeof(value));
  return value;
}

/* What the MPI runs, or cannot. */
void persistent_messages(void);
void matched_and_exchanged_messages(void);
void local_calls(void);
void neighbours(void);
void nonblocking_neighbours(void);
void files(void);
void one_sided_calls(void);

#endif
