/* sennit.h: collective communication between the ranks of one machine or several, in host or GPU
 * memory.
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
 * Ranks: a rank is a process or a thread. A communicator has either host ranks, whose buffers are
 * in host memory, or GPU ranks, whose buffers are in memory of their GPU, in pinned or in managed
 * memory. All ranks of a communicator make the same calls in the same order.
 *
 * Return of a call:
 *   host rank  when the call has ended. With `work` in its options: at once.
 *   GPU rank   when the call is enqueued on `stream`. Some large calls block the host before that,
 *              until other ranks have made them as well: docs/gpu_rules.md lists them.
 *
 * Stream order: `stream` is a cudaStream_t of a GPU rank's device, NULL its default stream. A call
 * begins after all earlier work of its stream and after all earlier calls of its communicator on
 * any stream. Later work of its stream begins after the call. Host ranks take NULL only.
 *
 * Buffers belong to the caller. Until a call has ended, do not write its send buffer, do not access
 * its recv buffer, and free neither:
 *   host rank  it has ended when it has returned; with a work, when sennit_work_wait has returned
 *              anything but SENNIT_IN_PROGRESS.
 *   GPU rank   it has ended when its stream has run past it. Work that is enqueued on that stream
 *              after the call may use the buffers. Before the host or another stream uses or frees
 *              them, synchronize with the stream, or let sennit_work_wait return SENNIT_OK.
 * All else that a call is given (options, strings, counts, displacements) is read before it
 * returns, also inside a group.
 *
 * Failure: a call that is refused (SENNIT_INVALID_ARGUMENT, SENNIT_INVALID_USAGE,
 * SENNIT_UNSUPPORTED) has no effect. Other errors make the communicator fail, for which
 * sennit_comm_async_error can be asked: outputs are undefined, and later calls return the error.
 * GPU calls may fail after they have returned; sennit_comm_async_error, the next call and the
 * call's work say so. Peers may still write into outputs of a failed GPU communicator: free these
 * after the communicators of all ranks have been destroyed.
 *
 * CUDA graphs: a GPU call may be captured. It then runs at each launch of the graph, and cannot
 * have a work. Under capture the program itself orders the streams of a communicator's calls.
 * docs/gpu_rules.md has the rules for graphs.
 *
 * In place: all_reduce, reduce and broadcast with recv == send; all_gather and gather with
 * send == recv + rank * count elements; reduce_scatter and scatter with
 * recv == send + rank * count elements; all_to_all with recv == send, on all GPU ranks or on none.
 * Any other overlap of send and recv is an error. The v-forms have rules of their own, see below.
 *
 * `count` is in elements: of the whole vector for all_reduce, reduce, broadcast, send and recv; of
 * one rank's block for all_gather, reduce_scatter, all_to_all, gather and scatter. Zero is allowed.
 *
 * Threads: different communicators may be used by different threads at the same time. One
 * communicator, with its works, may be used by any thread, but by one at a time. Exceptions:
 * sennit_comm_abort, and the functions of a work of host ranks, may be called at any time. Groups
 * and the last error belong to the calling thread.
 *
 * Every struct begins with its own size, which its initializer sets, so that it can grow.
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

/* The name ("SENNIT_RANK_FAILED") and the description of a status. Never NULL, for any value. */
SENNIT_API const char* sennit_status_name(sennit_status_t status);
SENNIT_API const char* sennit_status_text(sennit_status_t status);

/* An error with its facts as fields (docs/errors.md). Strings and arrays are never NULL but may be
 * empty. They stay valid until the next error of the same thread (sennit_last_error) or the next
 * sennit_comm_last_error of the same communicator. */
