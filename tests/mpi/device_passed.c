/* Cases of device.c with calls that always go on to the MPI. */
#include "device.h"

#include <string.h>

/* Started again and again with other data. The receive has room for more than comes, and its status
 * is that of the message, whatever waits for it. */
void persistent_messages(void) {
  enum { kSent = 40, kRounds = 6 };
  const int other = ranks - 1 - rank;
  int* const in = device_ints(kCount, 0, 0);
  int* const out = device_ints(kCount, kUntouched, 0);
  MPI_Request requests[2];
  MPI_Recv_init(out, kCount, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, requests);
  MPI_Ssend_init(in, kSent, MPI_INT, other, 11, MPI_COMM_WORLD, requests + 1);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Status statuses[2];
    MPI_Status* of_receive = statuses;
    int indices[2];
    int is_over = 0;
    int count = 0;
    const int first = 1000 * round + rank;
    gpu_write(in, &first, sizeof(first));
    MPI_Startall(2, requests);
    if (round == 0) {
      MPI_Waitall(2, requests, statuses);
    } else if (round == 1) {
      while (!is_over) {
        MPI_Testall(2, requests, &is_over, statuses);
      }
    } else if (round == 2) {
      for (int ended = 0, some = 0; ended < 2; ended += some) {
        MPI_Waitsome(2, requests, &some, indices, statuses);
        for (int i = 0; i < some && indices[i] == 0; ++i) {
          MPI_Get_count(&statuses[i], MPI_INT, &count);
        }
      }
      CHECK(count == kSent);
      of_receive = NULL;
    } else if (round == 3) {
      MPI_Waitany(1, requests, &indices[0], statuses);
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else if (round == 4) {
      while (!is_over) {
        MPI_Request_get_status(requests[0], &is_over, statuses);
      }
      MPI_Get_count(statuses, MPI_INT, &count);
      CHECK(count == kSent);
      MPI_Waitall(2, requests, statuses);
    } else {
      while (!is_over) {
        MPI_Test(&requests[0], &is_over, statuses);
      }
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    if (of_receive != NULL) {
      MPI_Get_count(of_receive, MPI_INT, &count);
      CHECK(count == kSent && of_receive->MPI_SOURCE == other && of_receive->MPI_TAG == 11);
    }
    CHECK(at(out, 0) == 1000 * round + other && at(out, kSent) == kUntouched);
    /* It is not active now, so its status is empty. */
    MPI_Wait(&requests[0], statuses);
    MPI_Get_count(statuses, MPI_INT, &count);
    CHECK(count == 0 && statuses[0].MPI_SOURCE == MPI_ANY_SOURCE);
  }
  int is_cancelled = 0;
  MPI_Status status;
  MPI_Start(&requests[0]);
  MPI_Cancel(&requests[0]);
  MPI_Wait(&requests[0], &status);
  MPI_Test_cancelled(&status, &is_cancelled);
  CHECK(is_cancelled);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

void matched_and_exchanged_messages(void) {
  const int other = ranks - 1 - rank;
  int* const in = device_ints(kCount, 1000 * rank, 1);
  int* const out = device_ints(kCount, kUntouched, 0);
  MPI_Message message;
  MPI_Request requests[2];
  MPI_Status status;
  int count = 0;
  MPI_Isend(in, 20, MPI_INT, other, 1, MPI_COMM_WORLD, requests);
  MPI_Mprobe(other, 1, MPI_COMM_WORLD, &message, &status);
  MPI_Mrecv(out, kCount, MPI_INT, &message, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 20 && at(out, 19) == 1000 * other + 19 && at(out, 20) == kUntouched);
  MPI_Wait(requests, MPI_STATUS_IGNORE);
  MPI_Isend(in, 30, MPI_INT, other, 2, MPI_COMM_WORLD, requests);
  MPI_Mprobe(other, 2, MPI_COMM_WORLD, &message, &status);
  MPI_Imrecv(out, kCount, MPI_INT, &message, requests + 1);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(at(out, 29) == 1000 * other + 29 && at(out, 30) == kUntouched);
  MPI_Isendrecv(in, 5, MPI_INT, other, 3, out, 10, MPI_INT, other, 3, MPI_COMM_WORLD, requests);
  MPI_Wait(requests, MPI_STATUS_IGNORE);
  CHECK(at(out, 4) == 1000 * other + 4 && at(out, 5) == 1000 * other + 5);
  MPI_Isendrecv_replace(out, 5, MPI_INT, other, 4, other, 4, MPI_COMM_WORLD, requests);
  MPI_Wait(requests, MPI_STATUS_IGNORE);
  CHECK(at(out, 4) == 1000 * rank + 4);
}

/* What one rank does alone. */
void local_calls(void) {
  int* const in = device_ints(12, 1, 1);
  int* const out = device_ints(20, kUntouched, 0);
  char* const packed = gpu_malloc(100);
  int position = 4;
  MPI_Datatype third;
  MPI_Type_vector(4, 1, 3, MPI_INT, &third);
  MPI_Type_commit(&third);
  gpu_write(packed, "head", 4);
  MPI_Pack(in, 1, third, packed, 100, &position, MPI_COMM_WORLD);
  CHECK(position == 20);
  char head[4];
  gpu_read(head, packed, 4);
  CHECK(memcmp(head, "head", 4) == 0);
  position = 4;
  MPI_Unpack(packed, 20, &position, out, 2, MPI_INT, MPI_COMM_WORLD);
  CHECK(position == 12 && at(out, 0) == 1 && at(out, 1) == 4 && at(out, 2) == kUntouched);
  MPI_Unpack(packed, 20, &position, out + 5, 2, MPI_INT, MPI_COMM_WORLD);
  CHECK(at(out, 5) == 7 && at(out, 6) == 10);
  int* const sums = device_ints(12, 100, 0);
  MPI_Reduce_local(in, sums, 12, MPI_INT, MPI_SUM);
  CHECK(at(sums, 0) == 101 && at(sums, 11) == 112 && at(in, 11) == 12);
  MPI_Type_free(&third);
}

/* Of a line, whose ends have no neighbour on one side. */
void neighbours(void) {
  const int all[1] = {ranks};
  const int are_closed[1] = {0};
  const int counts[2] = {2, 3};
  const int places[2] = {0, 4};
  const MPI_Aint byte_places[2] = {0, 4 * sizeof(int)};
  const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Comm line;
  MPI_Cart_create(MPI_COMM_WORLD, 1, all, are_closed, 0, &line);
  int* const in = device_ints(8, 100 * rank, 1);
  for (int form = 0; form < 5; ++form) {
    int* const out = device_ints(8, kUntouched, 0);
    if (form == 0) {
      MPI_Neighbor_allgather(in, 4, MPI_INT, out, 4, MPI_INT, line);
    } else if (form == 1) {
      const int equal[2] = {4, 4};
      MPI_Neighbor_allgatherv(in, 4, MPI_INT, out, equal, places, MPI_INT, line);
    } else if (form == 2) {
      MPI_Neighbor_alltoall(in, 4, MPI_INT, out, 4, MPI_INT, line);
    } else if (form == 3) {
      /* To the left 2, from there 2; with the right neighbour 3, so ends differ. */
      const int received[2] = {3, 2};
      MPI_Neighbor_alltoallv(in, counts, places, MPI_INT, out, received, places, MPI_INT, line);
    } else {
      const int received[2] = {3, 2};
      MPI_Neighbor_alltoallw(
          in, counts, byte_places, types, out, received, byte_places, types, line);
    }
    const int is_gathered = form < 2;
    CHECK(at(out, 0) == (rank == 0 ? kUntouched : 100 * (rank - 1) + (is_gathered ? 0 : 4)));
    CHECK(at(out, 4) == (rank == ranks - 1 ? kUntouched : 100 * (rank + 1)));
    CHECK(at(out, 3) ==
          (rank == 0 || form > 2 ? kUntouched : 100 * (rank - 1) + (is_gathered ? 3 : 7)));
  }
  MPI_Comm_free(&line);
}

void nonblocking_neighbours(void) {
  const int all[1] = {ranks};
  const int are_closed[1] = {0};
  MPI_Comm line;
  MPI_Request request;
  MPI_Cart_create(MPI_COMM_WORLD, 1, all, are_closed, 0, &line);
  int* const in = device_ints(4, 100 * rank, 1);
  int* const out = device_ints(4, kUntouched, 0);
  MPI_Ineighbor_alltoall(in, 2, MPI_INT, out, 2, MPI_INT, line, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(at(out, 0) == (rank == 0 ? kUntouched : 100 * (rank - 1) + 2));
  CHECK(at(out, 2) == (rank == ranks - 1 ? kUntouched : 100 * (rank + 1)));
  MPI_Comm_free(&line);
}

void files(void) {
  const char* const name = getenv("DEVICE_FILE");
  int* const in = device_ints(50, 100 * rank, 1);
  int* const out = device_ints(50, kUntouched, 0);
  int count = 0;
  MPI_File file;
  MPI_Status status;
  CHECK(MPI_File_open(
            MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == 0);
  const MPI_Offset own = (MPI_Offset)sizeof(int) * 10 * rank;
  MPI_File_write_at_all(file, own, in, 10, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_read_at(file, 0, out, 50, MPI_INT, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 10 * ranks && at(out, 13) == 103 && at(out, 10 * ranks) == kUntouched);
  MPI_Request request = MPI_REQUEST_NULL;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  /* Handlers of files return by default. */
  MPI_Error_string(MPI_File_iread_at(file, 0, out, 1, MPI_INT, &request), text, &length);
  CHECK(strstr(text, "MPI_File_iread_at has a buffer in GPU memory") != NULL);
  MPI_File_close(&file);
}

/* Calls that keep their buffers are refused. */
void one_sided_calls(void) {
  int* const device = device_ints(8, 0, 0);
  int host[8] = {0};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Win window;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Error_string(MPI_Win_create(device, sizeof(host), sizeof(int), MPI_INFO_NULL, comm, &window),
                   text,
                   &length);
  CHECK(strstr(text, "MPI_Win_create has a buffer in GPU memory") != NULL);
  CHECK(strstr(text, "use host memory") != NULL);
  MPI_Win_create(host, sizeof(host), sizeof(int), MPI_INFO_NULL, comm, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  MPI_Win_fence(0, window);
  MPI_Error_string(MPI_Put(device, 1, MPI_INT, 0, 0, 1, MPI_INT, window), text, &length);
  CHECK(strstr(text, "MPI_Put has a buffer in GPU memory") != NULL);
  const int code = MPI_Fetch_and_op(&rank, device, MPI_INT, 0, 0, MPI_SUM, window);
  MPI_Error_string(code, text, &length);
  CHECK(strstr(text, "MPI_Fetch_and_op has a buffer in GPU memory") != NULL);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  MPI_Comm_free(&comm);
}
