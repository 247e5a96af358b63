/* What a rival's shared object offers to the rank program of `sennit bench --against`: its calls as
 * function pointers, so that one loop times both libraries.
 *
 * Functions that give a text give NULL when all is well, else what is wrong; the text stays valid
 * until the next call. Counts are those of sennit.h, and so is what lies where in place. A call
 * that the rival lacks is NULL. All calls return when the caller's part is done, 0 when it went
 * well.
 */
#ifndef SENNIT_BENCH_RIVAL_H_
#define SENNIT_BENCH_RIVAL_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sennit_rival_t {
  /* Joins the ranks. `rendezvous` is a file of this job that no other job knows. */
  const char* (*start)(const char* rendezvous, int rank, int ranks);
  const char* (*version)(void);
  /* Element type and operator of the calls that follow, by the names of numerics.md. */
  const char* (*prepare)(const char* dtype, const char* op, int in_place);
  int (*all_reduce)(const void* send, void* recv, size_t count);
  int (*reduce)(const void* send, void* recv, size_t count, int root);
  int (*broadcast)(const void* send, void* recv, size_t count, int root);
  int (*all_gather)(const void* send, void* recv, size_t count);
  int (*reduce_scatter)(const void* send, void* recv, size_t count);
  int (*all_to_all)(const void* send, void* recv, size_t count);
  int (*gather)(const void* send, void* recv, size_t count, int root);
  int (*scatter)(const void* send, void* recv, size_t count, int root);
  int (*barrier)(void);
  int (*exchange)(const void* send, int to, void* recv, int from, size_t count);
  void (*stop)(void);
} sennit_rival_t;

/* The one symbol of the shared object. */
#define SENNIT_RIVAL_SYMBOL "sennit_rival"
const sennit_rival_t* sennit_rival(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_BENCH_RIVAL_H_ */
