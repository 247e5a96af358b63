// What both sides of a join over nodes know before they meet.
#pragma once

#include "world/nodes/node_frame.hpp"
#include "world/nodes/root_place.hpp"
#include "world/rendezvous/deadline.hpp"
#include "world/rendezvous/rendezvous.hpp"

#include <algorithm>
#include <chrono>

namespace sennit {

struct NodeRequest {
  NodeHello hello;  // of this rank
  RootPlace root;
  StreamKey key{};
  Deadline deadline;
  JoinInterruption interruption;

  // Why the join is to end before its time; ok: it is not.
  [[nodiscard]] Status check_interruption() const {
    return interruption.reason ? interruption.reason() : Status();
  }
  // When to ask, at the latest.
  [[nodiscard]] Deadline::Clock::time_point next_check() const {
    const auto soon = Deadline::Clock::now() + std::chrono::milliseconds(20);
    return interruption.reason ? std::min(soon, deadline.end()) : deadline.end();
  }
};

// How long a connection may stay in which nobody has proved to be of the job.
inline constexpr std::chrono::seconds kProvingTime{2};
// After so much silence of the system at the other end, it counts as lost.
inline constexpr double kLostSeconds = 1.5;

}  // namespace sennit
