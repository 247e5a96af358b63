/* sennit.h: collective communication over every wire of one machine.
 *
 *   sennit_comm_t comm = NULL;
 *   sennit_status_t status = sennit_comm_init_env(&comm, NULL);  // of torchrun, mpirun, srun, ...
 *   if (status == SENNIT_OK) {
 *     status = sennit_all_reduce(x, x, 1024, SENNIT_FLOAT32, SENNIT_SUM, comm, NULL, NULL);
 *   }
 *   if (status != SENNIT_OK) {
 *     fprintf(stderr, "%s\n", sennit_last_error_message());
 *   }
 *   sennit_comm_destroy(comm);
 *
 * Threads: functions on different communicators may be called from different threads at any time.
 * Functions on one communicator may be called from any thread, one thread at a time; abort may be
 * called from any thread while another waits. Groups and the last error belong to the calling
 * thread.
 *
 * Buffers belong to the caller and must stay valid until the call has returned, or until its work
 * has been waited for. In place: all_reduce, reduce and broadcast with recv == send; all_gather and
 * gather with send == recv + rank * count elements; reduce_scatter and scatter with
 * recv == send + rank * count elements; all_to_all with recv == send, of GPU ranks on all or none.
 * Other overlaps are errors. The v-forms are told below.
 *
 * `count` is in elements: of the whole vector for all_reduce, reduce, broadcast, send and recv; of
 * one rank's part for all_gather, reduce_scatter, all_to_all, gather and scatter. Zero is allowed.
 *
 * `stream` is a cudaStream_t for buffers in GPU memory and NULL for buffers in host memory.
 *
 * Every struct begins with its own size, set by its initializer, so that it can grow.
 */
#ifndef SENNIT_SENNIT_H_
#define SENNIT_SENNIT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SENNIT_API __attribute__((visibility("default")))
#else
#define SENNIT_API
#endif

#define SENNIT_VERSION_MAJOR 0
#define SENNIT_VERSION_MINOR 1
#define SENNIT_VERSION_PATCH 0

/* ---- Status ------------------------------------------------------------------------------- */

typedef enum sennit_status_t {
#define SENNIT_CODE(c_name, value, cpp_name, python_name, text) c_name = (value),
#include "sennit/codes.def"
#undef SENNIT_CODE
  SENNIT_STATUS_MAX_ = 0x7fffffff /* keeps the enum at 32 bits */
} sennit_status_t;

/* "SENNIT_RANK_FAILED", and the sentence that belongs to it. Never NULL, for any value. */
SENNIT_API const char* sennit_status_name(sennit_status_t status);
SENNIT_API const char* sennit_status_text(sennit_status_t status);

/* The error contract as fields. Strings and arrays are never NULL, may be empty, and stay valid
 * until the next failure on the same thread (sennit_last_error) or communicator. */
typedef struct sennit_error_t {
  size_t struct_size;
  sennit_status_t status;
  const char* message; /* one line: what, where, what to do */
  const char* comm;    /* name of the communicator */
  const char* op;      /* "all_reduce"; empty outside a call */
  uint64_t sequence;   /* number of the call on its communicator, from 1 */
  uint64_t count;
  const char* dtype;
  const char* reduce_op;
  int32_t root; /* -1: none */
  int32_t rank; /* of the caller; -1: none */
  int32_t size;
  const int32_t* blamed_ranks;
  size_t blamed_count;
  const char* evidence;
  double elapsed_s;
  const char* next;
} sennit_error_t;
#define SENNIT_ERROR_INITIALIZER \
  {sizeof(sennit_error_t), SENNIT_OK, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0}

/* The last failure of a call made by this thread; status SENNIT_OK when there was none. */
SENNIT_API sennit_status_t sennit_last_error(sennit_error_t* error);
SENNIT_API const char* sennit_last_error_message(void);

/* ---- Version -------------------------------------------------------------------------------- */

/* major * 10000 + minor * 100 + patch of the library that runs. */
SENNIT_API int sennit_version(void);
SENNIT_API const char* sennit_version_string(void);

/* ---- Types ---------------------------------------------------------------------------------- */

