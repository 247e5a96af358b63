/* Any MPI as a rival: compiled with that MPI's mpicc when a benchmark starts. */
#include "rival.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static MPI_Datatype type;
static MPI_Op operation;
static int is_in_place;
static int own_rank;

static const char* start(const char* rendezvous, int rank, int ranks) {
  static char wrong[128];
  int size = 0;
  (void)rendezvous;
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
    return "MPI_Init failed";
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (ranks != 0 && (own_rank != rank || size != ranks)) {
    snprintf(wrong,
             sizeof(wrong),
             "MPI says rank %d of %d, Sennit rank %d of %d",
             own_rank,
             size,
             rank,
             ranks);
    return wrong;
  }
  return NULL;
}

static const char* version(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  /* MPICH goes on with how it was built. */
  text[strcspn(text, "\n,")] = '\0';
  return text;
}

static int find_type(const char* name) {
  const struct {
    const char* name;
    MPI_Datatype type;
  } types[] = {{"float32", MPI_FLOAT},
               {"float64", MPI_DOUBLE},
               {"int8", MPI_INT8_T},
               {"int16", MPI_INT16_T},
               {"int32", MPI_INT32_T},
               {"int64", MPI_INT64_T},
               {"uint8", MPI_UINT8_T},
               {"uint16", MPI_UINT16_T},
               {"uint32", MPI_UINT32_T},
               {"uint64", MPI_UINT64_T},
               {"bool", MPI_C_BOOL},
               {"complex64", MPI_C_FLOAT_COMPLEX},
               {"complex128", MPI_C_DOUBLE_COMPLEX}};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
    if (strcmp(types[i].name, name) == 0) {
      type = types[i].type;
      return 1;
    }
  }
  return 0;
}

static int find_operation(const char* name) {
  const struct {
    const char* name;
    MPI_Op operation;
  } operations[] = {{"sum", MPI_SUM},
                    {"prod", MPI_PROD},
                    {"min", MPI_MIN},
                    {"max", MPI_MAX},
                    {"logical_and", MPI_LAND},
                    {"logical_or", MPI_LOR},
                    {"logical_xor", MPI_LXOR},
                    {"bitwise_and", MPI_BAND},
                    {"bitwise_or", MPI_BOR},
                    {"bitwise_xor", MPI_BXOR}};
  for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); ++i) {
    if (strcmp(operations[i].name, name) == 0) {
      operation = operations[i].operation;
      return 1;
    }
  }
  return 0;
}

static const char* prepare(const char* dtype, const char* op, int in_place) {
  static char wrong[64];
  is_in_place = in_place;
  if (!find_type(dtype)) {
    snprintf(wrong, sizeof(wrong), "MPI has no type %s", dtype);
    return wrong;
  }
  if (!find_operation(op)) {
    snprintf(wrong, sizeof(wrong), "MPI has no operator %s", op);
    return wrong;
  }
  return NULL;
}

/* Counts of MPI are ints. */
#define CALL(count, call) ((count) > INT_MAX ? MPI_ERR_COUNT : (call))

static int all_reduce(const void* send, void* recv, size_t count) {
  const void* from = is_in_place ? MPI_IN_PLACE : send;
  return CALL(count, MPI_Allreduce(from, recv, (int)count, type, operation, MPI_COMM_WORLD));
}

static int reduce(const void* send, void* recv, size_t count, int root) {
  const void* from = is_in_place && own_rank == root ? MPI_IN_PLACE : send;
  return CALL(count, MPI_Reduce(from, recv, (int)count, type, operation, root, MPI_COMM_WORLD));
}

/* MPI has no other than the one in place. */
static int broadcast(const void* send, void* recv, size_t count, int root) {
  (void)send;
  return CALL(count, MPI_Bcast(recv, (int)count, type, root, MPI_COMM_WORLD));
}

static int all_gather(const void* send, void* recv, size_t count) {
  const void* from = is_in_place ? MPI_IN_PLACE : send;
  const int n = (int)count;
  return CALL(count, MPI_Allgather(from, n, type, recv, n, type, MPI_COMM_WORLD));
}

static int reduce_scatter(const void* send, void* recv, size_t count) {
  const int n = (int)count;
  return CALL(count, MPI_Reduce_scatter_block(send, recv, n, type, operation, MPI_COMM_WORLD));
}

static int all_to_all(const void* send, void* recv, size_t count) {
  const void* from = is_in_place ? MPI_IN_PLACE : send;
  const int n = (int)count;
  return CALL(count, MPI_Alltoall(from, n, type, recv, n, type, MPI_COMM_WORLD));
}

static int gather(const void* send, void* recv, size_t count, int root) {
  const void* from = is_in_place && own_rank == root ? MPI_IN_PLACE : send;
  const int n = (int)count;
  return CALL(count, MPI_Gather(from, n, type, recv, n, type, root, MPI_COMM_WORLD));
}

static int scatter(const void* send, void* recv, size_t count, int root) {
  void* to = is_in_place && own_rank == root ? MPI_IN_PLACE : recv;
  const int n = (int)count;
  return CALL(count, MPI_Scatter(send, n, type, to, n, type, root, MPI_COMM_WORLD));
}

static int barrier(void) { return MPI_Barrier(MPI_COMM_WORLD); }

static int exchange(const void* send, int to, void* recv, int from, size_t count) {
  const int n = (int)count;
  return CALL(count,
              MPI_Sendrecv(
                  send, n, type, to, 0, recv, n, type, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void stop(void) { MPI_Finalize(); }

const sennit_rival_t* sennit_rival(void) {
  static const sennit_rival_t calls = {start,
                                       version,
                                       prepare,
                                       all_reduce,
                                       reduce,
                                       broadcast,
                                       all_gather,
                                       reduce_scatter,
                                       all_to_all,
                                       gather,
                                       scatter,
                                       barrier,
                                       exchange,
                                       stop};
  return &calls;
}
