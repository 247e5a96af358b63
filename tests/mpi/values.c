/* The collectives by their values. Inputs tell rank and index; results are closed formulas. */
#include "cases.h"

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 37, kLong = 30011 };

/* Small enough that sums and products of up to four ranks are exact in every type. */
#define INPUT(r, i) (1 + ((r) + (i)) % 3)

static long long folded(MPI_Op op, int i) {
  long long value = INPUT(0, i);
  for (int r = 1; r < ranks; ++r) {
    const long long next = INPUT(r, i);
    value = op == MPI_SUM    ? value + next
            : op == MPI_PROD ? value * next
            : op == MPI_MIN  ? (next < value ? next : value)
            : op == MPI_MAX  ? (next > value ? next : value)
            : op == MPI_BAND ? (value & next)
            : op == MPI_BOR  ? (value | next)
            : op == MPI_BXOR ? (value ^ next)
            : op == MPI_LAND ? (value && next)
            : op == MPI_LOR  ? (value || next)
                             : (!value != !next);
  }
  return value;
}

#define REDUCTIONS(c_type, mpi_type, ...)                                              \
  do {                                                                                 \
    const MPI_Op ops[] = {__VA_ARGS__};                                                \
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); ++o) {                        \
      for (int count = 1; count <= kLong; count = count == 1 ? kCount : count * 811) { \
        c_type* in = malloc(sizeof(c_type) * (size_t)(count * ranks));                 \
        c_type* out = malloc(sizeof(c_type) * (size_t)(count * ranks));                \
        for (int i = 0; i < count * ranks; ++i) {                                      \
          in[i] = (c_type)INPUT(rank, i);                                              \
        }                                                                              \
        MPI_Allreduce(in, out, count, mpi_type, ops[o], MPI_COMM_WORLD);               \
        for (int i = 0; i < count; ++i) {                                              \
          EQUAL(out[i], folded(ops[o], i));                                            \
        }                                                                              \
        const int root = (int)o % ranks;                                               \
        MPI_Reduce(in, out, count, mpi_type, ops[o], root, MPI_COMM_WORLD);            \
        for (int i = 0; i < count && rank == root; ++i) {                              \
          EQUAL(out[i], folded(ops[o], i));                                            \
        }                                                                              \
        MPI_Reduce_scatter_block(in, out, count, mpi_type, ops[o], MPI_COMM_WORLD);    \
        for (int i = 0; i < count; ++i) {                                              \
          EQUAL(out[i], folded(ops[o], rank * count + i));                             \
        }                                                                              \
        free(in);                                                                      \
        free(out);                                                                     \
      }                                                                                \
    }                                                                                  \
  } while (0)
#define OF_NUMBERS MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX
#define OF_INTEGERS OF_NUMBERS, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR

void reductions_of_every_type(void) {
  REDUCTIONS(signed char, MPI_SIGNED_CHAR, OF_INTEGERS);
  REDUCTIONS(unsigned char, MPI_UNSIGNED_CHAR, OF_INTEGERS);
  REDUCTIONS(short, MPI_SHORT, OF_INTEGERS);
  REDUCTIONS(unsigned short, MPI_UNSIGNED_SHORT, OF_INTEGERS);
  REDUCTIONS(int, MPI_INT, OF_INTEGERS);
  REDUCTIONS(unsigned, MPI_UNSIGNED, OF_INTEGERS);
  REDUCTIONS(long, MPI_LONG, OF_INTEGERS);
  REDUCTIONS(unsigned long, MPI_UNSIGNED_LONG, OF_INTEGERS);
  REDUCTIONS(long long, MPI_LONG_LONG, OF_INTEGERS);
  REDUCTIONS(unsigned long long, MPI_UNSIGNED_LONG_LONG, OF_INTEGERS);
  REDUCTIONS(int8_t, MPI_INT8_T, OF_INTEGERS);
  REDUCTIONS(int16_t, MPI_INT16_T, OF_INTEGERS);
  REDUCTIONS(int32_t, MPI_INT32_T, OF_INTEGERS);
  REDUCTIONS(int64_t, MPI_INT64_T, OF_INTEGERS);
  REDUCTIONS(uint8_t, MPI_UINT8_T, OF_INTEGERS);
  REDUCTIONS(uint16_t, MPI_UINT16_T, OF_INTEGERS);
  REDUCTIONS(uint32_t, MPI_UINT32_T, OF_INTEGERS);
  REDUCTIONS(uint64_t, MPI_UINT64_T, OF_INTEGERS);
  REDUCTIONS(MPI_Aint, MPI_AINT, OF_NUMBERS, MPI_BAND);
  REDUCTIONS(MPI_Count, MPI_COUNT, OF_NUMBERS, MPI_BOR);
  REDUCTIONS(float, MPI_FLOAT, OF_NUMBERS);
  REDUCTIONS(double, MPI_DOUBLE, OF_NUMBERS);
  REDUCTIONS(long double, MPI_LONG_DOUBLE, OF_NUMBERS);
  REDUCTIONS(float complex, MPI_C_FLOAT_COMPLEX, MPI_SUM, MPI_PROD);
  REDUCTIONS(double complex, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_PROD);
  REDUCTIONS(bool, MPI_C_BOOL, MPI_LAND, MPI_LOR, MPI_LXOR);
  REDUCTIONS(unsigned char, MPI_BYTE, MPI_BAND, MPI_BOR, MPI_BXOR);
}

