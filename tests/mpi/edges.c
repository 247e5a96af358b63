/* What programs rarely do: errors, and memory that is large or not there. */
#define _GNU_SOURCE
#include "cases.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kUntouched = -7 };

/* A communicator that runs on the library and returns errors. */
static MPI_Comm taken(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int call = 0; call < 3; ++call) {
    MPI_Barrier(comm);
  }
  return comm;
}

static int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/* MPI 4 distinguishes such types where a program asks how a type was made. */
void types_made_with_large_counts(void) {
#if MPI_VERSION >= 4
  enum { kEach = 3 };
  MPI_Datatype dense;
  MPI_Datatype spread;
  MPI_Datatype chain;
  MPI_Type_contiguous_c(kEach, MPI_INT, &dense);
  MPI_Type_vector_c(kEach, 1, 2, MPI_INT, &spread);
  MPI_Type_contiguous(1, dense, &chain);
  MPI_Datatype* const types[] = {&dense, &spread, &chain};
  for (int form = 0; form < 3; ++form) {
    const int stride = form == 1 ? 2 : 1;
    MPI_Type_commit(types[form]);
    int words[2 * kEach];
    for (int i = 0; i < 2 * kEach; ++i) {
      words[i] = rank == 0 && i % stride == 0 ? 100 + i / stride : kUntouched;
    }
    MPI_Bcast_c(words, 1, *types[form], 0, MPI_COMM_WORLD);
    for (int i = 0; i < kEach; ++i) {
      EQUAL(words[stride * i], 100 + i);
    }
    EQUAL(form != 1 || words[1] == kUntouched, 1);
  }
  MPI_Type_free(&chain);
  MPI_Type_free(&spread);
  MPI_Type_free(&dense);
#endif
}

/* One element of more than 2 GiB, in two parts: more than an int can count. */
void elements_of_gigabytes(void) {
  const MPI_Aint half = ((MPI_Aint)1 << 30) + 4096;
  MPI_Datatype part;
  MPI_Datatype pair;
  MPI_Comm comm = taken();
  MPI_Type_contiguous((int)half, MPI_BYTE, &part);
  MPI_Type_create_hvector(2, 1, half + 4096, part, &pair);
  MPI_Type_free(&part);
  MPI_Type_commit(&pair);
  const size_t bytes = 2 * (size_t)half + 4096;
  char* const memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (rank == 0) {
    memory[0] = 1;
    memory[half - 1] = 2;
    memory[half] = 3;
    memory[half + 4096] = 4;
    memory[bytes - 1] = 5;
  }
  const int code = MPI_Bcast(memory, 1, pair, 0, comm);
  EQUAL(code, MPI_SUCCESS);
  EQUAL(memory[0], 1);
  EQUAL(memory[half - 1], 2);
  EQUAL(memory[half], rank == 0 ? 3 : 0);
  EQUAL(memory[half + 4096], 4);
  EQUAL(memory[bytes - 1], 5);
  munmap(memory, bytes);
  MPI_Type_free(&pair);
  MPI_Comm_free(&comm);
}

/* Terabytes lie between the blocks that are sent, and among them what is received. */
void blocks_far_from_each_other(void) {
  const size_t room = (size_t)4 << 40;
  const int page = 1 << 20; /* of integers */
  MPI_Datatype pages;
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  int* const from = malloc(sizeof(int) * (size_t)ranks);
  int* const to = malloc(sizeof(int) * (size_t)ranks);
  char* const memory =
      mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EQUAL(memory != MAP_FAILED, 1);
  MPI_Type_contiguous(page, MPI_INT, &pages);
  MPI_Type_commit(&pages);
  const MPI_Aint bytes = (MPI_Aint)page * (MPI_Aint)sizeof(int);
  const int stride = (int)(room / (size_t)bytes / (size_t)ranks) - 2;
  for (int r = 0; r < ranks; ++r) {
    counts[r] = 1;
    from[r] = stride * r;
    to[r] = stride * r + 1;
    *(int*)(memory + from[r] * bytes) = 100 * rank + r;
  }
  MPI_Alltoallv(memory, counts, from, pages, memory, counts, to, pages, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) {
    EQUAL(*(int*)(memory + to[r] * bytes), 100 * r + rank);
  }
  munmap(memory, room);
  MPI_Type_free(&pages);
  free(counts);
  free(from);
  free(to);
}

/* 64 TB of elements that lie one on the other: more than there is to pack them into. */
void memory_that_is_not_there(void) {
  MPI_Comm comm = taken();
  MPI_Datatype page;
  MPI_Datatype pile;
  int* const memory = calloc((size_t)1 << 20, sizeof(int));
  MPI_Type_contiguous(1 << 20, MPI_INT, &page);
  MPI_Type_create_resized(page, 0, 0, &pile);
  MPI_Type_commit(&pile);
  const int count = 1 << 24;
  const int code = MPI_Alltoall(memory, count, pile, memory, count, pile, comm);
  EQUAL(class_of(code), MPI_ERR_OTHER);
  MPI_Type_free(&pile);
  MPI_Type_free(&page);
  MPI_Comm_free(&comm);
  free(memory);
}

