/* Blocks that differ, and types that say where in memory their elements are. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

enum { kUntouched = -7 };

#define ELEMENT(from, to, i) (((from) * 100 + (to)) * 1000 + (i))

static int* filled(int count, int value) {
  int* const memory = malloc(sizeof(int) * (size_t)(count + 1));
  for (int i = 0; i <= count; ++i) {
    memory[i] = value;
  }
  return memory;
}

/* Rank r sends (r + to) % 4 elements to rank `to`; blocks have a gap of one between them. */
static int length(int from, int to) { return (from + to) % 4; }

void moves_of_different_blocks(void) {
  enum { kRoom = 5 };
  int* const send_counts = filled(ranks, 0);
  int* const recv_counts = filled(ranks, 0);
  int* const places = filled(ranks, 0);
  int* const in = filled(kRoom * ranks, 0);
  int* const out = filled(kRoom * ranks, kUntouched);
  for (int r = 0; r < ranks; ++r) {
    send_counts[r] = length(rank, r);
    recv_counts[r] = length(r, rank);
    places[r] = kRoom * (ranks - 1 - r);
    for (int i = 0; i < kRoom; ++i) {
      in[places[r] + i] = ELEMENT(rank, r, i);
    }
  }
  MPI_Alltoallv(
      in, send_counts, places, MPI_INT, out, recv_counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < kRoom; ++i) {
      EQUAL(out[places[from] + i], i < length(from, rank) ? ELEMENT(from, rank, i) : kUntouched);
      out[places[from] + i] = kUntouched;
    }
    recv_counts[from] = length(from, 1);
  }
  MPI_Allgatherv(in + places[1 % ranks],
                 length(rank, 1),
                 MPI_INT,
                 out,
                 recv_counts,
                 places,
                 MPI_INT,
                 MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < kRoom; ++i) {
      EQUAL(out[places[from] + i], i < length(from, 1) ? ELEMENT(from, 1, i) : kUntouched);
    }
  }
  for (int root = 0; root < ranks; ++root) {
    for (int i = 0; i < kRoom * ranks; ++i) {
      out[i] = kUntouched;
    }
    for (int r = 0; r < ranks; ++r) {
      recv_counts[r] = length(r, root);
    }
    const int is_root = rank == root;
    MPI_Gatherv(in + places[root],
                length(rank, root),
                MPI_INT,
                is_root ? out : NULL,
                is_root ? recv_counts : NULL,
                is_root ? places : NULL,
                MPI_INT,
                root,
                MPI_COMM_WORLD);
    for (int from = 0; from < ranks; ++from) {
      for (int i = 0; i < kRoom; ++i) {
        const int is_there = is_root && i < length(from, root);
        EQUAL(out[places[from] + i], is_there ? ELEMENT(from, root, i) : kUntouched);
      }
    }
    for (int i = 0; i < kRoom; ++i) {
      out[i] = kUntouched;
    }
    MPI_Scatterv(is_root ? in : NULL,
                 is_root ? send_counts : NULL,
                 is_root ? places : NULL,
                 MPI_INT,
                 out,
                 length(root, rank),
                 MPI_INT,
                 root,
                 MPI_COMM_WORLD);
    for (int i = 0; i < kRoom; ++i) {
      EQUAL(out[i], i < length(root, rank) ? ELEMENT(root, rank, i) : kUntouched);
    }
  }
  /* In place. */
  for (int r = 0; r < ranks; ++r) {
    recv_counts[r] = 1 + r % 4;
    for (int i = 0; i < kRoom; ++i) {
      out[places[r] + i] = r == rank ? ELEMENT(rank, 0, i) : kUntouched;
    }
  }
  MPI_Allgatherv(
      MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, recv_counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < recv_counts[from]; ++i) {
      EQUAL(out[places[from] + i], ELEMENT(from, 0, i));
    }
    recv_counts[from] = 1 + (from + rank) % 4;
    for (int i = 0; i < kRoom; ++i) {
      out[places[from] + i] = ELEMENT(rank, from, i);
    }
  }
  MPI_Alltoallv(MPI_IN_PLACE,
                NULL,
                NULL,
                MPI_DATATYPE_NULL,
                out,
                recv_counts,
                places,
                MPI_INT,
                MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    for (int i = 0; i < kRoom; ++i) {
      const int is_there = i < recv_counts[from];
      EQUAL(out[places[from] + i], is_there ? ELEMENT(from, rank, i) : ELEMENT(rank, from, i));
    }
  }
  free(send_counts);
  free(recv_counts);
  free(places);
  free(in);
  free(out);
}