typedef enum sennit_dtype_t {
  SENNIT_FLOAT32 = 0,
  SENNIT_FLOAT64 = 1,
  SENNIT_INT32 = 2,
  SENNIT_INT64 = 3,
  SENNIT_UINT8 = 4,
  SENNIT_INT8 = 5,
  SENNIT_INT16 = 6,
  SENNIT_UINT16 = 7,
  SENNIT_UINT32 = 8,
  SENNIT_UINT64 = 9,
  SENNIT_BOOL = 10, /* a byte; any but zero is true */
  SENNIT_FLOAT16 = 11,
  SENNIT_BFLOAT16 = 12,
  SENNIT_FLOAT8_E4M3FN = 13,
  SENNIT_FLOAT8_E5M2 = 14,
  SENNIT_COMPLEX64 = 15, /* two float32: real, imaginary */
  SENNIT_COMPLEX128 = 16,
  SENNIT_DTYPE_MAX_ = 0x7fffffff
} sennit_dtype_t;

/* docs/numerics.md says which operators there are for which types, and what each computes; other
 * pairs are refused with SENNIT_UNSUPPORTED. Operators made by sennit_redop_create_premulsum have
 * values from SENNIT_REDOP_CUSTOM_FIRST on. */
typedef enum sennit_redop_t {
  SENNIT_SUM = 0,
  SENNIT_PROD = 1,
  SENNIT_MIN = 2,
  SENNIT_MAX = 3,
  SENNIT_AVG = 4,
  SENNIT_LOGICAL_AND = 5,
  SENNIT_LOGICAL_OR = 6,
  SENNIT_LOGICAL_XOR = 7,
  SENNIT_BITWISE_AND = 8,
  SENNIT_BITWISE_OR = 9,
  SENNIT_BITWISE_XOR = 10,
  SENNIT_REDOP_CUSTOM_FIRST = 1024,
  SENNIT_REDOP_MAX_ = 0x7fffffff
} sennit_redop_t;

typedef struct sennit_comm* sennit_comm_t;
typedef struct sennit_work* sennit_work_t;

/* Names one set of ranks that are to join. 128 bytes, to be carried to all of them as they are. */
typedef struct sennit_unique_id_t {
  unsigned char bytes[128];
} sennit_unique_id_t;

/* ---- Communicators -------------------------------------------------------------------------- */

/* A zero or NULL field takes the environment variable beside it, else the default. */
typedef struct sennit_config_t {
  size_t struct_size;
  const char* name;      /* in messages; default "world" */
  double join_timeout_s; /* SENNIT_JOIN_TIMEOUT_S, 60 */
  double deadline_s;     /* SENNIT_DEADLINE_S, 30; negative: none */
  const char* paths;     /* SENNIT_PATHS, "shm,cma": what may be used; GPUs: docs/multipath.md */
  int64_t slot_bytes;    /* SENNIT_SLOT_BYTES, by the number of ranks */
  int32_t slots;         /* SENNIT_SLOTS, by the number of ranks */
  int32_t ports;         /* SENNIT_PORTS, 4: channels between two ranks that one plan may have */
  int32_t
      non_blocking; /* 1: init returns SENNIT_IN_PROGRESS at once; ask sennit_comm_async_error */
  int32_t reproducible; /* SENNIT_REPRODUCIBLE, 0. 1: all calls, see sennit_call_options_t */
  const char* device;   /* SENNIT_DEVICE, "host"; "cuda": the thread's current device; "cuda:1" */
  const char* path_policy;  /* SENNIT_PATH_POLICY, "least_loaded": how calls use several paths */
  const char* tuning_table; /* SENNIT_TUNING_TABLE, none: the file that `sennit tune` wrote here */
} sennit_config_t;
#define SENNIT_CONFIG_INITIALIZER {sizeof(sennit_config_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* A fresh id; made by one rank and carried to the others by the program. */
SENNIT_API sennit_status_t sennit_unique_id_create(sennit_unique_id_t* id);
/* The id that belongs to a text that all ranks know (a job's name); the same text, the same id. */
SENNIT_API sennit_status_t sennit_unique_id_from_text(sennit_unique_id_t* id, const char* text);