/* The MPI's own answer, by the communicator's error handler. */
void types_that_were_not_committed(void) {
  MPI_Comm comm = taken();
  MPI_Datatype spread;
  int* const in = calloc((size_t)(4 * ranks), sizeof(int));
  int* const out = calloc((size_t)(4 * ranks), sizeof(int));
  MPI_Type_vector(2, 1, 2, MPI_INT, &spread);
  const int code = MPI_Alltoall(in, 1, spread, out, 1, spread, comm);
  EQUAL(class_of(code), MPI_ERR_TYPE);
  MPI_Type_free(&spread);
  MPI_Comm_free(&comm);
  free(in);
  free(out);
}

enum Form { kAlltoall, kBcast, kIallgather };

/* One rank alone cannot pack: the call fails on all, as does what they call next. */
static void fail_to_pack(enum Form form) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  MPI_Datatype spread;
  MPI_Datatype committed;
  int* const in = calloc((size_t)(4 * ranks), sizeof(int));
  int* const out = calloc((size_t)(4 * ranks), sizeof(int));
  /* What an MPI raises in MPI_Wait is an error of one of these. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Type_vector(2, 1, 2, MPI_INT, &spread);
  MPI_Type_dup(spread, &committed);
  MPI_Type_commit(&committed);
  const MPI_Datatype type = rank == 0 ? spread : committed;
  MPI_Comm comm = taken();
  if (form == kAlltoall) {
    code = MPI_Alltoall(in, 1, type, out, 1, type, comm);
  } else if (form == kBcast) {
    code = MPI_Bcast(in, 1, type, 0, comm);
  } else {
    code = MPI_Iallgather(in, 1, type, out, 1, type, comm, &request);
    if (code == MPI_SUCCESS) {
      code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  EQUAL(class_of(code), rank == 0 ? MPI_ERR_TYPE : MPI_ERR_OTHER);
  EQUAL(class_of(MPI_Barrier(comm)), MPI_ERR_OTHER);
  MPI_Comm_free(&comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&spread);
  MPI_Type_free(&committed);
  free(in);
  free(out);
}

void one_rank_that_cannot_pack(void) {
  fail_to_pack(kAlltoall);
  fail_to_pack(kBcast);
}

void one_rank_that_cannot_pack_later(void) { fail_to_pack(kIallgather); }

/* What a rank sends to itself is not what it receives from itself. */
void blocks_that_do_not_fit(void) {
  int in[4] = {rank, rank, rank, rank};
  int* const out = malloc(sizeof(int) * (size_t)(4 * ranks));
  int* const counts = malloc(sizeof(int) * (size_t)ranks);
  int* const places = malloc(sizeof(int) * (size_t)ranks);
  for (int r = 0; r < ranks; ++r) {
    counts[r] = 1;
    places[r] = r;
  }
  for (int sent = 0; sent <= 2; sent += 2) {
    for (int i = 0; i < 4 * ranks; ++i) {
      out[i] = kUntouched;
    }
    MPI_Comm comm = taken();
    EQUAL(class_of(MPI_Allgather(in, sent, MPI_INT, out, 1, MPI_INT, comm)), MPI_ERR_TRUNCATE);
    EQUAL(class_of(MPI_Alltoall(in, sent, MPI_INT, out, 1, MPI_INT, comm)), MPI_ERR_TRUNCATE);
    EQUAL(class_of(MPI_Allgatherv(in, sent, MPI_INT, out, counts, places, MPI_INT, comm)),
          MPI_ERR_TRUNCATE);
    MPI_Comm_free(&comm);
    /* At one rank alone: the calls of others, which wait for it, fail as well. */
    comm = taken();
    const int mine = rank == 0 ? sent : 1;
    const int code = MPI_Gather(in, mine, MPI_INT, out, 1, MPI_INT, 0, comm);
    EQUAL(rank == 0 && class_of(code) != MPI_ERR_TRUNCATE, 0);
    EQUAL(class_of(MPI_Barrier(comm)), MPI_ERR_OTHER);
    MPI_Comm_free(&comm);
    for (int i = 0; i < 4 * ranks; ++i) {
      EQUAL(out[i], kUntouched);
    }
  }
  free(out);
  free(counts);
  free(places);
}

/* A call fails after its communicator has been freed, whose handle means nothing any more. */
void errors_after_the_communicator(void) {
  MPI_Comm comm = taken();
  MPI_Request request;
  int in[2] = {rank, rank};
  int* const out = calloc((size_t)(2 * ranks), sizeof(int));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int count = rank == 0 ? 2 : 1;
  MPI_Iallgather(in, count, MPI_INT, out, count, MPI_INT, comm, &request);
  MPI_Comm_free(&comm);
  /* It may get the handle, and would end the job. */
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  EQUAL(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
  MPI_Comm_free(&comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  free(out);
}

/* Wrong, but no reason for MPI_Finalize not to return. */
void requests_that_nobody_waits_for(void) {
  static int in;
  static int out;
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  }
}
