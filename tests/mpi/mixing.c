/* Calls that the library takes beside those that it passes on. */
#include "cases.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The left one of two: associative, as MPI wants it, and not commutative. */
static void take_left(void* in, void* in_out, int* count, MPI_Datatype* type) {
  (void)type;
  memcpy(in_out, in, sizeof(int) * (size_t)*count);
}

static int sum_of_ranks(int members) { return members * (members - 1) / 2; }

static int sum_over(MPI_Comm comm) {
  int own = 0;
  int sum = -1;
  MPI_Comm_rank(comm, &own);
  MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

void operators_of_the_program(void) {
  MPI_Op op;
  MPI_Op_create(&take_left, 0, &op);
  for (int round = 0; round < 3; ++round) {
    const int own = rank + 1;
    int result = 0;
    MPI_Reduce(&own, &result, 1, MPI_INT, op, 0, MPI_COMM_WORLD);
    EQUAL(result, rank == 0 ? 1 : 0);
    EQUAL(sum_over(MPI_COMM_WORLD), sum_of_ranks(ranks));
    MPI_Allreduce(&own, &result, 1, MPI_INT, op, MPI_COMM_WORLD);
    EQUAL(result, 1);
  }
  MPI_Op_free(&op);
}

void pairs_with_places(void) {
  const struct {
    double value;
    int place;
  } own = {(rank * 7) % 5, rank}, nothing = {-1, -1};
  struct {
    double value;
    int place;
  } largest = {nothing.value, nothing.place};
  double most = -1;
  for (int r = 0; r < ranks; ++r) {
    most = (r * 7) % 5 > most ? (r * 7) % 5 : most;
  }
  MPI_Allreduce(&own, &largest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  EQUAL(largest.value, most);
  EQUAL((largest.place * 7) % 5, most);
}

void nonblocking_beside_blocking(void) {
  enum { kRounds = 50 };
  for (int round = 0; round < kRounds; ++round) {
    int own = rank + round;
    int sum = -1;
    int told = rank == round % ranks ? round : -1;
    MPI_Request requests[2];
    MPI_Iallreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    EQUAL(sum_over(MPI_COMM_WORLD), sum_of_ranks(ranks));
    MPI_Ibcast(&told, 1, MPI_INT, round % ranks, MPI_COMM_WORLD, &requests[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    EQUAL(sum, sum_of_ranks(ranks) + ranks * round);
    EQUAL(told, round);
  }
}

/* A rank waits in the library for one that waits in the MPI for the first one's message, which
 * moves only while the first is within the MPI. */
void messages_move_in_a_barrier(void) {
  enum { kBytes = 64 << 20 };
  char* const memory = calloc(kBytes, 1);
  if (rank == 0) {
    MPI_Request request;
    memset(memory, 3, kBytes);
    MPI_Isend(memory, kBytes, MPI_CHAR, ranks - 1, 0, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == ranks - 1) {
    MPI_Recv(memory, kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EQUAL(memory[0], 3);
    EQUAL(memory[kBytes - 1], 3);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(memory);
}

void refused_arguments(void) {
  MPI_Errhandler before;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int value = rank;
  int class_of = MPI_SUCCESS;
  MPI_Error_class(MPI_Bcast(&value, 1, MPI_INT, ranks, MPI_COMM_WORLD), &class_of);
  EQUAL(class_of, MPI_ERR_ROOT);
  MPI_Error_class(MPI_Bcast(&value, -1, MPI_INT, 0, MPI_COMM_WORLD), &class_of);
  EQUAL(class_of, MPI_ERR_COUNT);
  MPI_Error_class(MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD), &class_of);
  EQUAL(class_of, MPI_ERR_TYPE);
  EQUAL(sum_over(MPI_COMM_WORLD), sum_of_ranks(ranks));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
  MPI_Errhandler_free(&before);
}

void communicators_of_any_making(void) {
  MPI_Comm halves;
  MPI_Comm backwards;
  MPI_Comm node;
  MPI_Comm two_sided;
  MPI_Comm ring;
  const int period = 1;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &halves);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &ring);
  for (int round = 0; round < 5; ++round) {
    int first = rank;
    EQUAL(sum_over(halves), sum_of_ranks((ranks + 1 - rank % 2) / 2));
    EQUAL(sum_over(backwards), sum_of_ranks(ranks));
    EQUAL(sum_over(node), sum_of_ranks(ranks));
    EQUAL(sum_over(ring), sum_of_ranks(ranks));
    EQUAL(sum_over(MPI_COMM_SELF), 0);
    MPI_Bcast(&first, 1, MPI_INT, 0, backwards);
    EQUAL(first, ranks - 1);
  }
  if (ranks > 1) {
    MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &two_sided);
    for (int round = 0; round < 5; ++round) {
      /* Of the ranks of the other side. */
      EQUAL(sum_over(two_sided), sum_of_ranks((ranks + rank % 2) / 2));
    }
    MPI_Comm_free(&two_sided);
  }
  MPI_Comm_free(&ring);
  MPI_Comm_free(&node);
  MPI_Comm_free(&backwards);
  MPI_Comm_free(&halves);
}

/* Handles are used again after they have been freed; nothing of the old communicator is. */
void many_communicators(void) {
  enum { kMany = 1000, kOpen = 20 };
  MPI_Comm open[kOpen];
  for (int i = 0; i < kMany; ++i) {
    MPI_Comm* const comm = &open[i % kOpen];
    if (i >= kOpen) {
      MPI_Comm_free(comm);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, comm);
    for (int call = 0; call < (i % 10 == 0 ? 4 : 1); ++call) {
      EQUAL(sum_over(*comm), sum_of_ranks(ranks));
    }
    EQUAL(sum_over(open[0]), sum_of_ranks(ranks));
  }
  for (int i = 0; i < kOpen; ++i) {
    MPI_Comm_free(&open[i]);
  }
}

static int open_descriptors(void) {
  DIR* const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL) {
    ++count;
  }
  closedir(folder);
  return count;
}

/* However many communicators ranks are in together, they watch each other once. */
void descriptors_of_communicators(void) {
  enum { kOpen = 16 };
  MPI_Comm open[kOpen];
  int of_one = 0;
  for (int i = 0; i < kOpen; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &open[i]);
    for (int call = 0; call < 4; ++call) {
      EQUAL(sum_over(open[i]), sum_of_ranks(ranks));
    }
    of_one = i == 0 ? open_descriptors() : of_one;
  }
  EQUAL(open_descriptors(), of_one);
  for (int i = 0; i < kOpen; ++i) {
    MPI_Comm_free(&open[i]);
  }
}

typedef struct {
  MPI_Comm comm;
  int wrongs;
} Thread;

static void* sum_many_times(void* argument) {
  Thread* const thread = argument;
  for (int i = 0; i < 2000; ++i) {
    thread->wrongs += sum_over(thread->comm) != sum_of_ranks(ranks);
  }
  return NULL;
}

void threads_with_communicators_of_their_own(void) {
  enum { kThreads = 3 };
  int level = 0;
  MPI_Query_thread(&level);
  EQUAL(level, MPI_THREAD_MULTIPLE);
  Thread threads[kThreads];
  pthread_t ids[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    threads[i].wrongs = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_create(&ids[i], NULL, &sum_many_times, &threads[i]);
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(ids[i], NULL);
    EQUAL(threads[i].wrongs, 0);
    MPI_Comm_free(&threads[i].comm);
  }
}

/* MPI has no collectives whose ranks disagree about a block. The library tells, and names them. */
void blocks_of_different_lengths(void) {
  MPI_Comm comm;
  int in[2] = {rank, rank};
  int* const out = calloc((size_t)(2 * ranks), sizeof(int));
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int round = 0; round < 3; ++round) {
    EQUAL(sum_over(comm), sum_of_ranks(ranks));
  }
  const int count = rank == 0 ? 2 : 1;
  const int code = MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, comm);
  int class_of = MPI_SUCCESS;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_class(code, &class_of);
  MPI_Error_string(code, text, &length);
  EQUAL(class_of, MPI_ERR_TRUNCATE);
  EQUAL(strncmp(text, "sennit: ", 8), 0);
  MPI_Comm_free(&comm);
  free(out);
}
