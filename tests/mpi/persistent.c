/* Persistent collectives: made once, in one order, and started in any. */
#include "cases.h"

#include <stdlib.h>

enum { kRounds = 3, kUntouched = -1 };

#define ELEMENT(from, to, i, round) ((((from) * 10 + (to)) * 10 + (i)) * 10 + (round))

static int sum_of_ranks(void) { return ranks * (ranks - 1) / 2; }

static MPI_Comm taken(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int call = 0; call < 3; ++call) {
    MPI_Barrier(comm);
  }
  return comm;
}

static MPI_Datatype integer_with_gap(void) {
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &type);
  MPI_Type_commit(&type);
  return type;
}

/* Each has buffers of its own, which change between the rounds. Types are freed before the
 * first start (Open MPI's own calls do not bear that of the communicator), and odd ranks start them
 * in the opposite order. */
void persistent_calls_start_in_any_order(void) {
  enum { kCalls = 12, kEach = 3 };
  const int all = 2 * kEach * ranks;
  const int root = ranks - 1;
  MPI_Comm comm = taken();
  MPI_Datatype gap = integer_with_gap();
  MPI_Request requests[kCalls];
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  int* const places = malloc(sizeof(int) * (size_t)ranks);
  int* in[kCalls];
  int* out[kCalls];
  for (int call = 0; call < kCalls; ++call) {
    in[call] = malloc(sizeof(int) * (size_t)all);
    out[call] = malloc(sizeof(int) * (size_t)all);
  }
  for (int r = 0; r < ranks; ++r) {
    counts[r] = kEach;
    places[r] = kEach * r;
  }
  const MPI_Info none = MPI_INFO_NULL;
  MPI_Request* q = requests;
  MPI_Allreduce_init(in[0], out[0], all, MPI_INT, MPI_SUM, comm, none, q++);
  MPI_Reduce_init(in[1], out[1], all, MPI_INT, MPI_MAX, root, comm, none, q++);
  MPI_Bcast_init(out[2], kEach * ranks, gap, root, comm, none, q++);
  MPI_Allgather_init(in[3], kEach, gap, out[3], kEach, gap, comm, none, q++);
  MPI_Allgatherv_init(in[4], kEach, gap, out[4], counts, places, gap, comm, none, q++);
  MPI_Alltoall_init(MPI_IN_PLACE, 0, gap, out[5], kEach, gap, comm, none, q++);
  MPI_Alltoallv_init(MPI_IN_PLACE, NULL, NULL, gap, out[6], counts, places, gap, comm, none, q++);
  MPI_Gather_init(in[7], kEach, gap, out[7], kEach, gap, root, comm, none, q++);
  MPI_Scatter_init(in[8], kEach, gap, out[8], kEach, gap, root, comm, none, q++);
  MPI_Reduce_scatter_block_init(in[9], out[9], 2 * kEach, MPI_INT, MPI_MIN, comm, none, q++);
  MPI_Exscan_init(in[10], out[10], all, MPI_INT, MPI_SUM, comm, none, q++);
  MPI_Barrier_init(comm, none, q++);
  EQUAL(q - requests, kCalls);
  MPI_Type_free(&gap);
  for (int call = 0; call < kCalls; ++call) {
    for (int round = 0; round < kRounds && call == 0; ++round) {
      for (int c = 0; c < kCalls; ++c) {
        for (int i = 0; i < all; ++i) {
          in[c][i] = ELEMENT(rank, i / 2 / kEach, i / 2 % kEach, round);
          const int is_input = c == 5 || c == 6 || (c == 2 && rank == root);
          out[c][i] = is_input ? in[c][i] : kUntouched;
        }
      }
      if (rank % 2 == 0) {
        MPI_Startall(kCalls, requests);
      } else {
        for (int c = kCalls - 1; c >= 0; --c) {
          MPI_Start(&requests[c]);
        }
      }
      MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
      for (int i = 0; i < all; ++i) {
        const int to = i / 2 / kEach;
        const int at = i / 2 % kEach;
        const int is_data = i % 2 == 0;
        const int before = rank * (rank - 1) / 2;
        EQUAL(out[0][i], 1000 * sum_of_ranks() + ranks * ELEMENT(0, to, at, round));
        EQUAL(out[1][i], rank == root ? ELEMENT(root, to, at, round) : kUntouched);
        EQUAL(out[2][i], is_data || rank == root ? ELEMENT(root, to, at, round) : kUntouched);
        EQUAL(out[3][i], is_data ? ELEMENT(to, 0, at, round) : kUntouched);
        EQUAL(out[4][i], is_data ? ELEMENT(to, 0, at, round) : kUntouched);
        EQUAL(out[5][i], is_data ? ELEMENT(to, rank, at, round) : ELEMENT(rank, to, at, round));
        EQUAL(out[6][i], is_data ? ELEMENT(to, rank, at, round) : ELEMENT(rank, to, at, round));
        EQUAL(out[7][i], is_data && rank == root ? ELEMENT(to, 0, at, round) : kUntouched);
        EQUAL(out[8][i], is_data && to == 0 ? ELEMENT(root, rank, at, round) : kUntouched);
        EQUAL(out[9][i], to == 0 ? ELEMENT(0, rank, at, round) : kUntouched);
        EQUAL(out[10][i],
              rank == 0 ? kUntouched : 1000 * before + rank * ELEMENT(0, to, at, round));
      }
    }
    MPI_Request_free(&requests[call]);
    EQUAL(requests[call] == MPI_REQUEST_NULL, 1);
    free(in[call]);
    free(out[call]);
  }
  MPI_Comm_free(&comm);
  free(counts);
  free(places);
}

