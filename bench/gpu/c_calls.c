/* What python_calls.py compares Python calls with: all_reduce from C, in a loop.
 *
 * Compiled and loaded by that script, so that both run in one process, on one GPU. */
#include "sennit/sennit.h"

#include <stdio.h>
#include <time.h>

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* A communicator of GPU ranks; NULL on failure. */
sennit_comm_t c_join(const char* key, int rank, int size, const char* device) {
  sennit_unique_id_t id;
  sennit_comm_t comm = NULL;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.device = device;
  if (sennit_unique_id_from_text(&id, key) != SENNIT_OK ||
      sennit_comm_init_rank(&comm, size, &id, rank, &config) != SENNIT_OK) {
    fprintf(stderr, "%s\n", sennit_last_error_message());
    return NULL;
  }
  return comm;
}

/* Microseconds that the host takes for one of `calls` calls, in place; negative on failure. */
double c_calls_us(sennit_comm_t comm, void* x, size_t count, void* stream, int calls) {
  const double begin = now_us();
  for (int i = 0; i < calls; ++i) {
    if (sennit_all_reduce(x, x, count, SENNIT_FLOAT32, SENNIT_SUM, comm, stream, NULL) !=
        SENNIT_OK) {
      fprintf(stderr, "%s\n", sennit_last_error_message());
      return -1;
    }
  }
  return (now_us() - begin) / calls;
}

void c_leave(sennit_comm_t comm) { sennit_comm_destroy(comm); }
