/* Reductions that the library has not: operators of the program, pairs with places, scans. */
#include "cases.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Two by two matrices modulo a prime: their product does not commute. */
typedef struct {
  int of[4];
  int unused; /* no part of one of the types */
} Matrix;

enum { kPrime = 9973, kUntouched = -7 };

static Matrix matrix_of(int r, int i) {
  const Matrix made = {{r + 1, i % 50 + 1, 1, 2 * r + i % 7}, kUntouched};
  return made;
}

static void multiply_into(const int* a, int* b) {
  const int right[4] = {b[0], b[1], b[2], b[3]};
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      b[2 * row + column] =
          (a[2 * row] * right[column] + a[2 * row + 1] * right[2 + column]) % kPrime;
    }
  }
}

/* Of the ranks first to last. */
static Matrix product_over(int first, int last, int i) {
  Matrix result = matrix_of(last, i);
  for (int r = last - 1; r >= first; --r) {
    const Matrix left = matrix_of(r, i);
    multiply_into(left.of, result.of);
  }
  return result;
}

static MPI_Datatype matrix_type;
static int other_types;

/* Where the type ends before `unused`, the last one has no memory for it. */
static void multiply(void* in, void* in_out, int* count, MPI_Datatype* type) {
  const int stride = (int)(sizeof(Matrix) / sizeof(int));
  other_types += *type != matrix_type;
  for (int i = 0; i < *count; ++i) {
    multiply_into((const int*)in + i * stride, (int*)in_out + i * stride);
  }
}

static void expect_product(const Matrix* is, int first, int last, int i) {
  const Matrix expected = product_over(first, last, i);
  for (int k = 0; k < 4; ++k) {
    EQUAL(is->of[k], expected.of[k]);
  }
  EQUAL(is->unused, kUntouched);
}

static void fill(Matrix* matrices, int count, int is_input) {
  for (int i = 0; i < count; ++i) {
    if (is_input) {
      matrices[i] = matrix_of(rank, i);
    } else {
      for (int k = 0; k < 4; ++k) {
        matrices[i].of[k] = kUntouched;
      }
      matrices[i].unused = kUntouched;
    }
  }
}

static void products_of(int count, MPI_Op op) {
  const int all = count * ranks;
  Matrix* const in = malloc(sizeof(Matrix) * (size_t)(all + ranks * ranks));
  Matrix* const out = malloc(sizeof(Matrix) * (size_t)(all + ranks * ranks));
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  for (int in_place = 0; in_place < 2; ++in_place) {
    fill(in, all + ranks * ranks, 1);
    fill(out, all, in_place);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      expect_product(&out[i], 0, ranks - 1, i);
    }
    for (int root = 0; root < ranks; ++root) {
      const int is_in_place = in_place && rank == root;
      fill(out, all, is_in_place);
      MPI_Reduce(
          is_in_place ? MPI_IN_PLACE : in, out, count, matrix_type, op, root, MPI_COMM_WORLD);
      for (int i = 0; i < count && rank == root; ++i) {
        expect_product(&out[i], 0, ranks - 1, i);
      }
      EQUAL(rank == root || out[0].of[0] == kUntouched, 1);
    }
    fill(out, all, in_place);
    MPI_Scan(in_place ? MPI_IN_PLACE : in, out, count, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      expect_product(&out[i], 0, rank, i);
    }
    fill(out, all, in_place);
    MPI_Exscan(in_place ? MPI_IN_PLACE : in, out, count, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < count && rank > 0; ++i) {
      expect_product(&out[i], 0, rank - 1, i);
    }
    fill(out, all, in_place);
    MPI_Reduce_scatter_block(
        in_place ? MPI_IN_PLACE : in, out, count, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      expect_product(&out[i], 0, ranks - 1, rank * count + i);
    }
    int before = 0;
    for (int r = 0; r < ranks; ++r) {
      counts[r] = count + r;
      before += r < rank ? counts[r] : 0;
    }
    fill(out, all + ranks * ranks, in_place);
    MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : in, out, counts, matrix_type, op, MPI_COMM_WORLD);
    for (int i = 0; i < counts[rank]; ++i) {
      expect_product(&out[i], 0, ranks - 1, before + i);
    }
  }
  free(counts);
  free(in);
  free(out);
}

void operators_that_do_not_commute(void) {
  MPI_Op op;
  MPI_Op_create(&multiply, 0, &op);
  for (int gap = 0; gap < 2; ++gap) {
    if (gap) {
      MPI_Datatype four;
      MPI_Type_contiguous(4, MPI_INT, &four);
      MPI_Type_create_resized(four, 0, sizeof(Matrix), &matrix_type);
      MPI_Type_free(&four);
    } else {
      MPI_Type_contiguous(sizeof(Matrix) / sizeof(int), MPI_INT, &matrix_type);
    }
    MPI_Type_commit(&matrix_type);
    products_of(1, op);
    products_of(37, op);
    if (!gap) {
      /* Goes to the MPI. With the other type MPICH 5.0.2 overruns its memory. */
      products_of(5000, op);
    }
    MPI_Type_free(&matrix_type);
  }
  EQUAL(other_types, 0);
  MPI_Op_free(&op);
}

