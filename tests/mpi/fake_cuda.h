/* A CUDA driver without a GPU, as far as the library for MPI uses one. Memory of its device lies in
 * one range; what the library enqueues happens when it waits.
 *
 *   hidden    the program and the MPI cannot touch it: there is a second view of it for copies
 *   open      they can, so that any program's memory may be the device's (gpu_malloc)
 *
 * FAKE_CUDA_OPEN=1 in the environment selects the latter. Where libsennit.so on fake GPUs is
 * preloaded (tests/python/fake_gpus.cpp), its memory is the device's, which is open too. */
#ifndef SENNIT_TESTS_MPI_FAKE_CUDA_H_
#define SENNIT_TESTS_MPI_FAKE_CUDA_H_

#include <stdlib.h>

/* The current device of the thread; 0 at first. */
void gpu_choose_device(int device);
/* Never given back. */
void* gpu_malloc(size_t bytes);
void gpu_free(void* memory);
/* What the program does with copies of its own. */
void gpu_write(void* device, const void* host, size_t bytes);
void gpu_read(void* host, const void* device, size_t bytes);
/* Of the current device, which waits for no other stream. */
void* gpu_make_stream(void);
void gpu_wait(void* stream);

#ifdef FAKE_CUDA_REPLACES_MALLOC
#define malloc(bytes) gpu_malloc(bytes)
#define free(memory) gpu_free(memory)
#endif

#endif