/* In one array with messages, persistent and not, and a nonblocking collective. */
void persistent_calls_among_other_requests(void) {
  enum { kAll = 6 };
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  MPI_Request requests[kAll];
  int words[2];
  int sums[2];
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce_init(
      &rank, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Recv_init(&words[0], 1, MPI_INT, before, 5, MPI_COMM_WORLD, &requests[1]);
  MPI_Send_init(&rank, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[2]);
  for (int round = 0; round < 100; ++round) {
    int indices[kAll];
    int ended = 0;
    words[0] = words[1] = sums[0] = sums[1] = kUntouched;
    MPI_Startall(3, requests);
    MPI_Irecv(&words[1], 1, MPI_INT, before, 6, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(&rank, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &requests[4]);
    MPI_Iallreduce(&rank, &sums[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[5]);
    while (ended < kAll) {
      int some = 0;
      if (round % 3 == 0) {
        MPI_Waitall(kAll, requests, MPI_STATUSES_IGNORE);
        some = kAll;
      } else if (round % 3 == 1) {
        MPI_Waitsome(kAll, requests, &some, indices, MPI_STATUSES_IGNORE);
      } else {
        int flag = 0;
        MPI_Testany(kAll, requests, &indices[0], &flag, MPI_STATUS_IGNORE);
        some = flag && indices[0] != MPI_UNDEFINED;
      }
      ended += some;
    }
    for (int i = 0; i < 2; ++i) {
      EQUAL(words[i], before);
      EQUAL(sums[i], sum_of_ranks());
    }
  }
  for (int i = 0; i < 3; ++i) {
    MPI_Request_free(&requests[i]);
  }
}

/* More than get an engine; those that do not are the MPI's. */
void many_persistent_calls(void) {
  enum { kCalls = 80 };
  MPI_Request requests[kCalls];
  int in[kCalls];
  int out[kCalls];
  MPI_Barrier(MPI_COMM_WORLD);
  for (int call = 0; call < kCalls; ++call) {
    in[call] = rank + call;
    MPI_Allreduce_init(
        &in[call], &out[call], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[call]);
  }
  MPI_Startall(kCalls, requests);
  MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE);
  for (int call = 0; call < kCalls; ++call) {
    EQUAL(out[call], sum_of_ranks() + ranks * call);
    MPI_Request_free(&requests[call]);
  }
}

/* Each takes over what earlier ones had: two at a time, which odd ranks free in the opposite order,
 * some never started. */
void persistent_calls_one_after_another(void) {
  enum { kPairs = 60, kAtOnce = 2 };
  MPI_Comm comm = taken();
  MPI_Request left;
  int of_left[2] = {rank, kUntouched};
  MPI_Allreduce_init(&of_left[0], &of_left[1], 1, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &left);
  for (int pair = 0; pair < kPairs; ++pair) {
    MPI_Request requests[kAtOnce];
    int in[kAtOnce];
    int out[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      in[i] = 10 * pair + rank + i;
      out[i] = kUntouched;
      MPI_Allreduce_init(&in[i], &out[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]);
    }
    if (pair % 3 != 2) {
      MPI_Startall(kAtOnce, requests);
      MPI_Waitall(kAtOnce, requests, MPI_STATUSES_IGNORE);
      EQUAL(out[0], 10 * pair * ranks + sum_of_ranks());
      EQUAL(out[1], out[0] + ranks);
    }
    MPI_Request_free(&requests[rank % 2]);
    MPI_Request_free(&requests[1 - rank % 2]);
    if (pair % 10 == 0) {
      of_left[1] = kUntouched;
      MPI_Start(&left);
      MPI_Wait(&left, MPI_STATUS_IGNORE);
      EQUAL(of_left[1], ranks - 1);
    }
  }
  MPI_Request_free(&left);
  MPI_Comm_free(&comm);
}

/* Ranks mean different lengths; the next request has nothing of that. */
void persistent_calls_that_fail(void) {
  MPI_Comm comm = taken();
  MPI_Request request;
  int in[2] = {rank, rank};
  int* const out = calloc((size_t)(2 * ranks), sizeof(int));
  const int count = rank == 0 ? 2 : 1;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Allgather_init(in, count, MPI_INT, out, count, MPI_INT, comm, MPI_INFO_NULL, &request);
  int code = MPI_Start(&request);
  if (code == MPI_SUCCESS) {
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  EQUAL(error_class, MPI_ERR_TRUNCATE);
  MPI_Request_free(&request);
  MPI_Allgather_init(in, 2, MPI_INT, out, 2, MPI_INT, comm, MPI_INFO_NULL, &request);
  EQUAL(MPI_Start(&request), MPI_SUCCESS);
  EQUAL(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EQUAL(out[2 * ranks - 1], ranks - 1);
  MPI_Request_free(&request);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_free(&comm);
  free(out);
}
