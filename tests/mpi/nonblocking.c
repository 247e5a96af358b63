/* Nonblocking collectives, which end as requests of the MPI among others. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#define ELEMENT(from, to, i) (((from) * 100 + (to)) * 1000 + (i))

static int sum_of_ranks(void) { return ranks * (ranks - 1) / 2; }

/* Only blocking calls make ranks synchronize, so one has to come before others are taken. */
static void meet(MPI_Comm comm) {
  for (int call = 0; call < 3; ++call) {
    MPI_Barrier(comm);
  }
}

static MPI_Datatype integer_with_gap(void) {
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &type);
  MPI_Type_commit(&type);
  return type;
}

/* All of them at once, into elements of their own; types and communicator are freed before the end,
 * as MPI allows. */
void every_nonblocking_form(void) {
  enum { kCalls = 14, kEach = 3 };
  const int all = 2 * kEach * ranks;
  MPI_Datatype gap = integer_with_gap();
  MPI_Comm comm;
  MPI_Request requests[kCalls];
  MPI_Datatype* const types = malloc(sizeof(MPI_Datatype) * (size_t)ranks);
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  int* const places = malloc(sizeof(int) * (size_t)ranks);
  int* const offsets = malloc(sizeof(int) * (size_t)ranks);
  int* const in = malloc(sizeof(int) * (size_t)all);
  int* out[kCalls];
  const int root = ranks - 1;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  meet(comm);
  for (int i = 0; i < all; ++i) {
    in[i] = ELEMENT(rank, i / 2 / kEach, i / 2 % kEach);
  }
  for (int call = 0; call < kCalls; ++call) {
    out[call] = malloc(sizeof(int) * (size_t)all);
    memset(out[call], 0xff, sizeof(int) * (size_t)all);
  }
  for (int r = 0; r < ranks; ++r) {
    types[r] = gap;
    counts[r] = kEach;
    places[r] = kEach * r;
    offsets[r] = 2 * kEach * r * (int)sizeof(int);
  }
  if (rank == root) {
    memcpy(out[2], in, sizeof(int) * (size_t)all);
  }
  int n = 0;
  MPI_Iallreduce(in, out[n], all, MPI_INT, MPI_SUM, comm, &requests[n]);
  ++n;
  MPI_Ireduce(in, out[n], all, MPI_INT, MPI_MAX, root, comm, &requests[n]);
  ++n;
  MPI_Ibcast(out[n], kEach * ranks, gap, root, comm, &requests[n]);
  ++n;
  MPI_Iallgather(in, kEach, gap, out[n], kEach, gap, comm, &requests[n]);
  ++n;
  MPI_Iallgatherv(in, kEach, gap, out[n], counts, places, gap, comm, &requests[n]);
  ++n;
  MPI_Ialltoall(in, kEach, gap, out[n], kEach, gap, comm, &requests[n]);
  ++n;
  MPI_Ialltoallv(in, counts, places, gap, out[n], counts, places, gap, comm, &requests[n]);
  ++n;
  MPI_Ialltoallw(in, counts, offsets, types, out[n], counts, offsets, types, comm, &requests[n]);
  ++n;
  MPI_Igather(in, kEach, gap, out[n], kEach, gap, root, comm, &requests[n]);
  ++n;
  MPI_Igatherv(in, kEach, gap, out[n], counts, places, gap, root, comm, &requests[n]);
  ++n;
  MPI_Iscatter(in, kEach, gap, out[n], kEach, gap, root, comm, &requests[n]);
  ++n;
  MPI_Iscatterv(in, counts, places, gap, out[n], kEach, gap, root, comm, &requests[n]);
  ++n;
  MPI_Ireduce_scatter_block(in, out[n], 2 * kEach, MPI_INT, MPI_MIN, comm, &requests[n]);
  ++n;
  MPI_Ibarrier(comm, &requests[n]);
  ++n;
  EQUAL(n, kCalls);
  MPI_Type_free(&gap);
  MPI_Comm_free(&comm);
  MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < all; ++i) {
    const int to = i / 2 / kEach;
    const int at = i / 2 % kEach;
    const int is_data = i % 2 == 0;
    EQUAL(out[0][i], 100000 * sum_of_ranks() + ranks * ELEMENT(0, to, at));
    EQUAL(out[1][i], rank == root ? ELEMENT(root, to, at) : -1);
    EQUAL(out[2][i], is_data || rank == root ? ELEMENT(root, to, at) : -1);
    EQUAL(out[3][i], is_data ? ELEMENT(to, 0, at) : -1);
    EQUAL(out[4][i], is_data ? ELEMENT(to, 0, at) : -1);
    EQUAL(out[5][i], is_data ? ELEMENT(to, rank, at) : -1);
    EQUAL(out[6][i], is_data ? ELEMENT(to, rank, at) : -1);
    EQUAL(out[7][i], is_data ? ELEMENT(to, rank, at) : -1);
    EQUAL(out[8][i], is_data && rank == root ? ELEMENT(to, 0, at) : -1);
    EQUAL(out[9][i], is_data && rank == root ? ELEMENT(to, 0, at) : -1);
    EQUAL(out[10][i], is_data && to == 0 ? ELEMENT(root, rank, at) : -1);
    EQUAL(out[11][i], is_data && to == 0 ? ELEMENT(root, rank, at) : -1);
    EQUAL(out[12][i], to == 0 ? ELEMENT(0, rank, at) : -1);
  }
  for (int call = 0; call < kCalls; ++call) {
    free(out[call]);
  }
  free(in);
  free(types);
  free(counts);
  free(places);
  free(offsets);
}

