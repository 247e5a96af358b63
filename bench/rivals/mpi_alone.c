/* The times of an MPI by itself, in a program without Sennit: `sennit bench --against` prints them
 * beside those that it takes in one process with Sennit, so that it shows if that slows the MPI.
 *
 *   mpi_alone DTYPE ELEMENT_BYTES OP SAMPLES ROTATE_BYTES PIN { COLLECTIVE COUNT... }...
 *
 * Samples as by the rank program: batches of at least 20 us, of which the longest rank's counts,
 * with buffers that rotate over ROTATE_BYTES and roots that rotate. Rank 0 prints a JSON object a
 * count. After a row of more than 5 s the larger counts of its collective are left out.
 */
#define _GNU_SOURCE
#include "rival.h"

#include <ctype.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 1000, FEWEST_SAMPLES = 3, WARMUP_CALLS = 5 };
static const double sample_us = 20.0;
static const double row_us = 5e6;

struct setting {
  const sennit_rival_t* mpi;
  int rank;
  int ranks;
  size_t element_bytes;
  int samples;
  size_t rotate_bytes;
};

/* One of the two forms is there. */
struct collective {
  const char* name;
  int (*plain)(const void* send, void* recv, size_t count);
  int (*rooted)(const void* send, void* recv, size_t count, int root);
  int has_part_a_rank; /* the longer buffer is one part a rank */
};

struct row {
  struct collective collective;
  size_t count;
  size_t bytes; /* of the longer buffer, in whole cache lines: from one call's to the next's */
  size_t slots;
  char* send;
  char* recv;
  size_t next_call;
};

static void fail(const char* what) {
  fprintf(stderr, "mpi_alone: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Ranks go to the cores that the process may use, round and round, as the rank program's do. */
static void pin_to_core(int rank) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return;
  }
  int skip = rank % CPU_COUNT(&allowed);
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && skip-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof(one), &one);
      return;
    }
  }
}

static int call(const struct setting* s, struct row* row) {
  const size_t at = row->next_call % row->slots * row->bytes;
  const int root = (int)(row->next_call++ % (size_t)s->ranks);
  return row->collective.plain != NULL
             ? row->collective.plain(row->send + at, row->recv + at, row->count)
             : row->collective.rooted(row->send + at, row->recv + at, row->count, root);
}

/* us a call, of the longest rank. */
static double time_calls(const struct setting* s, struct row* row, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) {
    if (call(s, row) != MPI_SUCCESS) {
      fail("a call failed");
    }
  }
  double us = (MPI_Wtime() - begin) * 1e6 / calls;
  MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return us;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Whether larger counts are worth a try. */
static int run_row(const struct setting* s, struct row* row) {
  double us = time_calls(s, row, 1);
  for (int i = 1; i < WARMUP_CALLS && us * WARMUP_CALLS < row_us / 5; ++i) {
    us = time_calls(s, row, 1);
  }
  int calls = 1;
  while (us * calls < sample_us && calls < MOST_CALLS) {
    const double wanted = sample_us / us + 1;
    calls = wanted > MOST_CALLS ? MOST_CALLS : wanted > 2 * calls ? (int)wanted : 2 * calls;
    us = time_calls(s, row, calls);
  }
  if (row->collective.rooted != NULL) {
    /* Every sample has every root equally often. */
    calls = (calls + s->ranks - 1) / s->ranks * s->ranks;
  }
  const int is_slow = us * calls * s->samples > row_us;
  int samples = s->samples;
  if (is_slow) {
    const int affordable = (int)(row_us / (us * calls));
    samples = affordable < FEWEST_SAMPLES ? FEWEST_SAMPLES : affordable;
  }
  double* times = malloc((size_t)samples * sizeof(double));
  for (int i = 0; i < samples; ++i) {
    times[i] = time_calls(s, row, calls);
  }
  qsort(times, (size_t)samples, sizeof(double), compare);
  if (s->rank == 0) {
    printf("{\"collective\": \"%s\", \"count\": %zu, \"samples\": %d, \"p50_us\": %.4f}\n",
           row->collective.name,
           row->count,
           samples,
           times[(samples - 1) / 2]);
    fflush(stdout);
  }
  free(times);
  return !is_slow;
}

static struct collective find_collective(const sennit_rival_t* mpi, const char* name) {
  const struct collective all[] = {{"all_reduce", mpi->all_reduce, NULL, 0},
                                   {"reduce", NULL, mpi->reduce, 0},
                                   {"broadcast", NULL, mpi->broadcast, 0},
                                   {"all_gather", mpi->all_gather, NULL, 1},
                                   {"reduce_scatter", mpi->reduce_scatter, NULL, 1},
                                   {"all_to_all", mpi->all_to_all, NULL, 1},
                                   {"gather", NULL, mpi->gather, 1},
                                   {"scatter", NULL, mpi->scatter, 1}};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    if (strcmp(all[i].name, name) == 0) {
      return all[i];
    }
  }
  fail("there is no such collective");
  return all[0];
}

static void lay_out(const struct setting* s, struct row* row, size_t count) {
  const size_t line = 64;
  const size_t parts = row->collective.has_part_a_rank ? (size_t)s->ranks : 1;
  row->count = count;
  row->bytes = (count * parts * s->element_bytes + line - 1) / line * line;
  row->bytes = row->bytes == 0 ? line : row->bytes;
  row->slots = s->rotate_bytes / row->bytes + 1;
  const size_t all = row->slots * row->bytes;
  row->send = malloc(all);
  row->recv = malloc(all);
  if (row->send == NULL || row->recv == NULL) {
    fail("there is no memory for the buffers");
  }
  memset(row->send, 0, all);
  memset(row->recv, 0, all);
}

int main(int argc, char** argv) {
  struct setting s = {.mpi = sennit_rival()};
  const char* wrong = s.mpi->start(NULL, 0, 0);
  if (wrong != NULL || argc < 7) {
    fail(wrong != NULL ? wrong : "the arguments are not as the source says");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
  s.element_bytes = strtoull(argv[2], NULL, 10);
  s.samples = atoi(argv[4]);
  s.rotate_bytes = strtoull(argv[5], NULL, 10);
  if (atoi(argv[6]) != 0) {
    pin_to_core(s.rank);
  }
  wrong = s.mpi->prepare(argv[1], argv[3], 0);
  if (wrong != NULL) {
    fail(wrong);
  }
  struct row row = {.count = 0};
  int goes_on = 1;
  for (int i = 7; i < argc; ++i) {
    if (!isdigit((unsigned char)argv[i][0])) {
      row.collective = find_collective(s.mpi, argv[i]);
      goes_on = 1;
    } else if (goes_on) {
      lay_out(&s, &row, strtoull(argv[i], NULL, 10));
      goes_on = run_row(&s, &row);
      free(row.send);
      free(row.recv);
    }
  }
  s.mpi->stop();
  return 0;
}