/* Displacements are signed: a buffer may be a place in the middle of the memory. */
void blocks_before_their_buffer(void) {
  int* const counts = filled(ranks, 2);
  int* const places = filled(ranks, 0);
  int* const memory = filled(2 * ranks, kUntouched);
  const int own[2] = {ELEMENT(rank, 0, 0), ELEMENT(rank, 0, 1)};
  for (int r = 0; r < ranks; ++r) {
    places[r] = 2 * r - 2 * ranks;
  }
  MPI_Allgatherv(own, 2, MPI_INT, memory + 2 * ranks, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) {
    EQUAL(memory[2 * from], ELEMENT(from, 0, 0));
    EQUAL(memory[2 * from + 1], ELEMENT(from, 0, 1));
  }
  free(counts);
  free(places);
  free(memory);
}

/* What is sent and what is received take turns in one array. */
void blocks_between_blocks(void) {
  int* const counts = filled(ranks, 1);
  int* const even = filled(ranks, 0);
  int* const memory = filled(2 * ranks, kUntouched);
  for (int r = 0; r < ranks; ++r) {
    even[r] = 2 * r;
    memory[even[r]] = ELEMENT(rank, r, 0);
  }
  MPI_Alltoallv(memory, counts, even, MPI_INT, memory + 1, counts, even, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) {
    EQUAL(memory[even[r]], ELEMENT(rank, r, 0));
    EQUAL(memory[even[r] + 1], ELEMENT(r, rank, 0));
  }
  free(counts);
  free(even);
  free(memory);
}

/* Ranks may describe the same twelve integers in their own ways. */
void different_types_of_one_signature(void) {
  enum { kAll = 12, kSpread = 24 };
  MPI_Datatype spread;
  MPI_Datatype dozen;
  MPI_Type_vector(kAll, 1, 2, MPI_INT, &spread);
  MPI_Type_contiguous(kAll, MPI_INT, &dozen);
  MPI_Type_commit(&spread);
  MPI_Type_commit(&dozen);
  for (int root = 0; root < ranks; ++root) {
    int* const memory = filled(kSpread, kUntouched);
    const int form = (rank + root) % 3;
    for (int i = 0; i < kAll && rank == root; ++i) {
      memory[form == 1 ? 2 * i : i] = ELEMENT(root, 0, i);
    }
    if (form == 0) {
      MPI_Bcast(memory, kAll, MPI_INT, root, MPI_COMM_WORLD);
    } else {
      MPI_Bcast(memory, 1, form == 1 ? spread : dozen, root, MPI_COMM_WORLD);
    }
    for (int i = 0; i < kAll; ++i) {
      EQUAL(memory[form == 1 ? 2 * i : i], ELEMENT(root, 0, i));
      EQUAL(form == 1 ? memory[2 * i + 1] : kUntouched, kUntouched);
    }
    int own[kSpread];
    int* const all = filled(kSpread * ranks, kUntouched);
    for (int i = 0; i < kAll; ++i) {
      own[form == 1 ? 2 * i : i] = ELEMENT(rank, 1, i);
    }
    MPI_Gather(own,
               form == 0 ? kAll : 1,
               form == 0   ? MPI_INT
               : form == 1 ? spread
                           : dozen,
               all,
               1,
               dozen,
               root,
               MPI_COMM_WORLD);
    for (int i = 0; i < kAll * ranks; ++i) {
      EQUAL(all[i], rank == root ? ELEMENT(i / kAll, 1, i % kAll) : kUntouched);
    }
    free(memory);
    free(all);
  }
  MPI_Type_free(&spread);
  MPI_Type_free(&dozen);
}

/* One integer, and room for two more before the next. */
static MPI_Datatype integer_with_gap(void) {
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_INT, 0, 3 * (MPI_Aint)sizeof(int), &type);
  MPI_Type_commit(&type);
  return type;
}