/* Rank, size and id from the launcher's variables; the order is in docs/launchers.md. */
SENNIT_API sennit_status_t sennit_comm_init_env(sennit_comm_t* comm, const sennit_config_t* config);
SENNIT_API sennit_status_t sennit_comm_init_rank(sennit_comm_t* comm,
                                                 int size,
                                                 const sennit_unique_id_t* id,
                                                 int rank,
                                                 const sennit_config_t* config);
/* All ranks of a communicator in this process, rank i in comms[i]. devices: NULL for host ranks. */
SENNIT_API sennit_status_t sennit_comm_init_all(sennit_comm_t* comms,
                                                int size,
                                                const int* devices,
                                                const sennit_config_t* config);
/* Ranks with the same color (>= 0) form a communicator, ordered by key, then rank. color < 0: none,
 * *result becomes NULL. Called by all ranks. config: NULL takes the parent's. */
SENNIT_API sennit_status_t sennit_comm_split(
    sennit_comm_t comm, int color, int key, sennit_comm_t* result, const sennit_config_t* config);
/* A communicator without `excluded` ranks and without those known to be dead; called by the others,
 * on a communicator that may have failed. */
SENNIT_API sennit_status_t sennit_comm_shrink(sennit_comm_t comm,
                                              const int* excluded,
                                              int excluded_count,
                                              sennit_comm_t* result,
                                              const sennit_config_t* config);
/* Ends all waiting, here and on the other ranks, with SENNIT_ABORTED; a non-blocking init, too. */
SENNIT_API sennit_status_t sennit_comm_abort(sennit_comm_t comm);
/* Says that this rank makes no more calls. Waits for the rank's own outstanding works. Refused
 * while this thread's open group has calls of it. */
SENNIT_API sennit_status_t sennit_comm_finalize(sennit_comm_t comm);
/* Finalizes if needed and frees, also where it returns an error. Needs no peer. NULL is allowed;
 * refused, and not freed, while this thread's open group has calls of it. */
SENNIT_API sennit_status_t sennit_comm_destroy(sennit_comm_t comm);
/* SENNIT_OK, SENNIT_IN_PROGRESS while a non-blocking init runs, or why the communicator failed. */
SENNIT_API sennit_status_t sennit_comm_async_error(sennit_comm_t comm, sennit_status_t* state);
SENNIT_API sennit_status_t sennit_comm_last_error(sennit_comm_t comm, sennit_error_t* error);
SENNIT_API sennit_status_t sennit_comm_rank(sennit_comm_t comm, int* rank);
SENNIT_API sennit_status_t sennit_comm_size(sennit_comm_t comm, int* size);
/* CUDA device of this rank, -1 for a host rank. */
SENNIT_API sennit_status_t sennit_comm_device(sennit_comm_t comm, int* device);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Memory that peers can reach: of the device that SENNIT_DEVICE names, as in sennit_config_t. On
 * host ranks any memory is as good. */
SENNIT_API sennit_status_t sennit_mem_alloc(void** pointer, size_t bytes);
/* Of this device; NULL: that of SENNIT_DEVICE. */
SENNIT_API sennit_status_t sennit_mem_alloc_on(void** pointer, size_t bytes, const char* device);
/* Of memory of either; NULL is allowed. */
SENNIT_API sennit_status_t sennit_mem_free(void* pointer);
/* A hint that the buffer will be used often, of one rank; waits for nobody. GPU ranks tell the
 * others, who map the buffer at their next call that is not captured: from then on what is large is
 * stored straight there, also the first time. Host ranks need none. */
SENNIT_API sennit_status_t sennit_comm_register(sennit_comm_t comm,
                                                void* pointer,
                                                size_t bytes,
                                                void** handle);
SENNIT_API sennit_status_t sennit_comm_deregister(sennit_comm_t comm, void* handle);

/* ---- Operators ------------------------------------------------------------------------------ */

/* The sum of contributions, each first multiplied by the *scalar of its rank and rounded to dtype.
 * *scalar lies in host memory and is copied. The operator serves calls of this communicator and
 * dtype; calls that have been made do not need it any more. */
SENNIT_API sennit_status_t sennit_redop_create_premulsum(sennit_redop_t* op,
                                                         const void* scalar,
                                                         sennit_dtype_t dtype,
                                                         sennit_comm_t comm);
