/* Cases of a program for MPI: functions that say what is wrong. */
#ifndef SENNIT_TESTS_MPI_CASES_H_
#define SENNIT_TESTS_MPI_CASES_H_

#include <mpi.h>

/* Of MPI_COMM_WORLD. */
extern int rank;
extern int ranks;

/* Marks the case that runs as failed, and says where and why. */
void wrong(const char* file, int line, const char* what, long long is, long long should_be);

#define EQUAL(is, should_be)                             \
  do {                                                   \
    const long long is_ = (long long)(is);               \
    const long long should_be_ = (long long)(should_be); \
    if (is_ != should_be_) {                             \
      wrong(__FILE__, __LINE__, #is, is_, should_be_);   \
    }                                                    \
  } while (0)

/* The collectives of MPI_COMM_WORLD by their values. */
void reductions_of_every_type(void);
void reductions_in_place(void);
void moves_at_every_root(void);
void moves_in_place(void);
void moves_of_different_blocks(void);
void blocks_before_their_buffer(void);
void blocks_between_blocks(void);
void different_types_of_one_signature(void);
void types_with_gaps(void);
void permuted_structs(void);
void types_for_each_rank(void);
void nothing_at_all(void);
void large_counts(void);
/* Nonblocking collectives. */
void every_nonblocking_form(void);
void nonblocking_calls_end_while_a_rank_receives(void);
void large_nonblocking_calls_end_while_a_rank_receives(void);
void requests_of_all_kinds_together(void);
/* Persistent collectives. */
void persistent_calls_start_in_any_order(void);
void persistent_calls_among_other_requests(void);
void many_persistent_calls(void);
void persistent_calls_one_after_another(void);
void persistent_calls_that_fail(void);
/* What is passed on, beside what is not. */
void operators_of_the_program(void);
void pairs_with_places(void);
void nonblocking_beside_blocking(void);
void messages_move_in_a_barrier(void);
void refused_arguments(void);
void communicators_of_any_making(void);
void many_communicators(void);
void descriptors_of_communicators(void);
void threads_with_communicators_of_their_own(void);
/* Reductions that are not the library's. */
void operators_that_do_not_commute(void);
void pairs_of_every_type(void);
void scans_of_numbers(void);
void nonblocking_reductions_of_all_kinds(void);
void operators_of_large_counts(void);
void large_blocks_of_different_lengths(void);
/* Memory and types out of the ordinary. */
void types_made_with_large_counts(void);
void blocks_far_from_each_other(void);
void elements_of_gigabytes(void);
/* What no MPI has to bear. */
void blocks_of_different_lengths(void);
void blocks_that_do_not_fit(void);
void one_rank_that_cannot_pack(void);
void one_rank_that_cannot_pack_later(void);
void memory_that_is_not_there(void);
void types_that_were_not_committed(void);
void errors_after_the_communicator(void);
void requests_that_nobody_waits_for(void);

#endif
