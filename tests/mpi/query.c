/* Asks whether buffers may be in GPU memory, as programs do that have a way for it. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  int of_kind = -1;
  int (*query)(void);
  int (*query_kind)(int, int*);
  void* const first = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  void* const second = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
  memcpy(&query, &first, sizeof(query));
  memcpy(&query_kind, &second, sizeof(query_kind));
  query_kind(0, &of_kind);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("cuda %d %d\n", query(), of_kind);
  }
  MPI_Finalize();
  return 0;
}
