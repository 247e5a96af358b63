// MessageShares: how much of the messages between this rank and another goes through host memory,
// where that follows the load (select/dynamic_share.hpp). The receiver measures messages of each
// size class by itself and says in shared memory what it advises; the sender, which decides, reads
// that. Nobody waits: a message that comes while all stopwatches run is not measured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/stopwatch.hpp"
#include "select/dynamic_share.hpp"
#include "world/device_line.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace sennit {

class MessageShares {
 public:
  explicit MessageShares(CudaEvents& events) : events_(events) {}

  struct Next {
    int share = 0;
    bool is_timed = false;
  };
  // As the sender: of the next message, which perhaps can be timed; trials are for those.
  // `theirs` is the line of the receiver for this rank.
  Next next(const MessageLine& theirs, std::int64_t bytes, int first, bool can_be_timed);

  // As the receiver: another message has come, with this share.
  struct Arrival {
    std::int64_t bytes = 0;
    int share = 0;
    int first = 0;            // what the sender began with
    bool is_timed = false;    // it can be
    bool by_kernels = false;  // what does not go through the host
  };
  // Learns what has been measured by now and reports to the sender in `mine`, the line of this rank
  // for it. Answers with the stopwatch of this message; null where it is not measured.
  stream::Stopwatch* take(const Arrival& arrival, MessageLine& mine);

 private:
  struct Watch {
    std::unique_ptr<stream::Stopwatch> stopwatch;
    std::int64_t bytes = 0;
    int share = 0;
    bool by_kernels = false;
    bool is_running = false;
  };

  void learn();
  stream::Stopwatch* start(const Arrival& arrival, bool is_trial);

  CudaEvents& events_;
  // Of each size class: the number of the last trial, and messages of share 0 but trials that could
  // be timed.
  std::array<std::uint32_t, MessageLine::kSizeClasses> tried_{};
  std::array<std::uint32_t, MessageLine::kSizeClasses> idle_{};
  std::map<std::size_t, DynamicShare> shares_;  // by size class
  std::vector<Watch> watches_;
  bool has_failed_ = false;  // to make a stopwatch
};

}  // namespace sennit
