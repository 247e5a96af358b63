/* All ranks add their vectors. Build and run (an installed Sennit, two ranks by hand):
 *
 *   cc 01_all_reduce.c -o all_reduce $(pkg-config --cflags --libs sennit) \
 *     -Wl,-rpath,$(pkg-config --variable=libdir sennit)
 *   export SENNIT_SIZE=2 SENNIT_KEY=my-job
 *   SENNIT_RANK=1 ./all_reduce & SENNIT_RANK=0 ./all_reduce
 *
 * Under torchrun, mpirun or srun nothing needs to be exported.
 */
#include <sennit/sennit.h>

#include <stdio.h>

enum { kCount = 1 << 20 };

static float x[kCount];

static sennit_status_t add_up(sennit_comm_t comm) {
  int rank = 0;
  int size = 0;
  sennit_comm_rank(comm, &rank);
  sennit_comm_size(comm, &size);
  for (int i = 0; i < kCount; ++i) {
    x[i] = (float)(rank + 1);
  }
  /* In place: send and receive buffer are one. NULL: host memory, Sennit's choice of algorithm. */
  const sennit_status_t status =
      sennit_all_reduce(x, x, kCount, SENNIT_FLOAT32, SENNIT_SUM, comm, NULL, NULL);
  if (status == SENNIT_OK && rank == 0) {
    printf("%d ranks: every element is %g\n", size, x[kCount - 1]);
  }
  return status;
}

int main(void) {
  sennit_comm_t comm = NULL;
  sennit_status_t status = sennit_comm_init_env(&comm, NULL);
  if (status == SENNIT_OK) {
    status = add_up(comm);
  }
  if (status != SENNIT_OK) {
    /* One line: what failed, on which rank, who caused it, what to do next. */
    fprintf(stderr, "%s\n", sennit_last_error_message());
  }
  sennit_comm_destroy(comm);
  return status == SENNIT_OK ? 0 : 1;
}