/* The same, of a scalar that lies where the GPU of this rank can read it. Calls read it when they
 * run, so work before them in their streams may write it; it stays valid until they have ended. */
SENNIT_API sennit_status_t sennit_redop_create_premulsum_on_device(sennit_redop_t* op,
                                                                   const void* scalar,
                                                                   sennit_dtype_t dtype,
                                                                   sennit_comm_t comm);
SENNIT_API sennit_status_t sennit_redop_destroy(sennit_redop_t op, sennit_comm_t comm);

/* ---- Calls ---------------------------------------------------------------------------------- */

/* A zero or NULL field leaves the choice to Sennit. All ranks must ask for the same. */
typedef struct sennit_call_options_t {
  size_t struct_size;
  const char* algorithm; /* by name; refused when it cannot run this call as named */
  const char* path;      /* "shm", "cma", or both: "shm+cma", "cma+shm"; see path_policy. GPU ranks:
                            "nvlink", "host", "nvlink+host", "nvlink+host:8" (percent by host), or
                            "nvlink+host:dynamic" (sends and recvs) */
  const char* protocol;  /* "slots", "direct". GPU ranks: "ll", "ll128", "slots", "direct_put",
                            "direct_get" (sends and recvs), "copy_engines" */
  int64_t tile_bytes;
  double deadline_s;   /* of this call; negative: none */
  sennit_work_t* work; /* not NULL: the call returns at once; wait for *work, then destroy it */
  int32_t
      reproducible; /* 1: reductions in the order of ranks, so that the bits of the result do not
                       depend on size, algorithm or path; refused for algorithms that cannot */
} sennit_call_options_t;
#define SENNIT_CALL_OPTIONS_INITIALIZER {sizeof(sennit_call_options_t), 0, 0, 0, 0, 0, 0, 0}

SENNIT_API sennit_status_t sennit_all_reduce(const void* send,
                                             void* recv,
                                             size_t count,
                                             sennit_dtype_t dtype,
                                             sennit_redop_t op,
                                             sennit_comm_t comm,
                                             void* stream,
                                             const sennit_call_options_t* options);
/* recv is used at the root only. */
SENNIT_API sennit_status_t sennit_reduce(const void* send,
                                         void* recv,
                                         size_t count,
                                         sennit_dtype_t dtype,
                                         sennit_redop_t op,
                                         int root,
                                         sennit_comm_t comm,
                                         void* stream,
                                         const sennit_call_options_t* options);
