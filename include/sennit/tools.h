/* tools.h: what the library knows, as JSON in, JSON out.
 *
 *   char* answer = NULL;
 *   if (sennit_tool_verify("{\"ranks\": \"1:8\"}", &answer) == SENNIT_OK) {
 *     puts(answer);
 *     sennit_tool_free(answer);
 *   }
 *
 * Each function takes one JSON object as UTF-8 text (NULL or "" is an empty one), refuses unknown
 * keys by name, and sets *answer to a JSON object that the caller frees with sennit_tool_free. On
 * failure *answer is NULL and sennit_last_error_message() says why. Any thread, any time.
 */
#ifndef SENNIT_TOOLS_H_
#define SENNIT_TOOLS_H_

#include "sennit/sennit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* {"collective"?}
 * -> {"algorithms": [{"collective", "name", "summary", "source", "in_place", "takes_radix",
 *                     "takes_groups"}]} */
SENNIT_API sennit_status_t sennit_tool_algorithms(const char* request, char** answer);

/* Proves schedules:
 * {"collective"?, "algorithm"?, "ranks"?: "1:64" or "8" or 8, "protocol"?: "slots" or "direct"}
 * -> {"instances", "failed", "refused", "seconds",
 *     "failures": [{"collective", "algorithm", "ranks", "root", "why"}]} */
SENNIT_API sennit_status_t sennit_tool_verify(const char* request, char** answer);

/* {"collective", "algorithm"?, "ranks", "root"?, "radix"?, "groups"?: [[0, 1], [2, 3]]}
 * -> {"text", "json", "svg", "proof": {...}}
 * "svg" is null for schedules of more than 4096 steps; "ranks" is at most 512. */
SENNIT_API sennit_status_t sennit_tool_show(const char* request, char** answer);

/* {} -> the description of this machine. */
SENNIT_API sennit_status_t sennit_tool_machine(const char* request, char** answer);

/* {} -> {"version", "build": {...}, "variables": [{"name", "type", "default", "value", "text"}],
 *        "unknown_variables": [name]} */
SENNIT_API sennit_status_t sennit_tool_info(const char* request, char** answer);

/* How the communicator's last posted call was carried out:
 * {"algorithm", "protocol", "paths": [name], "tile_bytes", "plan_hash", "reproducible"};
 * SENNIT_INVALID_USAGE before the first call. */
SENNIT_API sennit_status_t sennit_tool_last_plan(sennit_comm_t comm, char** answer);

/* {} -> {"machines": [{"name", "title", "devices", "cluster", "text"}]}: the machines that are
 * known by name, each with its description in the text form of docs/machines.md. */
SENNIT_API sennit_status_t sennit_tool_machines(const char* request, char** answer);

/* One of them, or one of yours: {"machine", or "machine_text" and "machine_file"?}
 * -> {"name", "title", "devices", "cluster", "text", "svg"} */
SENNIT_API sennit_status_t sennit_tool_topology(const char* request, char** answer);

/* Predicts how long a collective takes on a machine that need not be here:
 * {"collective", "algorithm"?, "machine": a name, or "machine_text" and "machine_file"?, "bytes",
 *  "ranks"?, "ranks_per_gpu"?, "root"?, "radix"?, "groups"?: [[0, 1], [2, 3]], "tile_bytes"?,
 *  "path"?, "protocol"?, "timeline"?: false}
 * -> {"machine", "collective", "algorithm", "ranks", "bytes", "tile_bytes", "paths",
 *     "strands": [{"algorithm", "protocols", "share", "copies", "tile_bytes"}], "seconds",
 *     "steps", "flows", "simulation_seconds",
 *     "links": [{"name", "bandwidth_gbps", "bytes", "busy"}], the busiest 200,
 *     "trace": null, or with "timeline" a document for Perfetto, "svg": null or a picture of it}
 * "bytes" is the whole vector of broadcast, reduce and all_reduce, one rank's part otherwise. With
 * "protocol", or a "path" like "nvlink+host:8" (percent through host memory), the plan is that of
 * GPU ranks with these wishes; with "groups" as well, they reach each other within them alone. */
