/* A program for MPI with buffers in GPU memory that nobody but copies of CUDA can touch:
 *
 *   device [CASE...]     as program.c
 */
#include "device.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

int rank;
int ranks;
const char* complaint;

static void reductions(void) {
  int* const in = device_ints(kCount, rank, 1);
  int* const out = device_ints(kCount, kUntouched, 0);
  const int all = ranks * (ranks - 1) / 2;
  MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(at(out, 3) == all + 3 * ranks && at(out, kCount - 1) == all + (kCount - 1) * ranks);
  MPI_Allreduce(MPI_IN_PLACE, out, kCount, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  CHECK(at(out, 3) == all + 3 * ranks);
  MPI_Reduce(in, rank == 1 ? out : NULL, kCount, MPI_INT, MPI_MIN, 1, MPI_COMM_WORLD);
  CHECK(at(out, 3) == (rank == 1 ? 3 : all + 3 * ranks));
  MPI_Scan(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(at(out, 5) == rank * (rank + 1) / 2 + 5 * (rank + 1));
  const int before = at(out, 5);
  MPI_Exscan(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(at(out, 5) == (rank == 0 ? before : rank * (rank - 1) / 2 + 5 * rank));
  int* const blocks = device_ints(ranks * 2, 10 * rank, 1);
  MPI_Reduce_scatter_block(MPI_IN_PLACE, blocks, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(at(blocks, 0) == 10 * all + 2 * rank * ranks);
  CHECK(at(blocks, 2) == 10 * rank + 2);
}

/* Every third int, and on the host of odd ranks. */
static void types_with_gaps(void) {
  MPI_Datatype third;
  MPI_Type_vector(kCount / 3, 1, 3, MPI_INT, &third);
  MPI_Type_commit(&third);
  int host[kCount];
  int* const device = device_ints(kCount, rank == 0 ? 0 : kUntouched, rank == 0 ? 1 : 0);
  MPI_Bcast(device, 1, third, 0, MPI_COMM_WORLD);
  CHECK(at(device, 3) == 3 && at(device, 6) == 6);
  CHECK(at(device, 4) == (rank == 0 ? 4 : kUntouched));
  for (int i = 0; i < kCount; ++i) {
    host[i] = kUntouched;
  }
  MPI_Bcast(rank % 2 == 1 ? host : device, 1, third, 0, MPI_COMM_WORLD);
  CHECK(rank % 2 == 0 || (host[6] == 6 && host[7] == kUntouched));
  MPI_Type_free(&third);

  /* A face of a box, whose rows are one behind the other, and a list of places. */
  const int box[3] = {4, 5, 6};
  const int face[3] = {4, 2, 3};
  const int corner[3] = {0, 1, 2};
  const int lengths[3] = {2, 1, 3};
  const int places[3] = {40, 7, 11};
  MPI_Datatype faces;
  MPI_Datatype list;
  MPI_Type_create_subarray(3, box, face, corner, MPI_ORDER_C, MPI_INT, &faces);
  MPI_Type_indexed(3, lengths, places, MPI_INT, &list);
  MPI_Type_commit(&faces);
  MPI_Type_commit(&list);
  int* const in = device_ints(120, 100 * rank, 1);
  int* const out = device_ints(240, kUntouched, 0);
  MPI_Alltoall(in, 0, MPI_INT, out, 0, MPI_INT, MPI_COMM_WORLD);
  MPI_Gather(in, 1, faces, out, 24, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(at(out, 0) == (rank == 0 ? 8 : kUntouched) && at(out, 3) == (rank == 0 ? 14 : kUntouched));
  CHECK(at(out, 24) == (rank == 0 ? 108 : kUntouched));
  int* const few = device_ints(60, kUntouched, 0);
  MPI_Bcast(rank == 0 ? in : few, 1, list, 0, MPI_COMM_WORLD);
  CHECK(rank == 0 || (at(few, 40) == 40 && at(few, 41) == 41 && at(few, 7) == 7 &&
                      at(few, 11) == 11 && at(few, 13) == 13));
  CHECK(rank == 0 || (at(few, 8) == kUntouched && at(few, 42) == kUntouched));
  MPI_Type_free(&faces);
  MPI_Type_free(&list);
}

static void blocks_of_different_lengths(void) {
  int* const in = device_ints(20 * ranks, 1000 * rank, 1);
  int* const out = device_ints(20 * ranks, kUntouched, 0);
  int counts[8];
  int places[8];
  for (int r = 0; r < ranks; ++r) {
    counts[r] = 3 + (r + rank) % 4;
    places[r] = 20 * (ranks - 1 - r);
  }
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) {
    CHECK(at(out, places[r] + 2) == 1000 * r + 20 * (ranks - 1 - rank) + 2);
    CHECK(at(out, places[r] + counts[r]) == kUntouched);
  }
}

static void nonblocking(void) {
  int* const in = device_ints(kCount, rank, 1);
  int* const out = device_ints(kCount, kUntouched, 0);
  MPI_Request request;
  MPI_Iallreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(at(out, 9) == ranks * (ranks - 1) / 2 + 9 * ranks);
  /* This one the MPI runs: the communicator is new. */
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Ibcast(out, kCount / 2, MPI_INT, 1, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Ibcast(rank == 0 ? in : out, kCount, MPI_INT, 0, comm, &request);
  int flag = 0;
  while (!flag) {
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  }
  CHECK(rank == 0 || at(out, 77) == 77);
  MPI_Comm_free(&comm);
}

/* Also those of the MPI itself: more ranks than one are none of its own here, so by small scans. */
static void persistent(void) {
  int* const in = device_ints(kCount, 0, 0);
  int* const out = device_ints(kCount, kUntouched, 0);
  int* const sums = device_ints(4, kUntouched, 0);
  MPI_Request requests[2];
  MPI_Allreduce_init(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests);
  MPI_Scan_init(in, sums, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests + 1);
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < kCount; ++i) {
      const int value = round * (rank + i);
      gpu_write(in + i, &value, sizeof(value));
    }
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(at(out, 8) == round * (ranks * (ranks - 1) / 2 + 8 * ranks));
    CHECK(at(sums, 2) == round * (rank * (rank + 1) / 2 + 2 * (rank + 1)));
  }
  MPI_Request_free(requests);
  MPI_Request_free(requests + 1);
}

/* What the MPI runs: with one rank, and a reduction that the library has not. */
static void passed_on(void) {
  int* const in = device_ints(kCount, rank, 1);
  int* const out = device_ints(kCount, kUntouched, 0);
  MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  CHECK(at(out, 9) == rank + 9);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, comm); /* its first */
  CHECK(at(out, 9) == ranks * (ranks - 1) / 2 + 9 * ranks);
  MPI_Comm_free(&comm);
}

/* Shorter ones than the buffer has room for, and with gaps. */
static void messages(void) {
  const int other = ranks - 1 - rank;
  MPI_Datatype third;
  MPI_Status status;
  int count = 0;
  MPI_Type_vector(10, 1, 3, MPI_INT, &third);
  MPI_Type_commit(&third);
  int* const in = device_ints(kCount, 1000 * rank, 1);
  int* const out = device_ints(kCount, kUntouched, 0);
  if (rank == 0) {
    MPI_Send(in, 5, MPI_INT, other, 7, MPI_COMM_WORLD);
    MPI_Recv(out, 1, third, other, 8, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 6 && status.MPI_SOURCE == other && status.MPI_TAG == 8);
    CHECK(at(out, 0) == 1000 && at(out, 15) == 1005 && at(out, 18) == kUntouched);
    CHECK(at(out, 1) == kUntouched);
  } else {
    MPI_Recv(out, kCount, MPI_INT, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(at(out, 4) == 4 && at(out, 5) == kUntouched);
    MPI_Ssend(in, 6, MPI_INT, other, 8, MPI_COMM_WORLD);
  }
  MPI_Sendrecv(in, 1, third, other, 1, out, 10, MPI_INT, other, 1, MPI_COMM_WORLD, &status);
  CHECK(at(out, 9) == 1000 * other + 27 && status.MPI_SOURCE == other);
  MPI_Sendrecv_replace(out, 20, MPI_INT, other, 2, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(at(out, 9) == 1000 * rank + 27);
  MPI_Recv(out, 3, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(at(out, 0) == 1000 * rank);
  MPI_Type_free(&third);
}

static void nonblocking_messages(void) {
  const int other = ranks - 1 - rank;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  int count = 0;
  int host = kUntouched;
  int* const in = device_ints(kCount, 1000 * rank, 1);
  int* const out = device_ints(kCount, kUntouched, 0);
  MPI_Irecv(out, kCount, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests);
  MPI_Isend(in, 50, MPI_INT, other, 3, MPI_COMM_WORLD, requests + 1);
  MPI_Waitall(2, requests, statuses);
  MPI_Get_count(statuses, MPI_INT, &count);
  CHECK(count == 50 && statuses[0].MPI_SOURCE == other && statuses[0].MPI_TAG == 3);
  CHECK(at(out, 49) == 1000 * other + 49 && at(out, 50) == kUntouched);
  /* One of each kind. */
  MPI_Irecv(out, 1, MPI_INT, other, 4, MPI_COMM_WORLD, requests);
  MPI_Irecv(&host, 1, MPI_INT, other, 5, MPI_COMM_WORLD, requests + 1);
  MPI_Send(in + 1, 1, MPI_INT, other, 5, MPI_COMM_WORLD);
  MPI_Isend(in + 2, 1, MPI_INT, other, 4, MPI_COMM_WORLD, requests + 2);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  CHECK(at(out, 0) == 1000 * other + 2 && host == 1000 * other + 1);
  /* Nobody waits for that. */
  MPI_Isend(in + 3, 900, MPI_INT, other, 9, MPI_COMM_WORLD, requests);
  MPI_Request_free(requests);
  CHECK(requests[0] == MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Recv(out, 900, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(at(out, 899) == 1000 * other + 902);
  /* Nobody sends that. */
  int is_cancelled = 0;
  MPI_Irecv(out, 1, MPI_INT, other, 6, MPI_COMM_WORLD, requests);
  MPI_Cancel(requests);
  MPI_Wait(requests, statuses);
  MPI_Test_cancelled(statuses, &is_cancelled);
  CHECK(is_cancelled);
}

/* Bytes, which fake GPUs can add: with buffers on GPUs everywhere, and with some on the host. */
static void bytes_on_gpus(void) {
  enum { kBytes = 1 << 20, kRounds = 5 };
  unsigned char* const host = malloc(kBytes);
  unsigned char* const in = gpu_malloc(kBytes);
  unsigned char* const out = gpu_malloc((size_t)kBytes * (size_t)ranks);
  unsigned char value = 0;
  int counts[8];
  int places[8];
  for (int r = 0; r < ranks; ++r) {
    counts[r] = kBytes;
    places[r] = r * kBytes;
  }
  memset(host, rank + 1, kBytes);
  gpu_write(in, host, kBytes);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Allreduce(in, out, kBytes, MPI_UINT8_T, MPI_SUM, MPI_COMM_WORLD);
    gpu_read(&value, out + kBytes - 1, 1);
    CHECK(value == ranks * (ranks + 1) / 2);
    MPI_Allgather(in, kBytes, MPI_BYTE, out, kBytes, MPI_BYTE, MPI_COMM_WORLD);
    gpu_read(&value, out + kBytes, 1);
    CHECK(value == 2);
    MPI_Bcast(rank == 0 ? host : in, kBytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    gpu_read(&value, in + kBytes / 2, 1);
    CHECK(value == 1);
    MPI_Alltoallv(
        MPI_IN_PLACE, NULL, NULL, MPI_BYTE, out, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Alltoallv(
        MPI_IN_PLACE, NULL, NULL, MPI_BYTE, out, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, out, kBytes, MPI_BYTE, MPI_COMM_WORLD);
    gpu_read(&value, out + kBytes, 1);
    CHECK(value == (rank == 0 ? 1 : 2));
    memset(host, rank + 1, kBytes);
    gpu_write(in, host, kBytes);
  }
  free(host);
}

#define CASE(name) {#name, &(name)}
static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {
    CASE(reductions),
    CASE(types_with_gaps),
    CASE(blocks_of_different_lengths),
    CASE(nonblocking),
    CASE(persistent),
    CASE(passed_on),
    CASE(messages),
    CASE(nonblocking_messages),
    CASE(persistent_messages),
    CASE(matched_and_exchanged_messages),
    CASE(local_calls),
    CASE(neighbours),
    CASE(nonblocking_neighbours),
    CASE(files),
    CASE(one_sided_calls),
    CASE(bytes_on_gpus),
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  gpu_choose_device(rank % 2);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    int is_wanted = argc == 1;
    for (int a = 1; a < argc; ++a) {
      is_wanted = is_wanted || strcmp(argv[a], cases[i].name) == 0;
    }
    if (is_wanted) {
      complaint = NULL;
      cases[i].run();
      int is_wrong = complaint != NULL;
      if (is_wrong) {
        printf("rank %d: %s: not so: %s\n", rank, cases[i].name, complaint);
      }
      MPI_Allreduce(MPI_IN_PLACE, &is_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      if (rank == 0) {
        printf("%s %s\n", is_wrong ? "failed" : "passed", cases[i].name);
      }
      fflush(stdout);
    }
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