/* A rank waits in MPI_Recv for one that first wants to see its nonblocking call end. */
void nonblocking_calls_end_while_a_rank_receives(void) {
  int sum = -1;
  int word = 0;
  MPI_Request request;
  meet(MPI_COMM_WORLD);
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank == 0) {
    for (int other = 1; other < ranks; ++other) {
      MPI_Recv(&word, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      EQUAL(word, other);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send(&rank, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
  }
  EQUAL(sum, sum_of_ranks());
}

/* A large one, of which no rank has all its data at once. */
void large_nonblocking_calls_end_while_a_rank_receives(void) {
  enum { kCount = 3 << 20 };
  int* const in = malloc(sizeof(int) * kCount);
  int* const out = malloc(sizeof(int) * kCount);
  for (int i = 0; i < kCount; ++i) {
    in[i] = rank + i % 7;
  }
  int word = 0;
  MPI_Request request;
  meet(MPI_COMM_WORLD);
  MPI_Iallreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank == 0) {
    for (int other = 1; other < ranks; ++other) {
      MPI_Recv(&word, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
  }
  for (int i = 0; i < kCount; ++i) {
    EQUAL(out[i], sum_of_ranks() + ranks * (i % 7));
  }
  free(in);
  free(out);
}

/* Requests of collectives and of messages in one array, by every way to wait for them. */
void requests_of_all_kinds_together(void) {
  enum { kCalls = 20, kAll = 3 * kCalls };
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  meet(MPI_COMM_WORLD);
  for (int way = 0; way < 5; ++way) {
    MPI_Request requests[kAll];
    MPI_Status statuses[kAll];
    int indices[kAll];
    int sums[kCalls];
    int own[kCalls];
    int words[kCalls];
    for (int i = 0; i < kCalls; ++i) {
      own[i] = rank + i;
      MPI_Iallreduce(&own[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3 * i]);
      MPI_Irecv(&words[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &requests[3 * i + 1]);
      MPI_Isend(&own[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[3 * i + 2]);
    }
    int ended = 0;
    while (ended < kAll) {
      int some = 0;
      int flag = 0;
      if (way == 0) {
        MPI_Waitall(kAll, requests, statuses);
        some = kAll;
      } else if (way == 1) {
        MPI_Waitany(kAll, requests, &indices[0], statuses);
        some = indices[0] != MPI_UNDEFINED;
      } else if (way == 2) {
        MPI_Testsome(kAll, requests, &some, indices, statuses);
      } else if (way == 3) {
        MPI_Testany(kAll, requests, &indices[0], &flag, statuses);
        some = flag && indices[0] != MPI_UNDEFINED;
      } else {
        MPI_Request_get_status(requests[ended], &flag, statuses);
        if (flag) {
          MPI_Test(&requests[ended], &flag, statuses);
          EQUAL(flag, 1);
        }
        some = flag;
      }
      ended += some;
    }
    EQUAL(ended, kAll);
    for (int i = 0; i < kAll; ++i) {
      EQUAL(requests[i] == MPI_REQUEST_NULL, 1);
    }
    for (int i = 0; i < kCalls; ++i) {
      EQUAL(sums[i], sum_of_ranks() + ranks * i);
      EQUAL(words[i], before + i);
    }
  }
}
