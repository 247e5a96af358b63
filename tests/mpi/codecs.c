/* A program whose floats may travel with a codec. It says of each call whether the values that came
 * from other ranks are exact, rounded or wrong: the codec of its environment is of at least 16
 * bits.
 *
 *     codecs [VALUES]    values of a block, by default 4096 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;
static int ranks;
static int values;
static float* in;
static float* out;

/* Blocks differ, and no value is short. */
static float value_of(int from, int to, int i) {
  return (float)sin(0.37 * i + 1.7 * from + 0.9 * to) * (float)(1 + i % 3);
}
static void fill(void) {
  for (int to = 0; to < ranks; ++to) {
    for (int i = 0; i < values; ++i) {
      in[to * values + i] = value_of(rank, to, i);
    }
  }
  memset(out, 0xff, sizeof(float) * (size_t)values * (size_t)ranks);
}

enum Kind { kExact, kRounded, kWrong };
static enum Kind worse(enum Kind a, enum Kind b) { return a > b ? a : b; }
static enum Kind compare(double is, double should_be) {
  return is == should_be ? kExact : fabs(is - should_be) < 2e-3 ? kRounded : kWrong;
}
/* Of `count` floats that should be those of a block. */
static enum Kind check(const float* block, int from, int to, int count) {
  enum Kind kind = kExact;
  for (int i = 0; i < count; ++i) {
    kind = worse(kind, compare(block[i], value_of(from, to, i)));
  }
  return kind;
}
/* Of the blocks of all other ranks in `out`, sent to `to`; the own one may have a kind of its own.
 */
static enum Kind check_others(int to) {
  enum Kind kind = kExact;
  for (int from = 0; from < ranks; ++from) {
    if (from != rank) {
      kind = worse(kind, check(out + from * values, from, to, values));
    }
  }
  return kind;
}
/* Of all ranks, the worst. */
static void say(const char* call, enum Kind kind) {
  static const char* const names[] = {"exact", "rounded", "wrong"};
  int mine = (int)kind;
  int all = 0;
  MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s %s\n", call, names[all]);
  }
}