typedef struct sennit_error_t {
  size_t struct_size;
  sennit_status_t status;
  const char* message; /* one line: what failed, where, what to do */
  const char* comm;    /* name of the communicator */
  const char* op;      /* "all_reduce"; empty outside a call */
  uint64_t sequence;   /* number of the collective on its communicator, from 1; 0: none */
  uint64_t count;
  const char* dtype;
  const char* reduce_op;
  int32_t root; /* -1: none */
  int32_t rank; /* of the caller; -1: none */
  int32_t size;
  const int32_t* blamed_ranks; /* the ranks that caused it, as far as known */
  size_t blamed_count;
  const char* evidence; /* what was observed */
  double elapsed_s;     /* since the call was made */
  const char* next;     /* what to do */
} sennit_error_t;
#define SENNIT_ERROR_INITIALIZER \
  {sizeof(sennit_error_t), SENNIT_OK, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0}

/* The last error returned to this thread; status SENNIT_OK if there was none. */
SENNIT_API sennit_status_t sennit_last_error(sennit_error_t* error);
SENNIT_API const char* sennit_last_error_message(void);

/* ---- Version -------------------------------------------------------------------------------- */

/* major * 10000 + minor * 100 + patch of the library that is loaded. */
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
  SENNIT_BOOL = 10, /* one byte; nonzero is true */
  SENNIT_FLOAT16 = 11,
  SENNIT_BFLOAT16 = 12,
  SENNIT_FLOAT8_E4M3FN = 13,
  SENNIT_FLOAT8_E5M2 = 14,
  SENNIT_COMPLEX64 = 15, /* two float32: real, imaginary */
  SENNIT_COMPLEX128 = 16,
  SENNIT_DTYPE_MAX_ = 0x7fffffff
} sennit_dtype_t;

/* docs/numerics.md says which operators each type has, and what they compute; other pairs are
 * refused with SENNIT_UNSUPPORTED. Operators made by sennit_redop_create_premulsum have values from
 * SENNIT_REDOP_CUSTOM_FIRST on. */
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

/* Identifies the ranks of one communicator while they join. The program sends its 128 bytes,
 * unchanged, to all of them. */
typedef struct sennit_unique_id_t {
  unsigned char bytes[128];
} sennit_unique_id_t;

/* ---- Communicators -------------------------------------------------------------------------- */

/* A field that is zero or NULL takes the value of the environment variable named beside it, if that
 * is set, else the default. */
