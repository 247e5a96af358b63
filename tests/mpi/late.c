/* A program for MPI that opens CUDA after its first collectives:  late LIBCUDA */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank;
  int sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int value = rank + 1;
  for (int i = 0; i < 3; ++i) {
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  void* const driver = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (driver == NULL) {
    fprintf(stderr, "late: %s\n", dlerror());
    return EXIT_FAILURE;
  }
  void* (*const allocate)(size_t) = (void* (*)(size_t))dlsym(driver, "gpu_malloc");
  void (*const read)(void*, const void*, size_t) =
      (void (*)(void*, const void*, size_t))dlsym(driver, "gpu_read");
  int* const out = allocate(sizeof(int));
  MPI_Allreduce(&value, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int found = 0;
  read(&found, out, sizeof(found));
  printf("%s late\n", found == sum ? "passed" : "failed");
  MPI_Finalize();
  return EXIT_SUCCESS;
}