/* send is used at the root only. */
SENNIT_API sennit_status_t sennit_broadcast(const void* send,
                                            void* recv,
                                            size_t count,
                                            sennit_dtype_t dtype,
                                            int root,
                                            sennit_comm_t comm,
                                            void* stream,
                                            const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_all_gather(const void* send,
                                             void* recv,
                                             size_t count,
                                             sennit_dtype_t dtype,
                                             sennit_comm_t comm,
                                             void* stream,
                                             const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_reduce_scatter(const void* send,
                                                 void* recv,
                                                 size_t count,
                                                 sennit_dtype_t dtype,
                                                 sennit_redop_t op,
                                                 sennit_comm_t comm,
                                                 void* stream,
                                                 const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_all_to_all(const void* send,
                                             void* recv,
                                             size_t count,
                                             sennit_dtype_t dtype,
                                             sennit_comm_t comm,
                                             void* stream,
                                             const sennit_call_options_t* options);
/* recv is used at the root only. */
SENNIT_API sennit_status_t sennit_gather(const void* send,
                                         void* recv,
                                         size_t count,
                                         sennit_dtype_t dtype,
                                         int root,
                                         sennit_comm_t comm,
                                         void* stream,
                                         const sennit_call_options_t* options);
/* send is used at the root only. */
SENNIT_API sennit_status_t sennit_scatter(const void* send,
                                          void* recv,
                                          size_t count,
                                          sennit_dtype_t dtype,
                                          int root,
                                          sennit_comm_t comm,
                                          void* stream,
                                          const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_barrier(sennit_comm_t comm,
                                          void* stream,
                                          const sennit_call_options_t* options);
/* The k-th send from a to b meets the k-th recv at b from a, with the same count and dtype. A send
 * may wait for its recv; sends and recvs that need each other belong in one group. A rank with a
 * GPU may be its own peer. */
SENNIT_API sennit_status_t sennit_send(const void* send,
                                       size_t count,
                                       sennit_dtype_t dtype,
                                       int peer,
                                       sennit_comm_t comm,
                                       void* stream,
                                       const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_recv(void* recv,
                                       size_t count,
                                       sennit_dtype_t dtype,
                                       int peer,
                                       sennit_comm_t comm,
                                       void* stream,
                                       const sennit_call_options_t* options);

/* The v-forms: lengths in elements by rank, each block at its displacement in elements; NULL
 * displacements: one block after the other. Any length may be zero. A length is given at both ends
 * (in all_gather_v on all ranks) and must be the same there, else SENNIT_MISMATCH names the two
 * ranks and both numbers. Counts and displacements are read before the call returns, also inside
 * groups and with a work. gather_v uses recv and its table at the root only, scatter_v send and its
 * table.
 * In place: all_gather_v and gather_v with send == recv + recv_displacements[rank] elements,
 * scatter_v with recv == send + send_displacements[rank] elements; never all_to_all_v. Other
 * overlaps of the two buffers, each from first to last block, and of recv blocks are errors.
 * Algorithms that pass on blocks whose lengths a rank does not know (gather binomial) are refused
 * by name. */
SENNIT_API sennit_status_t sennit_all_gather_v(const void* send,
                                               size_t send_count,
                                               void* recv,
                                               const size_t* recv_counts,
                                               const size_t* recv_displacements,
                                               sennit_dtype_t dtype,
                                               sennit_comm_t comm,
                                               void* stream,
                                               const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_all_to_all_v(const void* send,
                                               const size_t* send_counts,
                                               const size_t* send_displacements,
                                               void* recv,
                                               const size_t* recv_counts,
                                               const size_t* recv_displacements,
                                               sennit_dtype_t dtype,
                                               sennit_comm_t comm,
                                               void* stream,
                                               const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_gather_v(const void* send,
                                           size_t send_count,
                                           void* recv,
                                           const size_t* recv_counts,
                                           const size_t* recv_displacements,
                                           sennit_dtype_t dtype,
                                           int root,
                                           sennit_comm_t comm,
                                           void* stream,
                                           const sennit_call_options_t* options);
SENNIT_API sennit_status_t sennit_scatter_v(const void* send,
                                            const size_t* send_counts,
                                            const size_t* send_displacements,
                                            void* recv,
                                            size_t recv_count,
                                            sennit_dtype_t dtype,
                                            int root,
                                            sennit_comm_t comm,
                                            void* stream,
                                            const sennit_call_options_t* options);

/* ---- Groups --------------------------------------------------------------------------------- */

/* Calls between start and end, on any communicators, are made together at the outermost end. They
 * may be posted in any order on different ranks as long as the collectives of one communicator, and
 * the sends (recvs) to (from) one peer, are in the same order. Groups belong to the thread and
 * nest. GPU ranks take up to SENNIT_GROUP_MESSAGES_MAX sends and recvs of one communicator in a
 * group. */
#define SENNIT_GROUP_MESSAGES_MAX 64
SENNIT_API sennit_status_t sennit_group_start(void);
SENNIT_API sennit_status_t sennit_group_end(void);

/* ---- Works ---------------------------------------------------------------------------------- */

/* Waits at most timeout_s (negative: until the deadline of the call). SENNIT_IN_PROGRESS when the
 * time is over first; the status of the call once it has ended. Progress is made inside calls of
 * this library, not by a thread of its own. */
SENNIT_API sennit_status_t sennit_work_wait(sennit_work_t work, double timeout_s);
/* Makes some progress; *done becomes 1 when the call has ended (sennit_work_wait tells how). */
SENNIT_API sennit_status_t sennit_work_test(sennit_work_t work, int* done);
/* Waits for the call if it has not ended, then frees. NULL is allowed. */
SENNIT_API sennit_status_t sennit_work_destroy(sennit_work_t work);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_SENNIT_H_ */
