// Trace: what one rank did in one call, on a clock that all ranks share.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace sennit {

// A step as it ran; a test replays these against the proof's graph.
struct TraceEvent {
  int rank = 0;
  int strand = 0;
  int copy = 0;
  int lane = 0;
  int step = 0;
  std::int64_t tile = 0;    // of the strand copy, from 0
  std::uint64_t begin = 0;  // ticks of one clock that all ranks share
  std::uint64_t end = 0;
};

// How a message of a bundle went.
struct TraceMessage {
  enum class Event : std::uint8_t {
    kSent,
    kSentAgain,  // on the other path, too, because the reader asked for it
    kTaken,
    kLate,  // the one of two copies that came second, and was dropped
  };
  int rank = 0;  // whose event it is
  int strand = 0;
  int copy = 0;
  int channel = 0;
  int peer = 0;
  Event event = Event::kSent;
  std::int64_t message = 0;    // of the channel in this call, from 0
  int path = 0;                // index into the channel's paths
  std::uint64_t position = 0;  // on that path, over all calls
  std::uint64_t tick = 0;
};

// What a rank knows of the log of a claimed plan.
struct TraceClaim {
  int rank = 0;
  std::int64_t grain = 0;
  int strand = 0;
  std::uint64_t tick = 0;
};

class Trace {
 public:
  explicit Trace(std::atomic<std::uint64_t>& clock) : clock_(clock) {}
  std::uint64_t tick() { return clock_.fetch_add(1, std::memory_order_acq_rel); }
  void add(const TraceEvent& event) { events_.push_back(event); }
  void add(const TraceMessage& message) { messages_.push_back(message); }
  void add(const TraceClaim& claim) { claims_.push_back(claim); }
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  [[nodiscard]] const std::vector<TraceMessage>& messages() const { return messages_; }
  [[nodiscard]] const std::vector<TraceClaim>& claims() const { return claims_; }

 private:
  std::atomic<std::uint64_t>& clock_;
  std::vector<TraceEvent> events_;
  std::vector<TraceMessage> messages_;
  std::vector<TraceClaim> claims_;
};

}  // namespace sennit