void pairs_of_every_type(void) {
#define PAIRS(c_type, mpi_type)                                                       \
  do {                                                                                \
    struct {                                                                          \
      c_type value;                                                                   \
      int place;                                                                      \
    } own[3], most[3], least[3];                                                      \
    for (int i = 0; i < 3; ++i) {                                                     \
      own[i].value = (c_type)((rank * 7 + i) % 5);                                    \
      own[i].place = 10 * rank + i;                                                   \
    }                                                                                 \
    MPI_Allreduce(own, most, 3, mpi_type, MPI_MAXLOC, MPI_COMM_WORLD);                \
    MPI_Scan(own, least, 3, mpi_type, MPI_MINLOC, MPI_COMM_WORLD);                    \
    for (int i = 0; i < 3; ++i) {                                                     \
      int first_most = 0;                                                             \
      int first_least = 0;                                                            \
      for (int r = 0; r < ranks; ++r) {                                               \
        first_most = (r * 7 + i) % 5 > (first_most * 7 + i) % 5 ? r : first_most;     \
        const int is_less = r <= rank && (r * 7 + i) % 5 < (first_least * 7 + i) % 5; \
        first_least = is_less ? r : first_least;                                      \
      }                                                                               \
      EQUAL(most[i].value, (first_most * 7 + i) % 5);                                 \
      EQUAL(most[i].place, 10 * first_most + i);                                      \
      EQUAL(least[i].value, (first_least * 7 + i) % 5);                               \
      EQUAL(least[i].place, 10 * first_least + i);                                    \
    }                                                                                 \
  } while (0)
  PAIRS(float, MPI_FLOAT_INT);
  PAIRS(double, MPI_DOUBLE_INT);
  PAIRS(long, MPI_LONG_INT);
  PAIRS(short, MPI_SHORT_INT);
  PAIRS(int, MPI_2INT);
  PAIRS(long double, MPI_LONG_DOUBLE_INT);
}

void scans_of_numbers(void) {
  for (int count = 1; count <= 30000; count *= 30) {
    int* const in = malloc(sizeof(int) * (size_t)count);
    long double* const wide = malloc(sizeof(long double) * (size_t)count);
    int* const out = malloc(sizeof(int) * (size_t)count);
    long double* const sums = malloc(sizeof(long double) * (size_t)count);
    for (int i = 0; i < count; ++i) {
      in[i] = rank + i;
      wide[i] = rank + i;
      out[i] = kUntouched;
    }
    MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      EQUAL(out[i], rank == 0 ? kUntouched : rank * (rank - 1) / 2 + rank * i);
    }
    MPI_Scan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(wide, sums, count, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      EQUAL(out[i], rank * (rank + 1) / 2 + (rank + 1) * i);
      EQUAL(sums[i], ranks * (ranks - 1) / 2 + ranks * i);
    }
    free(in);
    free(wide);
    free(out);
    free(sums);
  }
}

/* The operator of the program goes to the MPI, which knows how long it needs it. */
void nonblocking_reductions_of_all_kinds(void) {
  MPI_Request requests[4];
  MPI_Op op;
  const int own = rank + 1;
  int sum = kUntouched;
  int before = kUntouched;
  struct {
    int value;
    int place;
  } pair = {rank % 2, rank}, largest = {0, 0};
  Matrix matrix = matrix_of(rank, 3);
  Matrix product = matrix;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Type_contiguous(sizeof(Matrix) / sizeof(int), MPI_INT, &matrix_type);
  MPI_Type_commit(&matrix_type);
  MPI_Op_create(&multiply, 0, &op);
  MPI_Iscan(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
  MPI_Iexscan(&own, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  MPI_Iallreduce(&pair, &largest, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD, &requests[2]);
  MPI_Iallreduce(&matrix, &product, 1, matrix_type, op, MPI_COMM_WORLD, &requests[3]);
  MPI_Op_free(&op);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  MPI_Type_free(&matrix_type);
  EQUAL(sum, (rank + 1) * (rank + 2) / 2);
  EQUAL(before, rank == 0 ? kUntouched : rank * (rank + 1) / 2);
  EQUAL(largest.value, ranks > 1);
  EQUAL(largest.place, ranks > 1);
  expect_product(&product, 0, ranks - 1, 3);
}

#if MPI_VERSION >= 4
static void add(void* in, void* in_out, MPI_Count* count, MPI_Datatype* type) {
  (void)type;
  for (MPI_Count i = 0; i < *count; ++i) {
    ((int*)in_out)[i] += ((int*)in)[i];
  }
}
#endif

void operators_of_large_counts(void) {
#if MPI_VERSION >= 4
  MPI_Op op;
  const int own[2] = {rank, 2 * rank};
  int sums[2];
  MPI_Op_create_c(&add, 1, &op);
  MPI_Allreduce_c(own, sums, 2, MPI_INT, op, MPI_COMM_WORLD);
  EQUAL(sums[0], ranks * (ranks - 1) / 2);
  EQUAL(sums[1], ranks * (ranks - 1));
  MPI_Op_free(&op);
#endif
}

/* The first call of a program. */
void large_blocks_of_different_lengths(void) {
  enum { kMost = 30000 };
  int* const in = malloc(sizeof(int) * (size_t)((kMost + ranks) * ranks));
  int* const out = malloc(sizeof(int) * (size_t)(kMost + ranks));
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  for (int r = 0; r < ranks; ++r) {
    counts[r] = kMost + r;
  }
  for (int i = 0; i < (kMost + ranks) * ranks; ++i) {
    in[i] = rank;
  }
  MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < counts[rank]; ++i) {
    EQUAL(out[i], ranks * (ranks - 1) / 2);
  }
  free(in);
  free(out);
  free(counts);
}
