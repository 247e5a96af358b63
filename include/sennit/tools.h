/* tools.h: what the library knows about algorithms and machines. JSON in, JSON out.
 *
 *   char* answer = NULL;
 *   if (sennit_tool_verify("{\"ranks\": \"1:8\"}", &answer) == SENNIT_OK) {
 *     puts(answer);
 *     sennit_tool_free(answer);
 *   }
 *
 * Each function takes one JSON object as UTF-8 text (NULL or "": an empty object), refuses unknown
 * keys, and sets *answer to a JSON object, which the caller frees with sennit_tool_free. On failure
 * *answer is NULL, and sennit_last_error_message() says why. All may be called from any thread at
 * any time. Below, "?" marks optional keys.
 */
#ifndef SENNIT_TOOLS_H_
#define SENNIT_TOOLS_H_

#include "sennit/sennit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table of algorithms: {"collective"?}
 * -> {"algorithms": [{"collective", "name", "summary", "source", "in_place", "takes_radix",
 *                     "takes_groups"}]} */
SENNIT_API sennit_status_t sennit_tool_algorithms(const char* request, char** answer);

/* Verifies schedules:
 * {"collective"?, "algorithm"?, "ranks"?: "1:64" or "8" or 8, "protocol"?: "slots" or "direct"}
 * -> {"instances", "failed", "refused", "seconds",
 *     "algorithms": [{"collective", "algorithm", "instances", "failed", "refused",
 *                     "direct": instances proved with protocol direct,
 *                     "ranks_first", "ranks_last": of the instances}],
 *     "failures": [{"collective", "algorithm", "ranks", "root", "why"}]}
 * or one schedule of the caller's: {"schedule_text", "schedule_file"?} -> the same, and "proof". */
SENNIT_API sennit_status_t sennit_tool_verify(const char* request, char** answer);

/* A schedule: {"collective", "algorithm"?, "ranks", "root"?, "radix"?,
 *              "groups"?: [[0, 1], [2, 3]]}, or {"schedule_text", "schedule_file"?}
 * -> {"text", "json", "svg", "proof": {...}}
 * "svg" is null for schedules of more than 4096 steps; "ranks" is at most 512. */
SENNIT_API sennit_status_t sennit_tool_show(const char* request, char** answer);

/* A schedule of the caller's own: {"schedule_text": the JSON form of docs/schedule.md,
 *  "schedule_file"?: what places of mistakes begin with, "fuse"?: false}
 * -> {"algorithm", "name", "collective", "ranks", "root", "json"}
 * With "fuse" a recv and the send of the same block become one step, as in the library's own
 * schedules. "algorithm" is a name for sennit_call_options_t in this process: the call then runs
 * this schedule after its proof (SENNIT_NOT_PROVED if it has none), and SENNIT_MISMATCH names ranks
 * that bring another one. The process keeps the schedule for as long as it lives.
 * SENNIT_INVALID_ARGUMENT for a schedule whose structure is wrong, with the place. */
SENNIT_API sennit_status_t sennit_tool_schedule(const char* request, char** answer);

/* The description of this machine: {"network"?: false} -> a JSON object.
 * With "network" UCX is opened, and the object has
 * "network": {"cards": [{"device", "is_rdma", "mbit_per_s": number or null}], "ucx": its version or
 * null, "note": why there is none}: what calls between nodes would go over. */
SENNIT_API sennit_status_t sennit_tool_machine(const char* request, char** answer);

/* Version, build and environment variables:
 * {} -> {"version", "build": {...}, "variables": [{"name", "type", "default", "value", "text"}],
 *        "unknown_variables": [name]} */
SENNIT_API sennit_status_t sennit_tool_info(const char* request, char** answer);

/* How the last call of the communicator's host ranks was executed:
 * -> {"algorithm", "protocol", "paths": [name], "tile_bytes", "plan_hash", "reproducible"};
 * SENNIT_INVALID_USAGE before the first call. */
SENNIT_API sennit_status_t sennit_tool_last_plan(sennit_comm_t comm, char** answer);

/* The machines that are known by name, each with its description in the text form of
 * docs/machines.md: {} -> {"machines": [{"name", "title", "devices", "cluster", "text"}]} */
SENNIT_API sennit_status_t sennit_tool_machines(const char* request, char** answer);

/* One of these machines, or one described by the caller:
 * {"machine", or "machine_text" and "machine_file"?}
 * -> {"name", "title", "devices", "cluster", "text", "svg"} */
SENNIT_API sennit_status_t sennit_tool_topology(const char* request, char** answer);

