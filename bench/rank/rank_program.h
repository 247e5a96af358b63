/* One rank of a benchmark, as a library: bench/rivals/gloo_rank.py runs it in a process of Python.
 */
#ifndef SENNIT_BENCH_RANK_PROGRAM_H_
#define SENNIT_BENCH_RANK_PROGRAM_H_

#include "sennit/sennit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads what to do from the file, joins the other ranks by the environment, and times the calls it
 * is told to; rank 0 prints a JSON object a row. Gives the exit code of the process: 0 done, 1
 * wrong data. On a failure it ends the process itself: 2 bad usage, 3 a rank failed or a deadline
 * passed, 4 something is missing. */
SENNIT_API int sennit_rank_main(const char* job_file);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_BENCH_RANK_PROGRAM_H_ */
