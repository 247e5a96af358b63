/* A program for MPI that knows nothing of the library: it runs the cases, each on all ranks, and
 * rank 0 writes a line for each:
 *
 *   program [CASE...]      "passed CASE" or "failed CASE: where, what"; without names all cases
 *                          that are right MPI
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank;
int ranks;

static char complaint[256];

void wrong(const char* file, int line, const char* what, long long is, long long should_be) {
  if (complaint[0] == '\0') {
    const char* const slash = strrchr(file, '/');
    snprintf(complaint,
             sizeof(complaint),
             "%s:%d: rank %d: %s is %lld, should be %lld",
             slash != NULL ? slash + 1 : file,
             line,
             rank,
             what,
             is,
             should_be);
  }
}

#define CASE(name) {#name, &(name), 0}
#define BY_NAME(name) {#name, &(name), 1}
static const struct {
  const char* name;
  void (*run)(void);
  int only_by_name;
} cases[] = {
    CASE(reductions_of_every_type),
    CASE(reductions_in_place),
    CASE(moves_at_every_root),
    CASE(moves_in_place),
    CASE(moves_of_different_blocks),
    CASE(blocks_before_their_buffer),
    CASE(blocks_between_blocks),
    CASE(different_types_of_one_signature),
    CASE(types_with_gaps),
    CASE(permuted_structs),
    CASE(types_for_each_rank),
    CASE(nothing_at_all),
    CASE(large_counts),
    CASE(operators_of_the_program),
    CASE(pairs_with_places),
    CASE(nonblocking_beside_blocking),
    CASE(every_nonblocking_form),
    CASE(nonblocking_calls_end_while_a_rank_receives),
    CASE(large_nonblocking_calls_end_while_a_rank_receives),
    CASE(requests_of_all_kinds_together),
    CASE(persistent_calls_start_in_any_order),
    CASE(persistent_calls_among_other_requests),
    CASE(many_persistent_calls),
    CASE(persistent_calls_one_after_another),
    CASE(messages_move_in_a_barrier),
    CASE(refused_arguments),
    CASE(communicators_of_any_making),
    CASE(many_communicators),
    CASE(descriptors_of_communicators),
    CASE(threads_with_communicators_of_their_own),
    CASE(operators_that_do_not_commute),
    CASE(pairs_of_every_type),
    CASE(scans_of_numbers),
    CASE(nonblocking_reductions_of_all_kinds),
    CASE(operators_of_large_counts),
    CASE(types_made_with_large_counts),
    CASE(blocks_far_from_each_other),
    BY_NAME(large_blocks_of_different_lengths),
    BY_NAME(elements_of_gigabytes),
    BY_NAME(blocks_of_different_lengths),
    BY_NAME(blocks_that_do_not_fit),
    BY_NAME(one_rank_that_cannot_pack),
    BY_NAME(one_rank_that_cannot_pack_later),
    BY_NAME(memory_that_is_not_there),
    BY_NAME(types_that_were_not_committed),
    BY_NAME(errors_after_the_communicator),
    BY_NAME(persistent_calls_that_fail),
    BY_NAME(requests_that_nobody_waits_for),
};

/* What another rank found is told by rank 0, by messages, which nobody stands in front of. */
static void tell(const char* name) {
  char found[sizeof(complaint)];
  memcpy(found, complaint, sizeof(found));
  for (int other = 1; other < ranks; ++other) {
    if (rank == 0) {
      char theirs[sizeof(complaint)];
      MPI_Recv(theirs, sizeof(theirs), MPI_CHAR, other, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (found[0] == '\0') {
        memcpy(found, theirs, sizeof(found));
      }
    } else if (rank == other) {
      MPI_Send(found, sizeof(found), MPI_CHAR, 0, 77, MPI_COMM_WORLD);
    }
  }
  if (rank == 0) {
    const int is_right = found[0] == '\0';
    printf("%s %s%s%s\n", is_right ? "passed" : "failed", name, is_right ? "" : ": ", found);
    fflush(stdout);
  }
  complaint[0] = '\0';
}

static int called_in_finalize(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm;
  (void)key;
  (void)extra;
  ++*(int*)value;
  return MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  int level = 0;
  int key = 0;
  int callbacks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  /* Libraries tidy up in a callback of MPI_COMM_SELF, which may still call collectives. */
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &called_in_finalize, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, &callbacks);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    int is_wanted = argc == 1 && !cases[i].only_by_name;
    for (int a = 1; a < argc; ++a) {
      is_wanted = is_wanted || strcmp(argv[a], cases[i].name) == 0;
    }
    if (is_wanted) {
      cases[i].run();
      tell(cases[i].name);
    }
  }
  MPI_Finalize();
  if (rank == 0) {
    printf("callbacks %d\n", callbacks);
  }
  return callbacks == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