/* Predicts how long a collective takes on a described machine:
 * {"collective", "algorithm"?, "machine": a name, or "machine_text" and "machine_file"?, "bytes",
 *  "ranks"?, "ranks_per_gpu"?, "root"?, "radix"?, "groups"?: [[0, 1], [2, 3]], "tile_bytes"?,
 *  "path"?, "protocol"?, "mps"?: true, "timeline"?: false}, or "schedule_text" and
 *  "schedule_file"? in place of "collective", "algorithm", "ranks", "root", "radix" and "groups",
 *  proved first
 * -> {"machine", "collective", "algorithm", "ranks", "bytes", "tile_bytes", "paths",
 *     "strands": [{"algorithm", "protocols", "share", "copies", "tile_bytes"}], "seconds",
 *     "steps", "flows", "simulation_seconds",
 *     "links": [{"name", "bandwidth_gbps", "bytes", "busy"}], the 200 busiest,
 *     "trace": null, or with "timeline" a document for Perfetto, "svg": null or a picture of it}
 * "bytes": the whole vector of broadcast, reduce and all_reduce; one rank's block otherwise. With
 * "protocol", or a "path" like "nvlink+host:8" (8 percent through host memory), the plan is that of
 * GPU ranks that request these; with "groups" too, GPUs have P2P only within a group. "mps":
 * whether ranks of one GPU run at once; false: one of them at a time (docs/machines.md, "switch").
 */
SENNIT_API sennit_status_t sennit_tool_simulate(const char* request, char** answer);

/* The algorithms of a collective on a described machine, in the order of their predicted times:
 * {"collective", "machine" or "machine_text", "bytes", "ranks"?, "ranks_per_gpu"?, "root"?}
 * -> {"machine", "collective", "ranks", "bytes", "choice", "reason",
 *     "candidates": [{"algorithm", "tile_bytes", "predicted_seconds", "busiest_link",
 *                     "busiest_use"}],
 *     "refused": [{"algorithm", "why"}],
 *     "gpu_ranks": {"algorithm", "protocol", "paths": [name], "host_share": percent,
 *                   "predicted_seconds", "reason"}}
 * "gpu_ranks": what GPU ranks would choose, if NVLink joins the GPUs of one host; "choice" and
 * "reason" are theirs then. Null otherwise. */
SENNIT_API sennit_status_t sennit_tool_explain(const char* request, char** answer);

/* Values that five papers report, compared with simulations or models: {"paper"?: 1 to 5}
 * -> {"rows": [{"paper", "figure", "quantity", "unit", "paper_value", "ours", "ratio", "tolerance",
 *               "how", "machine", "verdict", "why"}]} */
SENNIT_API sennit_status_t sennit_tool_reproduce(const char* request, char** answer);

/* Times measured on GPU ranks, compared with simulations of the same calls on the description of
 * that machine: {"machine", "rows": [{"collective", "ranks", "bytes": of the whole buffer,
 * "time_us"}]}
 * -> {"machine", "tolerance", "within",
 *     "rows": [{"collective", "algorithm", "ranks", "bytes", "measured_us", "predicted_us",
 * "ratio", "verdict"}]} */
SENNIT_API sennit_status_t sennit_tool_measured(const char* request, char** answer);

/* A tuning table of this machine from times that were measured on it:
 * {"rows": [{"collective", "ranks", "bytes": of the whole buffer, "algorithm",
 *            "protocol": "slots" or "direct", "tile_bytes" (0: the default), "times_us": [...]}]}
 * -> {"hash", "text": the content for a file that SENNIT_TUNING_TABLE names,
 *     "fits": [{"ranks", "protocol", "bytes", "start_us", "gbps"}]} */
SENNIT_API sennit_status_t sennit_tool_tune(const char* request, char** answer);

/* Compares what a table chooses with times of a later run:
 * {"table": its text, "table_file"?: what places of mistakes begin with, "rows": as above}
 * -> {"cells", "within_10_percent", "within_10_percent_or_spread", "choices": [...],
 *     "equation_5", "equation_5_on_shared_cores": predictions of both forms, fitted to the table
 *       {"chains", "within_15_percent", "times": [...],
 *        "chunks", "chunks_within_factor_2", "best_chunks": [...]}} */
SENNIT_API sennit_status_t sennit_tool_tune_check(const char* request, char** answer);

