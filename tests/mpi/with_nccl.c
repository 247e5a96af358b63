/* A program that calls MPI and NCCL in turn, each rank in another order, with rounds of 8 B to 4
 * MB:
 *
 *   with_nccl      as program.c
 *
 * A call of NCCL is enqueued and returns; one of MPI waits for the other ranks. So a rank may be in
 * a call of MPI before it has made that of NCCL for which the GPU of another rank waits. */
#include "fake_cuda.h"

#include <mpi.h>
#include <stdio.h>

typedef struct {
  char bytes[128];
} Id;
typedef struct Comm* Comm;
int ncclGetUniqueId(Id*);
int ncclCommInitRank(Comm*, int, Id, int);
int ncclCommDestroy(Comm);
int ncclAllReduce(const void*, void*, size_t, int type, int op, Comm, void*);
int ncclAllGather(const void*, void*, size_t, int type, Comm, void*);
int ncclSend(const void*, size_t, int type, int peer, Comm, void*);
int ncclRecv(void*, size_t, int type, int peer, Comm, void*);
int ncclGroupStart(void);
int ncclGroupEnd(void);

enum { kUint8 = 1, kSum = 0, kMostBytes = 4 << 20 };

static int rank;
static int ranks;
static Comm comm;
static void* stream;
static unsigned char* in;
static unsigned char* out;
static const char* complaint;

static void need(int is_right, const char* what) {
  if (!is_right && complaint == NULL) {
    complaint = what;
  }
}

static void enqueue(int round, size_t bytes) {
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  if (round % 3 == 0) {
    need(ncclAllReduce(in, out, bytes, kUint8, kSum, comm, stream) == 0, "ncclAllReduce");
  } else if (round % 3 == 1) {
    need(ncclAllGather(in, out, bytes, kUint8, comm, stream) == 0, "ncclAllGather");
  } else {
    need(ncclGroupStart() == 0 && ncclSend(in, bytes, kUint8, next, comm, stream) == 0 &&
             ncclRecv(out, bytes, kUint8, before, comm, stream) == 0 && ncclGroupEnd() == 0,
         "ncclSend and ncclRecv");
  }
}
static int expected(int round) {
  const int before = (rank + ranks - 1) % ranks;
  return round % 3 == 0 ? ranks * (ranks + 1) / 2 : round % 3 == 1 ? 1 : before + 1;
}

static void wait_for_all(int round) {
  int sum = 0;
  const int own = rank + round;
  MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  need(sum == ranks * (ranks - 1) / 2 + ranks * round, "MPI_Allreduce");
}

/* Every second round a third call is under way in the meantime. */
static void play(int round, size_t bytes) {
  unsigned char value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  int sum = 0;
  const int own = 1;
  if (round % 2 == 1) {
    MPI_Iallreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  }
  if ((rank + round) % 2 == 0) {
    enqueue(round, bytes);
    wait_for_all(round);
  } else {
    wait_for_all(round);
    enqueue(round, bytes);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  need(round % 2 == 0 || sum == ranks, "MPI_Iallreduce");
  gpu_wait(stream);
  gpu_read(&value, out + bytes - 1, 1);
  need(value == expected(round), "what NCCL received");
}

int main(int argc, char** argv) {
  Id id;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  gpu_choose_device(rank);
  in = gpu_malloc(kMostBytes);
  out = gpu_malloc((size_t)kMostBytes * (size_t)ranks);
  unsigned char* const host = malloc(kMostBytes);
  for (int i = 0; i < kMostBytes; ++i) {
    host[i] = (unsigned char)(rank + 1);
  }
  gpu_write(in, host, kMostBytes);
  free(host);
  stream = gpu_make_stream();
  if (rank == 0) {
    need(ncclGetUniqueId(&id) == 0, "ncclGetUniqueId");
  }
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  need(ncclCommInitRank(&comm, ranks, id, rank) == 0, "ncclCommInitRank");
  int round = 0;
  for (size_t bytes = 8; bytes <= kMostBytes && complaint == NULL; bytes *= 8) {
    for (int i = 0; i < 6; ++i) {
      play(round++, bytes);
    }
  }
  need(ncclCommDestroy(comm) == 0, "ncclCommDestroy");
  if (complaint != NULL) {
    printf("rank %d: round %d: not so: %s\n", rank, round, complaint);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  if (rank == 0) {
    printf("passed with_nccl\n");
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