void reductions_in_place(void) {
  enum { kRanksMost = 16 };
  int values[kCount * kRanksMost];
  const int all = kCount * ranks;
  for (int i = 0; i < all; ++i) {
    values[i] = INPUT(rank, i);
  }
  MPI_Allreduce(MPI_IN_PLACE, values, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kCount; ++i) {
    EQUAL(values[i], folded(MPI_SUM, i));
  }
  for (int root = 0; root < ranks; ++root) {
    int sums[kCount];
    for (int i = 0; i < kCount; ++i) {
      values[i] = INPUT(rank, i);
    }
    MPI_Reduce(rank == root ? MPI_IN_PLACE : values,
               rank == root ? values : sums,
               kCount,
               MPI_INT,
               MPI_SUM,
               root,
               MPI_COMM_WORLD);
    for (int i = 0; i < kCount; ++i) {
      EQUAL(values[i], rank == root ? folded(MPI_SUM, i) : INPUT(rank, i));
    }
  }
  int counts[kRanksMost];
  for (int r = 0; r < ranks; ++r) {
    counts[r] = kCount;
  }
  for (int form = 0; form < 2; ++form) {
    for (int i = 0; i < all; ++i) {
      values[i] = INPUT(rank, i);
    }
    if (form == 0) {
      MPI_Reduce_scatter_block(MPI_IN_PLACE, values, kCount, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    } else {
      MPI_Reduce_scatter(MPI_IN_PLACE, values, counts, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    for (int i = 0; i < all; ++i) {
      EQUAL(values[i], i < kCount ? folded(MPI_MAX, rank * kCount + i) : INPUT(rank, i));
    }
  }
  /* Different counts go to the MPI. */
  int sums[kCount * kRanksMost];
  int before = 0;
  for (int r = 0; r < ranks; ++r) {
    counts[r] = r + 1;
    before += r < rank ? r + 1 : 0;
  }
  for (int i = 0; i < all; ++i) {
    values[i] = INPUT(rank, i);
  }
  MPI_Reduce_scatter(values, sums, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < counts[rank]; ++i) {
    EQUAL(sums[i], folded(MPI_SUM, before + i));
  }
}

/* Of rank `from` to rank `to`. */
#define ELEMENT(from, to, i) (((from) * 100 + (to)) * 100000 + (i))

void moves_at_every_root(void) {
  for (int count = 1; count <= kLong; count = count == 1 ? kCount : count * 811) {
    int* in = malloc(sizeof(int) * (size_t)(count * ranks));
    int* out = malloc(sizeof(int) * (size_t)(count * ranks));
    for (int to = 0; to < ranks; ++to) {
      for (int i = 0; i < count; ++i) {
        in[to * count + i] = ELEMENT(rank, to, i);
      }
    }
    MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; ++from) {
      for (int i = 0; i < count; ++i) {
        EQUAL(out[from * count + i], ELEMENT(from, rank, i));
      }
    }
    MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; ++from) {
      for (int i = 0; i < count; ++i) {
        EQUAL(out[from * count + i], ELEMENT(from, 0, i));
      }
    }
    for (int root = 0; root < ranks; ++root) {
      memset(out, 0, sizeof(int) * (size_t)(count * ranks));
      MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, root, MPI_COMM_WORLD);
      for (int from = 0; from < ranks; ++from) {
        for (int i = 0; i < count; ++i) {
          EQUAL(out[from * count + i], rank == root ? ELEMENT(from, 0, i) : 0);
        }
      }
      MPI_Scatter(in, count, MPI_INT, out, count, MPI_INT, root, MPI_COMM_WORLD);
      for (int i = 0; i < count; ++i) {
        EQUAL(out[i], ELEMENT(root, rank, i));
      }
      for (int i = 0; i < count; ++i) {
        out[i] = rank == root ? ELEMENT(root, root, i) : -1;
      }
      MPI_Bcast(out, count, MPI_INT, root, MPI_COMM_WORLD);
      for (int i = 0; i < count; ++i) {
        EQUAL(out[i], ELEMENT(root, root, i));
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
    free(in);
    free(out);
  }
}

void moves_in_place(void) {
  int* all = malloc(sizeof(int) * (size_t)(kCount * ranks));
  for (int i = 0; i < kCount; ++i) {
    all[rank * kCount + i] = ELEMENT(rank, 0, i);
  }
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, kCount, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < kCount; ++i) {
      EQUAL(all[from * kCount + i], ELEMENT(from, 0, i));
      all[from * kCount + i] = ELEMENT(rank, from, i);
    }
  }
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, kCount, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < kCount; ++i) {
      EQUAL(all[from * kCount + i], ELEMENT(from, rank, i));
    }
  }
  for (int root = 0; root < ranks; ++root) {
    int own[kCount];
    for (int i = 0; i < kCount; ++i) {
      own[i] = ELEMENT(rank, root, i);
      all[rank * kCount + i] = own[i];
    }
    if (rank == root) {
      MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, kCount, MPI_INT, root, MPI_COMM_WORLD);
      for (int i = 0; i < kCount * ranks; ++i) {
        EQUAL(all[i], ELEMENT(i / kCount, root, i % kCount));
      }
      MPI_Scatter(all, kCount, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
      for (int i = 0; i < kCount * ranks; ++i) {
        EQUAL(all[i], ELEMENT(i / kCount, root, i % kCount));
      }
    } else {
      MPI_Gather(own, kCount, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
      memset(own, 0, sizeof(own));
      MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, own, kCount, MPI_INT, root, MPI_COMM_WORLD);
      for (int i = 0; i < kCount; ++i) {
        EQUAL(own[i], ELEMENT(rank, root, i));
      }
    }
  }
  free(all);
}