SENNIT_API sennit_status_t sennit_tool_simulate(const char* request, char** answer);

/* The algorithms of a collective on a described machine, best first, by what is predicted:
 * {"collective", "machine" or "machine_text", "bytes", "ranks"?, "ranks_per_gpu"?, "root"?}
 * -> {"machine", "collective", "ranks", "bytes", "choice", "reason",
 *     "candidates": [{"algorithm", "tile_bytes", "predicted_seconds", "busiest_link",
 *                     "busiest_use"}],
 *     "refused": [{"algorithm", "why"}],
 *     "gpu_ranks": {"algorithm", "protocol", "host_share": percent, "predicted_seconds", "reason"}}
 * Where NVLink joins the GPUs of one host, "gpu_ranks" is what they choose by their own rules, as
 * "choice" and "reason" are then; elsewhere it is null. */
SENNIT_API sennit_status_t sennit_tool_explain(const char* request, char** answer);

/* What five papers print, beside what is simulated or modelled here: {"paper"?: 1 to 5}
 * -> {"rows": [{"paper", "figure", "quantity", "unit", "paper_value", "ours", "ratio", "tolerance",
 *               "how", "machine", "verdict", "why"}]} */
SENNIT_API sennit_status_t sennit_tool_reproduce(const char* request, char** answer);

/* Times measured on GPU ranks beside what is simulated of the same calls on the description of that
 * machine: {"machine", "rows": [{"collective", "ranks", "bytes": of the whole buffer, "time_us"}]}
 * -> {"machine", "tolerance", "within",
 *     "rows": [{"collective", "algorithm", "ranks", "bytes", "measured_us", "predicted_us",
 * "ratio", "verdict"}]} */
SENNIT_API sennit_status_t sennit_tool_measured(const char* request, char** answer);

/* A tuning table of this machine out of times measured on it:
 * {"rows": [{"collective", "ranks", "bytes": of the whole buffer, "algorithm",
 *            "protocol": "slots" or "direct", "tile_bytes": 0 the default, "times_us": [...]}]}
 * -> {"hash", "text": for a file that SENNIT_TUNING_TABLE names,
 *     "fits": [{"ranks", "protocol", "bytes", "start_us", "gbps"}]} */
SENNIT_API sennit_status_t sennit_tool_tune(const char* request, char** answer);

/* What a table chooses, judged by rows of a later run: {"table": its text, "rows": as above}
 * -> {"cells", "within_10_percent", "within_10_percent_or_spread", "choices": [...],
 *     "equation_5", "equation_5_on_shared_cores": how both forms, fitted to the table, predict
 *       {"chains", "within_15_percent", "times": [...],
 *        "chunks", "chunks_within_factor_2", "best_chunks": [...]}} */
SENNIT_API sennit_status_t sennit_tool_tune_check(const char* request, char** answer);

/* What host ranks would run for a call, and why:
 * {"collective", "ranks", "bytes": as for sennit_tool_explain, "table"?: the text of a table}
 * -> {"machine", "collective", "ranks", "bytes", "choice": {"algorithm", "protocol", "tile_bytes"},
 *     "reason", "selection_us": what choosing takes,
 *     "candidates": [{"algorithm", "protocol", "predicted_us", "predicted_tile_bytes",
 *                     "measured_us", "measured_tile_bytes", "measured_bytes"}],
 *     "refused": [{"algorithm", "protocol", "why"}]} */
SENNIT_API sennit_status_t sennit_tool_explain_host(const char* request, char** answer);

SENNIT_API void sennit_tool_free(char* answer);

/* For front ends: one INFO line where the library's own go, if SENNIT_DEBUG lets it through. */
SENNIT_API void sennit_tool_log(const char* subsystem, const char* text);
/* The same at WARN. */
SENNIT_API void sennit_tool_warn(const char* subsystem, const char* text);
/* For front ends: calls act(argument) with the communicator's device as the thread's current. */
SENNIT_API sennit_status_t sennit_tool_on_device(sennit_comm_t comm,
                                                 void (*act)(void*),
                                                 void* argument);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SENNIT_TOOLS_H_ */