static void fixed_forms(void) {
  fill();
  MPI_Alltoall(in, values, MPI_FLOAT, out, values, MPI_FLOAT, MPI_COMM_WORLD);
  say("alltoall", check_others(rank));
  say("alltoall_own", check(out + rank * values, rank, rank, values));
  fill();
  MPI_Alltoall(in, values, MPI_INT, out, values, MPI_INT, MPI_COMM_WORLD);
  say("alltoall_of_ints", check_others(rank));
  fill();
  /* Of one signature: two floats at a time here, one there. */
  MPI_Datatype pair;
  MPI_Type_vector(2, 1, 1, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  MPI_Alltoall(in,
               rank == 0 ? values / 2 : values,
               rank == 0 ? pair : MPI_FLOAT,
               out,
               values,
               MPI_FLOAT,
               MPI_COMM_WORLD);
  MPI_Type_free(&pair);
  say("alltoall_of_pairs", check_others(rank));
  fill();
  MPI_Allgather(in, values, MPI_FLOAT, out, values, MPI_FLOAT, MPI_COMM_WORLD);
  say("allgather", check_others(0));
  fill();
  MPI_Gather(in, values, MPI_FLOAT, out, values, MPI_FLOAT, 0, MPI_COMM_WORLD);
  say("gather", rank == 0 ? check_others(0) : kExact);
  fill();
  MPI_Scatter(in, values, MPI_FLOAT, out, values, MPI_FLOAT, 0, MPI_COMM_WORLD);
  say("scatter", rank != 0 ? check(out, 0, rank, values) : kExact);
  fill();
  MPI_Bcast(in, values, MPI_FLOAT, 0, MPI_COMM_WORLD);
  say("bcast", check(in, 0, 0, values));
}

/* Blocks of different lengths, and a rank without any, whose type says nothing. */
static void v_forms(void) {
  int* const lengths = malloc(sizeof(int) * (size_t)ranks);
  int* const places = malloc(sizeof(int) * (size_t)ranks);
  for (int r = 0; r < ranks; ++r) {
    lengths[r] = values - r;
    places[r] = r * values;
  }
  fill();
  MPI_Allgatherv(in, lengths[rank], MPI_FLOAT, out, lengths, places, MPI_FLOAT, MPI_COMM_WORLD);
  enum Kind kind = kExact;
  for (int r = 0; r < ranks; ++r) {
    kind = worse(kind, check(out + places[r], r, 0, lengths[r]));
  }
  say("allgatherv", kind);
  for (int form = 0; form < 2; ++form) {
    /* All but the last rank exchange; it has no type at all. */
    const int is_last = ranks > 2 && rank == ranks - 1;
    int* const counts = malloc(sizeof(int) * (size_t)ranks);
    for (int r = 0; r < ranks; ++r) {
      counts[r] = is_last || (ranks > 2 && r == ranks - 1) ? 0 : values;
    }
    const MPI_Datatype type = is_last ? MPI_BYTE : MPI_FLOAT;
    fill();
    if (form == 0) {
      MPI_Alltoallv(in, counts, places, type, out, counts, places, type, MPI_COMM_WORLD);
    } else {
      MPI_Request request;
      MPI_Ialltoallv(in, counts, places, type, out, counts, places, type, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    kind = kExact;
    for (int r = 0; r < ranks; ++r) {
      kind = r == rank ? kind : worse(kind, check(out + places[r], r, rank, counts[r]));
    }
    say(form == 0 ? "alltoallv" : "ialltoallv", kind);
    free(counts);
  }
  free(lengths);
  free(places);
}

/* Each peer gets every second double complex of a row: subarrays, as programs with FFTs have them.
 */
static void w_forms(void) {
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  int* const places = calloc((size_t)ranks, sizeof(int));
  MPI_Datatype* const types = malloc(sizeof(MPI_Datatype) * (size_t)ranks);
  double complex* const from = malloc(sizeof(double complex) * (size_t)(ranks * values));
  double complex* const to = malloc(sizeof(double complex) * (size_t)(ranks * values));
  for (int r = 0; r < ranks; ++r) {
    counts[r] = 1;
    const int sizes[2] = {values, ranks};
    const int parts[2] = {values, 1};
    const int starts[2] = {0, r};
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_C_DOUBLE_COMPLEX, &types[r]);
    MPI_Type_commit(&types[r]);
    for (int i = 0; i < values; ++i) {
      from[i * ranks + r] = value_of(rank, r, i) + I * value_of(r, rank, i);
    }
  }
  MPI_Alltoallw(from, counts, places, types, to, counts, places, types, MPI_COMM_WORLD);
  enum Kind kind = kExact;
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < values && r != rank; ++i) {
      kind = worse(kind, compare(creal(to[i * ranks + r]), value_of(r, rank, i)));
      kind = worse(kind, compare(cimag(to[i * ranks + r]), value_of(rank, r, i)));
    }
  }
  say("alltoallw", kind);
  /* Pairs of other types: with a block of ints somewhere, nothing is rounded. */
  for (int r = 0; r < ranks; ++r) {
    MPI_Type_free(&types[r]);
    counts[r] = values;
    places[r] = (int)sizeof(float) * r * values;
    types[r] = (r + rank) % 3 == 1 ? MPI_INT : MPI_FLOAT;
  }
  fill();
  MPI_Alltoallw(in, counts, places, types, out, counts, places, types, MPI_COMM_WORLD);
  say("alltoallw_of_several_types", check_others(rank));
  free(counts);
  free(places);
  free(types);
  free(from);
  free(to);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  values = argc > 1 ? atoi(argv[1]) : 4096;
  in = malloc(sizeof(float) * (size_t)values * (size_t)ranks);
  out = malloc(sizeof(float) * (size_t)values * (size_t)ranks);
  fixed_forms();
  v_forms();
  w_forms();
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
