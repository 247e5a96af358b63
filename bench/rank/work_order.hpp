// What the rank program is asked to do: a JSON object in the file that its argument names.
#pragma once

#include "sennit/sennit.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sennit::bench {

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kSendRecv,
};

// One of several ways to make a call that are timed in turn.
struct Try {
  std::string algorithm;
  std::string protocol;
  std::int64_t tile_bytes = 0;
};

struct WorkOrder {
  std::string collective = "all_reduce";
  Kind kind = Kind::kAllReduce;
  // Empty, path and protocol too: the library's choice. The name of its schedule where the order
  // brings one.
  std::string algorithm;
  std::string path;
  std::string protocol;
  std::int64_t tile_bytes = 0;
  // Not empty: calls ask for it, inputs are random numbers, and rows have an error, not wrong
  // elements.
  std::string codec;
  std::string dtype_name = "float32";
  sennit_dtype_t dtype = SENNIT_FLOAT32;
  std::size_t element_bytes = 4;
  std::string op_name = "sum";
  sennit_redop_t op = SENNIT_SUM;
  int root = 0;  // -1: rotates, call by call
  bool in_place = false;
  std::vector<std::size_t> sizes;  // bytes of the whole buffer
  int iterations = 20;             // samples
  int warmup = 5;                  // calls
  bool check = true;
  std::uint64_t seed = 1;
  double max_seconds = 0;  // of one row; 0: no limit
  bool pin = false;
  std::optional<std::pair<int, int>> pair;  // of send_recv; none: the ring
  bool bidirectional = false;
  int window = 1;
  // In each cycle a size is timed by all of them; none: as the fields above say.
  std::vector<Try> tries;
  // From the second size on, tries that were so many times slower than the best are left out; 0:
  // no.
  double prune = 0;
  int cycles = 1;                // how often the list of sizes is run
  std::size_t rotate_bytes = 0;  // calls go through so much memory; 0: all use the same buffers
  std::size_t warm_bytes = 0;    // rows up to this size are timed with the same buffers as well
  double slow_seconds = 0;       // a row that would take longer gets fewer samples; 0: no limit
};

// All that one set of ranks does.
struct Job {
  std::vector<WorkOrder> orders;
  std::string rival;       // shared object of the library to compare with; empty: none
  std::string rendezvous;  // a file next to that of the job, where the rival's ranks may meet
  double max_seconds = 0;  // no row begins later, and the row that runs takes no more samples
};

// Exits 2, saying what is wrong, on anything that is not a job.
Job read_job(const std::string& file);

// Prints `{"error": {...}}` as the last line of standard error and exits.
[[noreturn]] void exit_with_error(int code, const std::string& message);
// The same with the fields of the library's last failure on this thread; the code follows from it.
[[noreturn]] void exit_with_last_error();

inline void check(sennit_status_t status) {
  if (status != SENNIT_OK) {
    exit_with_last_error();
  }
}

}  // namespace sennit::bench