/* What host ranks would choose for a call, and why:
 * {"collective", "ranks", "bytes": as for sennit_tool_explain, "table"?: the text of a table,
 *  "table_file"?}
 * -> {"machine", "collective", "ranks", "bytes", "choice": {"algorithm", "protocol", "tile_bytes"},
 *     "reason", "selection_us": the time that choosing takes,
 *     "candidates": [{"algorithm", "protocol", "predicted_us", "predicted_tile_bytes",
 *                     "measured_us", "measured_tile_bytes", "measured_bytes"}],
 *     "refused": [{"algorithm", "protocol", "why"}]} */
SENNIT_API sennit_status_t sennit_tool_explain_host(const char* request, char** answer);

/* The GPU profiles that are built in, the one for unknown GPUs first; with "text", that profile
 * alone, which is refused with its line and column where it is malformed (docs/adding/gpu.md):
 * {"text"?} -> {"profiles": [{"name", "gpus": words of names of GPUs, "compute_capability", "hash",
 *                             "text"}]} */
SENNIT_API sennit_status_t sennit_tool_gpu_profiles(const char* request, char** answer);

/* The codecs, which make the bytes of values fewer (docs/codecs.md):
 * {} -> {"codecs": [{"name", "summary", "lossless",
 *                    "dtypes": [{"dtype", "parts": real numbers in an element,
 *                                "streams": parts whose blocks are apart,
 *                                "block_values": real numbers in a block,
 *                                "block_bytes": of a block, the most where blocks vary,
 *                                "bound": largest error as a part of the largest magnitude in the
 *                                         block}]}]} */
SENNIT_API sennit_status_t sennit_tool_codecs(const char* request, char** answer);

/* Encodes `count` elements with a codec, such as "zfp:8" or "q8", to `coded`, which has room for
 * `room` bytes, and sets *coded_bytes to how many it has written. With `coded` NULL it writes
 * nothing and sets *coded_bytes to the room that so many elements need: exactly what is written,
 * unless the codec is "exact", which may write less. No pointer has to be aligned.
 * SENNIT_UNSUPPORTED for a type that the codec does not take. */
SENNIT_API sennit_status_t sennit_tool_encode(const char* codec,
                                              sennit_dtype_t dtype,
                                              const void* values,
                                              size_t count,
                                              void* coded,
                                              size_t room,
                                              size_t* coded_bytes);

/* Decodes what sennit_tool_encode has written for so many elements of that type with that codec.
 * SENNIT_INVALID_ARGUMENT for bytes that cannot be of these, after which `values` may hold
 * anything. */
SENNIT_API sennit_status_t sennit_tool_decode(const char* codec,
                                              sennit_dtype_t dtype,
                                              const void* coded,
                                              size_t coded_bytes,
                                              void* values,
                                              size_t count);

/* Frees an answer; NULL is allowed. */
SENNIT_API void sennit_tool_free(char* answer);

/* For front ends: writes one line at level INFO to the library's log, if SENNIT_DEBUG allows it. */
SENNIT_API void sennit_tool_log(const char* subsystem, const char* text);
/* The same at WARN. */
SENNIT_API void sennit_tool_warn(const char* subsystem, const char* text);
/* For front ends: whether calls are counted, in a file of the folder SENNIT_COUNTS_DIR, which
 * outlives the process. */
SENNIT_API int sennit_tool_counts(void);
/* Counts one call, which has just ended, by the name that programs call it by, with the seconds
 * that it took, and why it was passed on; NULL: it ran here. `comm` is the communicator of the
 * call, NULL where there is none: with SENNIT_TRACE_CALLS the call is written down with its rank
 * and with what it ran as. Does nothing where calls are not counted. */
SENNIT_API void sennit_tool_count(
    const char* call, size_t bytes, double seconds, const char* why, sennit_comm_t comm);
/* For front ends: on how many nodes the ranks are (docs/nodes.md). */
SENNIT_API sennit_status_t sennit_tool_nodes(sennit_comm_t comm, int* nodes);
/* For front ends: the codec that the communicator's rules (docs/codecs.md) give a collective, such
 * as "all_to_all", of a vector or part of so many bytes: a name that stays valid; NULL: none, also
 * where the codec does not take the type. */
SENNIT_API sennit_status_t sennit_tool_codec_by_rule(sennit_comm_t comm,
                                                     const char* collective,
                                                     size_t bytes,
                                                     sennit_dtype_t dtype,
                                                     const char** codec);
/* For front ends: calls act(argument) with the communicator's CUDA device as the current device. */
SENNIT_API sennit_status_t sennit_tool_on_device(sennit_comm_t comm,
                                                 void (*act)(void*),
                                                 void* argument);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_TOOLS_H_ */