typedef struct sennit_config_t {
  size_t struct_size;
  const char* name;      /* for messages; default "world" */
  double join_timeout_s; /* SENNIT_JOIN_TIMEOUT_S, default 60 */
  double deadline_s;     /* of each call; SENNIT_DEADLINE_S, default 30; negative: none */
  const char* paths;     /* allowed; SENNIT_PATHS, default "shm,cma"; GPUs: docs/multipath.md */
  int64_t slot_bytes;    /* SENNIT_SLOT_BYTES, default by the number of ranks */
  int32_t slots;         /* SENNIT_SLOTS, default by the number of ranks */
  int32_t ports;         /* channels from one rank to another in a plan; SENNIT_PORTS, default 4 */
  int32_t non_blocking;  /* 1: init returns SENNIT_IN_PROGRESS; poll sennit_comm_async_error */
  int32_t reproducible;  /* 1: as in sennit_call_options_t, for all calls; SENNIT_REPRODUCIBLE */
  const char* device;    /* "host", "cuda" (the current device of the calling thread) or "cuda:1";
                            SENNIT_DEVICE, default "host" */
  const char* path_policy;  /* how host ranks use several paths; SENNIT_PATH_POLICY, default
                               "least_loaded" */
  const char* tuning_table; /* file written by `sennit tune` on this machine; SENNIT_TUNING_TABLE,
                               default none */
  int (*idle_hook)(void* argument); /* host ranks: a thread that waits for a call runs it again and
                                       again; it may use other communicators. Not 0: something
                                       moved, so the thread does not sleep yet */
  void* idle_argument;
  double idle_after_s;    /* when it has waited so long; default: after some microseconds */
  double first_warning_s; /* a call that takes so long warns, and at each doubling; default 5 */
  const char* codec;      /* which calls use a codec, as rules (docs/codecs.md);
                             SENNIT_CODEC, default none */
  int32_t device_blocks;  /* GPU ranks: most thread blocks (and so SMs) of a call, up to 256;
                             SENNIT_DEVICE_BLOCKS, default 128 */
} sennit_config_t;
#define SENNIT_CONFIG_INITIALIZER \
  {sizeof(sennit_config_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* A new random id. One rank makes it, and the program sends it to the others. */
SENNIT_API sennit_status_t sennit_unique_id_create(sennit_unique_id_t* id);
/* An id derived from a text that all ranks know, such as a job name. Equal texts give equal ids. */
SENNIT_API sennit_status_t sennit_unique_id_from_text(sennit_unique_id_t* id, const char* text);

/* All ranks call one of these. Each blocks until all ranks have joined, unless the config says
 * non_blocking. sennit_comm_init_env takes rank, size and id from the variables of the launcher
 * (docs/launchers.md). */
SENNIT_API sennit_status_t sennit_comm_init_env(sennit_comm_t* comm, const sennit_config_t* config);
SENNIT_API sennit_status_t sennit_comm_init_rank(sennit_comm_t* comm,
                                                 int size,
                                                 const sennit_unique_id_t* id,
                                                 int rank,
                                                 const sennit_config_t* config);
/* All ranks in the calling process: comms[i] is rank i, on GPU devices[i]; NULL for host ranks. */
SENNIT_API sennit_status_t sennit_comm_init_all(sennit_comm_t* comms,
                                                int size,
                                                const int* devices,
                                                const sennit_config_t* config);
/* Collective. Ranks with the same color (>= 0) form a communicator, ordered by key, then by rank. A
 * rank with color < 0 gets none: *result becomes NULL. config: NULL takes that of `comm`. */
SENNIT_API sennit_status_t sennit_comm_split(
    sennit_comm_t comm, int color, int key, sennit_comm_t* result, const sennit_config_t* config);
/* A communicator without the excluded ranks and without those known to be dead. Called by all other
 * ranks, with the same list; `comm` may have failed. */
SENNIT_API sennit_status_t sennit_comm_shrink(sennit_comm_t comm,
                                              const int* excluded,
                                              int excluded_count,
                                              sennit_comm_t* result,
                                              const sennit_config_t* config);
/* Makes the communicator fail with SENNIT_ABORTED on all ranks: calls that wait return, kernels and
 * streams that wait for other ranks go on. Also ends a non-blocking init. Does not block. */
SENNIT_API sennit_status_t sennit_comm_abort(sennit_comm_t comm);
/* Declares that this rank makes no more calls. Waits for its outstanding calls (for those of GPU
 * ranks together with earlier work of their streams, but not for graphs), then needs no peer. Calls
 * that have not ended after 4 seconds are abandoned: the communicator is aborted, and
 * SENNIT_INVALID_USAGE returned. GPU ranks without a deadline wait for as long as peers may come.
 * Returns the error of GPU calls that fail meanwhile. Refused while the open group of this thread
 * has calls of the communicator. */
SENNIT_API sennit_status_t sennit_comm_finalize(sennit_comm_t comm);
/* Finalizes if that has not been done, then frees the communicator, whatever it returns. NULL is
 * allowed. Refused, and nothing is freed, while the open group of this thread has calls of the
 * communicator. Works stay valid. Graphs with captured calls must not run any more. */
SENNIT_API sennit_status_t sennit_comm_destroy(sennit_comm_t comm);
/* *state: SENNIT_OK, SENNIT_IN_PROGRESS while a non-blocking init runs, or why it has failed. */
SENNIT_API sennit_status_t sennit_comm_async_error(sennit_comm_t comm, sennit_status_t* state);
SENNIT_API sennit_status_t sennit_comm_last_error(sennit_comm_t comm, sennit_error_t* error);
SENNIT_API sennit_status_t sennit_comm_rank(sennit_comm_t comm, int* rank);
SENNIT_API sennit_status_t sennit_comm_size(sennit_comm_t comm, int* size);
/* The CUDA device of this rank; -1 for a host rank. */
SENNIT_API sennit_status_t sennit_comm_device(sennit_comm_t comm, int* device);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Memory of the device that SENNIT_DEVICE names: ordinary memory for host ranks, memory of
 * cudaMalloc for GPU ranks. No call requires buffers from here. */
SENNIT_API sennit_status_t sennit_mem_alloc(void** pointer, size_t bytes);
/* The same for a device by name, as in sennit_config_t; NULL: that of SENNIT_DEVICE. */
SENNIT_API sennit_status_t sennit_mem_alloc_on(void** pointer, size_t bytes, const char* device);
/* Frees memory of either function. NULL is allowed. */
SENNIT_API sennit_status_t sennit_mem_free(void* pointer);
/* Hint: calls will receive in this buffer. One rank alone may register. GPU ranks advertise the
 * buffer to their peers without blocking; each peer maps it in its next call that is not under
 * stream capture, and large transfers then write into it directly, also the first one. Host ranks
 * ignore it. Deregistering it has no effect: peers unmap memory after it has been freed. */
SENNIT_API sennit_status_t sennit_comm_register(sennit_comm_t comm,
                                                void* pointer,
                                                size_t bytes,
                                                void** handle);
/* Registers memory of all ranks, and advertises it to peers as sennit_comm_register does. All ranks
 * register in the same order and the same number of bytes; the call does not block. The program
 * promises that if the output (recv) of a collective lies in the memory on one rank, it does on
 * all, at the same offset. GPU ranks then know each other's outputs, so calls by copy engines
 * return without waiting on the host for the other ranks, but for the first one in each memory,
 * which learns where it lies; in memory of several allocations they meet always. All ranks
 * deregister between the same two calls, before any of them frees the memory. */
SENNIT_API sennit_status_t sennit_comm_register_symmetric(sennit_comm_t comm,
                                                          void* pointer,
                                                          size_t bytes,
                                                          void** handle);
SENNIT_API sennit_status_t sennit_comm_deregister(sennit_comm_t comm, void* handle);

/* ---- Operators ------------------------------------------------------------------------------ */

/* A sum whose contributions are first multiplied by the *scalar of their rank and rounded to dtype.
 * *scalar is in host memory and is copied. The operator is for calls of this communicator and
 * dtype. It may be destroyed as soon as these have returned. */
SENNIT_API sennit_status_t sennit_redop_create_premulsum(sennit_redop_t* op,
                                                         const void* scalar,
                                                         sennit_dtype_t dtype,
                                                         sennit_comm_t comm);
/* The same with a scalar that the GPU of this rank can read. Calls read it when they run, so
 * earlier work of their stream may write it. It must stay valid until they have ended. */
SENNIT_API sennit_status_t sennit_redop_create_premulsum_on_device(sennit_redop_t* op,
                                                                   const void* scalar,
                                                                   sennit_dtype_t dtype,
                                                                   sennit_comm_t comm);
SENNIT_API sennit_status_t sennit_redop_destroy(sennit_redop_t op, sennit_comm_t comm);

/* ---- Calls ---------------------------------------------------------------------------------- */

/* What an all_reduce by SENNIT_SUM of bfloat16 or float16 on GPU ranks goes on to do with its sum,
 * for each row of row_elements:
 *
 *   residual  = residual + sum            rounded to the dtype
 *   recv      = residual / sqrt(mean(residual * residual) + epsilon) * weight
 *   quantized = recv / *scale             SENNIT_FLOAT8_E4M3FN, limited to 448
 *
 * in one kernel with the all_reduce where messages are small; the bits are those of a kernel behind
 * it. Mean and factors are computed in float. Buffers are memory that the GPU of this rank can use;
 * ranks with equal residuals and weights get equal results. A row is a multiple of 16 bytes, and
 * send, recv, residual and weight begin on boundaries of 16 bytes. The count is whole rows. */
typedef struct sennit_rms_norm_t {
  size_t struct_size;
  size_t row_elements;
  double epsilon;
  void* residual;     /* as many elements as the call has; NULL: zeros, and nothing is stored */
  const void* weight; /* of one row; NULL: ones */
  void* quantized;    /* a byte for each element; NULL: not stored */
  const float* scale; /* NULL: 1 */
  /* None of them overlaps with another or with the buffers of the call. */
} sennit_rms_norm_t;
#define SENNIT_RMS_NORM_INITIALIZER {sizeof(sennit_rms_norm_t), 0, 0, 0, 0, 0, 0}

/* A field that is zero or NULL leaves the choice to the library. All ranks must request the same,
 * except deadline_s, work and the buffers of rms_norm. A request that cannot be met is an error. */
typedef struct sennit_call_options_t {
  size_t struct_size;
  const char* algorithm; /* name of a row of docs/algorithms.md */
  const char* path;      /* host ranks: "shm", "cma", "shm+cma", "cma+shm"; between nodes also
                            cards, "rail/1", "rail/0+rail/1". GPU ranks: "nvlink", "host",
                            "nvlink+host", "nvlink+host:8" (8 percent through host memory) or
                            "nvlink+host:dynamic" (send and recv only); "device" in place of
                            "nvlink" where all ranks share one GPU */
  const char* protocol;  /* host ranks: "slots" or "direct". GPU ranks: "ll", "ll128", "slots",
                            "direct_put", "direct_get" (send, recv, all_reduce, reduce_scatter)
                            or "copy_engines" */
  int64_t tile_bytes;    /* host ranks only */
  double deadline_s;     /* of this call; 0: that of the communicator; negative: none */
  sennit_work_t* work;   /* not NULL: where to store the work of this call, if the call returns
                            SENNIT_OK; see "Works" */
  int32_t reproducible;  /* 1: reduce in rank order, so that the bits of the result do not depend on
                            size, algorithm or path */
  const char* codec;     /* what shortens messages, such as "q8" or "zfp:16", or "none"
                            whatever the config says; results differ from those without it as
                            docs/codecs.md says. SENNIT_UNSUPPORTED for a type that it does not
                            take, and for a lossy one in a reproducible call */
  int32_t tag;           /* of a send or recv, see there; not negative. Host ranks of one node */
  const sennit_rms_norm_t* rms_norm; /* of an all_reduce; read before the call returns */
  int32_t device_blocks;             /* GPU ranks: most thread blocks of this call; 0: those of the
                                        communicator. Beyond them it has no effect */
} sennit_call_options_t;
#define SENNIT_CALL_OPTIONS_INITIALIZER \
  {sizeof(sennit_call_options_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

SENNIT_API sennit_status_t sennit_all_reduce(const void* send,
                                             void* recv,
                                             size_t count,
                                             sennit_dtype_t dtype,
                                             sennit_redop_t op,
                                             sennit_comm_t comm,
                                             void* stream,
                                             const sennit_call_options_t* options);
/* recv is used by the root only. */
SENNIT_API sennit_status_t sennit_reduce(const void* send,
                                         void* recv,
                                         size_t count,
                                         sennit_dtype_t dtype,
                                         sennit_redop_t op,
                                         int root,
                                         sennit_comm_t comm,
                                         void* stream,
                                         const sennit_call_options_t* options);
/* send is used by the root only. */
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
/* recv is used by the root only. */
SENNIT_API sennit_status_t sennit_gather(const void* send,
                                         void* recv,
                                         size_t count,
                                         sennit_dtype_t dtype,
                                         int root,
                                         sennit_comm_t comm,
                                         void* stream,
                                         const sennit_call_options_t* options);
/* send is used by the root only. */
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
/* The k-th send of a tag from rank a to rank b matches the k-th recv of that tag of b from a, and
 * must have the same count and dtype. A send may wait for its recv, so put sends and recvs that
 * depend on each other into one group. A rank may send to itself, within a group.
 *
 * A recv with peer SENNIT_ANY_RANK takes the first message of its tag from any other rank; its work
 * knows from which (sennit_work_peer). It fails when a rank has died, or all others have finalized.
 *
 * Host ranks: while a recv waits, messages of its peer that come before its own, and have other
 * tags, are received into memory of the library, where they lie until their recvs are called. */
#define SENNIT_ANY_RANK (-2)
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

/* The v-forms: blocks of different lengths. Counts and displacements are in elements, one for each
 * rank. NULL displacements: the blocks are contiguous, in rank order. A count may be zero. Sender
 * and receiver (in all_gather_v all ranks) must give the same count for a block, else
 * SENNIT_MISMATCH names the two ranks and both counts. gather_v uses recv and its arrays at the
 * root only, scatter_v send and its arrays. In place: all_gather_v and gather_v with send == recv +
 * recv_displacements[rank] elements, scatter_v with recv == send + send_displacements[rank]
 * elements, all_to_all_v never. Any other overlap of the two buffers (each from its first to its
 * last block) is an error, and so are recv blocks that overlap each other. Algorithms that forward
 * blocks whose length a rank does not know (binomial gather_v) are refused. */
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

/* Calls between start and end, on any communicators, are made together by the outermost
 * sennit_group_end, which returns the error of any of them. Buffers must be valid until they have
 * ended. Ranks may post the calls of a group in different orders, except that the collectives of
 * one communicator, and the sends to (recvs from) one peer with one tag, need the same order on all
 * ranks. Groups belong to the calling thread and nest.
 *
 * Host ranks: sennit_group_end blocks until all calls without a work have ended. GPU ranks: it
 * enqueues, one communicator after the other, first the collectives in the order in which they were
 * posted, each on its stream, then all sends and recvs together on the stream of the first. The
 * streams of the other sends and recvs are joined: their earlier work comes before all of these
 * messages, their later work after all of them.
 *
 * If a call of the group is refused, host ranks make none of its calls. GPU ranks may have enqueued
 * earlier ones; their works, if requested, say which. */
#define SENNIT_GROUP_MESSAGES_MAX 64 /* sends and recvs of a GPU communicator in a group */
SENNIT_API sennit_status_t sennit_group_start(void);
SENNIT_API sennit_status_t sennit_group_end(void);

/* ---- Works ---------------------------------------------------------------------------------- */

/* A call with a work returns at once on host ranks too. In a group *work is stored when the call is
 * posted, and may be waited for after sennit_group_end; if that fails before the call was made,
 * waiting returns SENNIT_INVALID_USAGE. Each work has to be destroyed, also after its communicator,
 * which may be finalized and destroyed before its works.
 *
 * Host ranks make progress only inside calls of this library: a call that nobody waits for may
 * stand still. A call of a GPU rank makes progress by itself. Its work is an event in the call's
 * stream, directly behind the call. The work of a call that moves nothing (count 0) still waits for
 * earlier work of the stream. A call on a stream under capture is refused if it has a work. */

/* Waits for the end of the call, at most timeout_s; negative: without a limit other than the
 * deadline of the call. SENNIT_IN_PROGRESS: it has not ended in this time. SENNIT_OK: it has ended,
 * and its buffers may be used and freed. Any other status: the call, or its communicator, has
 * failed. GPU ranks return such a failure at once, although the stream may still be running; a call
 * that ended before the communicator failed, but was not waited for or tested until then, may be
 * reported as failed. */
SENNIT_API sennit_status_t sennit_work_wait(sennit_work_t work, double timeout_s);
/* Does not block. *done becomes 1 if sennit_work_wait would not return SENNIT_IN_PROGRESS, else 0.
 * Host ranks make some progress. */
SENNIT_API sennit_status_t sennit_work_test(sennit_work_t work, int* done);
/* The same for `count` works, of any communicators: done[i] is of works[i]. Many works of one
 * thread make progress together, which takes as long as testing one of them. */
SENNIT_API sennit_status_t sennit_works_test(const sennit_work_t* works, size_t count, int* done);
/* *peer: the other rank of a send or recv of host ranks that has ended, such as the sender of a
 * recv from any rank. SENNIT_IN_PROGRESS: it has not ended. */
SENNIT_API sennit_status_t sennit_work_peer(sennit_work_t work, int* peer);
/* Waits as sennit_work_wait with a negative time does, then frees the work. NULL is allowed. */
SENNIT_API sennit_status_t sennit_work_destroy(sennit_work_t work);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_SENNIT_H_ */