void types_with_gaps(void) {
  enum { kEach = 2 };
  MPI_Datatype gap = integer_with_gap();
  const int elements = kEach * ranks;
  int* const in = filled(3 * elements, 0);
  int* const out = filled(3 * elements, kUntouched);
  for (int i = 0; i < elements; ++i) {
    in[3 * i] = ELEMENT(rank, i / kEach, i % kEach);
  }
  MPI_Alltoall(in, kEach, gap, out, kEach, gap, MPI_COMM_WORLD);
  for (int i = 0; i < elements; ++i) {
    EQUAL(out[3 * i], ELEMENT(i / kEach, rank, i % kEach));
    EQUAL(out[3 * i + 1], kUntouched);
    EQUAL(out[3 * i + 2], kUntouched);
  }
  /* In place, where every rank has its own block in the spread array. */
  for (int i = 0; i < elements; ++i) {
    out[3 * i] = i / kEach == rank ? ELEMENT(rank, 9, i % kEach) : kUntouched;
  }
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, kEach, gap, MPI_COMM_WORLD);
  for (int i = 0; i < elements; ++i) {
    EQUAL(out[3 * i], ELEMENT(i / kEach, 9, i % kEach));
    EQUAL(out[3 * i + 1], kUntouched);
  }
  for (int i = 0; i < elements; ++i) {
    out[3 * i] = ELEMENT(rank, i / kEach, i % kEach);
  }
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, kEach, gap, MPI_COMM_WORLD);
  for (int i = 0; i < elements; ++i) {
    EQUAL(out[3 * i], ELEMENT(i / kEach, rank, i % kEach));
  }
  const int root = ranks - 1;
  MPI_Scatter(in, kEach, gap, rank == root ? MPI_IN_PLACE : out, kEach, gap, root, MPI_COMM_WORLD);
  for (int i = 0; i < kEach && rank != root; ++i) {
    EQUAL(out[3 * i], ELEMENT(root, rank, i));
  }
  int* const counts = filled(ranks, kEach);
  int* const places = filled(ranks, 0);
  for (int r = 0; r < ranks; ++r) {
    places[r] = kEach * (ranks - 1 - r);
  }
  MPI_Allgatherv(in, kEach, gap, out, counts, places, gap, MPI_COMM_WORLD);
  for (int i = 0; i < elements; ++i) {
    EQUAL(out[3 * (places[i / kEach] + i % kEach)], ELEMENT(i / kEach, 0, i % kEach));
    EQUAL(out[3 * i + 1], kUntouched);
  }
  free(counts);
  free(places);
  free(in);
  free(out);
  MPI_Type_free(&gap);
}

/* As large as its parts, without a gap, and yet not in their order. */
void permuted_structs(void) {
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {sizeof(int), 0};
  const MPI_Datatype parts[2] = {MPI_INT, MPI_INT};
  MPI_Datatype swapped;
  MPI_Type_create_struct(2, lengths, places, parts, &swapped);
  MPI_Type_commit(&swapped);
  int pair[2] = {rank == 0 ? 1 : 0, rank == 0 ? 2 : 0};
  MPI_Bcast(pair, rank == 0 ? 2 : 1, rank == 0 ? MPI_INT : swapped, 0, MPI_COMM_WORLD);
  EQUAL(pair[0], rank == 0 ? 1 : 2);
  EQUAL(pair[1], rank == 0 ? 2 : 1);
  MPI_Type_free(&swapped);
  /* Its handle may be used again, by a type that needs no packing. */
  MPI_Datatype two;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  MPI_Bcast(pair, 1, two, 0, MPI_COMM_WORLD);
  EQUAL(pair[0], 1);
  EQUAL(pair[1], 2);
  MPI_Type_free(&two);
}

/* Every rank gets its block as another type: plain to even ones, with gaps to odd ones. */
void types_for_each_rank(void) {
  MPI_Datatype gap = integer_with_gap();
  MPI_Datatype* const send_types = malloc(sizeof(MPI_Datatype) * (size_t)ranks);
  MPI_Datatype* const recv_types = malloc(sizeof(MPI_Datatype) * (size_t)ranks);
  int* const counts = filled(ranks, 2);
  int* const places = filled(ranks, 0);
  int* const in = filled(6 * ranks, 0);
  int* const out = filled(6 * ranks, kUntouched);
  for (int r = 0; r < ranks; ++r) {
    send_types[r] = r % 2 == 0 ? MPI_INT : gap;
    recv_types[r] = (r + rank) % 2 == 0 ? gap : MPI_INT;
    places[r] = 6 * r * (int)sizeof(int);
    in[6 * r] = ELEMENT(rank, r, 0);
    in[6 * r + (r % 2 == 0 ? 1 : 3)] = ELEMENT(rank, r, 1);
  }
  MPI_Alltoallw(in, counts, places, send_types, out, counts, places, recv_types, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) {
    EQUAL(out[6 * r], ELEMENT(r, rank, 0));
    EQUAL(out[6 * r + ((r + rank) % 2 == 0 ? 3 : 1)], ELEMENT(r, rank, 1));
    EQUAL(out[6 * r + 2], kUntouched);
  }
  free(send_types);
  free(recv_types);
  free(counts);
  free(places);
  free(in);
  free(out);
  MPI_Type_free(&gap);
}
