/* Times collectives of a program for MPI twice: as the program calls them, which is what stands
 * before the MPI if anything does, and as the MPI itself has them. Samples of the two take turns,
 * so that whatever else the machine does slows both.
 *
 *   interleaved SAMPLES [COLLECTIVE]     rank 0 writes a line of JSON for each size of this
 *                                        collective, or of each
 *
 * A sample is some calls in a row; its time is that of the slowest rank. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWays = 2, kMostSamples = 1000, kMostBytes = 4 << 20, kMostGathered = 32 << 10 };
static const double sample_seconds = 1e-3;

static int rank;
static int ranks;
static char* in;
static char* out;

static MPI_Op own_op;
static void add(void* from, void* to, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) {
    ((int*)to)[i] += ((const int*)from)[i];
  }
}

typedef int Reduce(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int Move(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);

/* A collective by either way; `bytes` are those of the larger buffer of a rank. */
typedef struct {
  const char* name;
  const char* function;
  void* ways[kWays];
  void (*call)(void* function, int bytes, int turn);
  int most_bytes; /* 0: there is one size */
} Collective;

static void all_reduce(void* function, int bytes, int turn) {
  (void)turn;
  ((Reduce*)function)(in, out, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void reduce_scatter(void* function, int bytes, int turn) {
  (void)turn;
  ((Reduce*)function)(in, out, bytes / 4 / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void broadcast(void* function, int bytes, int turn) {
  ((int (*)(void*, int, MPI_Datatype, int, MPI_Comm))function)(
      out, bytes, MPI_BYTE, turn % ranks, MPI_COMM_WORLD);
}
static void move(void* function, int bytes, int turn) {
  const int block = bytes / ranks;
  (void)turn;
  ((Move*)function)(in, block, MPI_BYTE, out, block, MPI_BYTE, MPI_COMM_WORLD);
}
static void barrier(void* function, int bytes, int turn) {
  (void)bytes;
  (void)turn;
  ((int (*)(MPI_Comm))function)(MPI_COMM_WORLD);
}
static void all_reduce_places(void* function, int bytes, int turn) {
  (void)turn;
  ((Reduce*)function)(in, out, bytes / 8, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
}
static void all_reduce_of_program(void* function, int bytes, int turn) {
  (void)turn;
  ((Reduce*)function)(in, out, bytes / 4, MPI_INT, own_op, MPI_COMM_WORLD);
}
static void scan(void* function, int bytes, int turn) {
  (void)turn;
  ((Reduce*)function)(in, out, bytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
/* One rank needs no library, so the call is passed on. */
static void passed_on(void* function, int bytes, int turn) {
  (void)bytes;
  (void)turn;
  ((Reduce*)function)(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

static Collective collectives[] = {
    {"all_reduce", "Allreduce", {(void*)&MPI_Allreduce}, &all_reduce, kMostBytes},
    {"broadcast", "Bcast", {(void*)&MPI_Bcast}, &broadcast, kMostBytes},
    {"all_gather", "Allgather", {(void*)&MPI_Allgather}, &move, kMostBytes},
    {"all_to_all", "Alltoall", {(void*)&MPI_Alltoall}, &move, kMostBytes},
    {"reduce_scatter",
     "Reduce_scatter_block",
     {(void*)&MPI_Reduce_scatter_block},
     &reduce_scatter,
     kMostBytes},
    {"all_reduce_minloc", "Allreduce", {(void*)&MPI_Allreduce}, &all_reduce_places, kMostGathered},
    {"all_reduce_user_op",
     "Allreduce",
     {(void*)&MPI_Allreduce},
     &all_reduce_of_program,
     kMostGathered},
    {"scan", "Scan", {(void*)&MPI_Scan}, &scan, kMostGathered},
    {"barrier", "Barrier", {(void*)&MPI_Barrier}, &barrier, 0},
    {"passed_on", "Allreduce", {(void*)&MPI_Allreduce}, &passed_on, 0},
};

/* The MPI's own function, whoever stands before it: looked up in its library alone. */
static void* of_the_mpi(const char* function) {
  static void* library;
  char name[64];
  Dl_info info;
  if (library == NULL) {
    /* This one nobody stands before. */
    dladdr((void*)&MPI_Get_library_version, &info);
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  snprintf(name, sizeof(name), "PMPI_%s", function);
  return library == NULL ? NULL : dlsym(library, name);
}

static double run(const Collective* what, int way, int bytes, int calls) {
  /* By messages: a barrier may be what is timed. */
  char word = 0;
  for (int other = 1; other < ranks; ++other) {
    if (rank == 0) {
      MPI_Recv(&word, 1, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == other) {
      MPI_Send(&word, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
  }
  what->call(what->ways[way], bytes, 0);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) {
    what->call(what->ways[way], bytes, i);
  }
  double own = (MPI_Wtime() - begin) / calls;
  double slowest = own;
  PMPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const Collective* what, int bytes, int samples) {
  double times[kWays][kMostSamples];
  double calls = 8;
  for (int turn = 0; turn < 3; ++turn) {
    double longest = 1e-8;
    for (int way = 0; way < kWays; ++way) {
      const double once = run(what, way, bytes, (int)calls);
      longest = once > longest ? once : longest;
    }
    calls = sample_seconds / longest;
    calls = calls < 2 ? 2 : calls > 5000 ? 5000 : calls;
  }
  for (int sample = 0; sample < samples; ++sample) {
    for (int turn = 0; turn < kWays; ++turn) {
      const int way = (turn + sample) % kWays;
      times[way][sample] = 1e6 * run(what, way, bytes, (int)calls);
    }
  }
  for (int way = 0; way < kWays; ++way) {
    qsort(times[way], (size_t)samples, sizeof(double), &compare);
  }
  if (rank == 0) {
    const int median = samples / 2;
    printf(
        "{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"samples\": %d, "
        "\"calls_per_sample\": %d, \"time_us\": {\"min\": %.6f, \"p50\": %.6f}, "
        "\"mpi_us\": {\"min\": %.6f, \"p50\": %.6f}}\n",
        what->name,
        ranks,
        bytes,
        samples,
        (int)calls,
        times[0][0],
        times[0][median],
        times[1][0],
        times[1][median]);
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int samples = argc > 1 ? atoi(argv[1]) : 21;
  if (samples < 1 || samples > kMostSamples) {
    fprintf(stderr, "samples have to be from 1 to %d\n", kMostSamples);
    return EXIT_FAILURE;
  }
  MPI_Op_create(&add, 1, &own_op);
  in = calloc(kMostBytes, 1);
  out = calloc(kMostBytes, 1);
  for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); ++i) {
    Collective* const what = &collectives[i];
    if (argc > 2 && strcmp(argv[2], what->name) != 0) {
      continue;
    }
    what->ways[1] = of_the_mpi(what->function);
    if (what->ways[1] == NULL) {
      fprintf(stderr, "the MPI has no PMPI_%s of its own\n", what->function);
      return EXIT_FAILURE;
    }
    for (int bytes = 8; bytes == 8 || bytes <= what->most_bytes;
         bytes = bytes == kMostBytes / 2 ? 2 * bytes : 4 * bytes) {
      measure(what, bytes, samples);
    }
  }
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n,")] = '\0';
    printf("{\"mpi\": \"%s\"}\n", version);
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