void nothing_at_all(void) {
  int own = rank;
  int all = -1;
  int* const zeros = calloc((size_t)ranks, sizeof(int));
  MPI_Allreduce(&own, &all, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoallv(NULL, zeros, zeros, MPI_INT, NULL, zeros, zeros, MPI_INT, MPI_COMM_WORLD);
  MPI_Gatherv(NULL, 0, MPI_INT, NULL, zeros, zeros, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  EQUAL(all, -1);
  free(zeros);
}

void large_counts(void) {
#if MPI_VERSION >= 4
  /* Open MPI 5 tells version 3.1 and has none of these. */
  enum { kBlock = 5 };
  int* in = malloc(sizeof(int) * (size_t)(kBlock * ranks));
  int* out = malloc(sizeof(int) * (size_t)(kBlock * ranks));
  MPI_Count* counts = malloc(sizeof(MPI_Count) * (size_t)ranks);
  MPI_Aint* places = malloc(sizeof(MPI_Aint) * (size_t)ranks);
  for (int to = 0; to < ranks; ++to) {
    counts[to] = kBlock;
    places[to] = (MPI_Aint)kBlock * (ranks - 1 - to);
    for (int i = 0; i < kBlock; ++i) {
      in[kBlock * (ranks - 1 - to) + i] = ELEMENT(rank, to, i);
    }
  }
  MPI_Alltoallv_c(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < kBlock; ++i) {
      EQUAL(out[kBlock * (ranks - 1 - from) + i], ELEMENT(from, rank, i));
    }
  }
  for (int i = 0; i < kBlock; ++i) {
    in[i] = INPUT(rank, i);
  }
  MPI_Allreduce_c(in, out, kBlock, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kBlock; ++i) {
    EQUAL(out[i], folded(MPI_SUM, i));
  }
  free(in);
  free(out);
  free(counts);
  free(places);
#endif
}
