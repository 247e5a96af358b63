// Whom a job waits for, asked when a call takes long.
#include "exec/cpu/job.hpp"

#include <algorithm>

namespace sennit {

Waiting Job::waiting() const {
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const LaneState& state = lanes_[l];
    const ProgramLane& lane = program_.lanes[l];
    if (state.unit >= state.units || lane.steps.empty()) {
      continue;
    }
    const ProgramStep& step = lane.steps[static_cast<std::size_t>(state.step)];
    Waiting waiting{
        .lane = lane.schedule_lane, .step = state.step, .tile = state.unit * lane.burst};
    if (find_peer(step, state.posted, waiting)) {
      return waiting;
    }
  }
  if (claims_ && !claims_->is_complete() && !claims_->is_leader()) {
    return {.peer = claims_->leader()};
  }
  const auto late = std::ranges::find_if(bundles_, &Bundle::awaits_late);
  return late == bundles_.end() ? Waiting() : Waiting{.peer = late->peer()};
}

// The peer whose word is missing for the first tile of the lane's unit; false when only this rank's
// own lanes are.
bool Job::find_peer(const ProgramStep& step, bool posted, Waiting& waiting) const {
  for (const MessageRef& in : step.in) {
    if (posted) {
      break;
    }
    if (in.bundle >= 0) {
      const Bundle& bundle = bundles_[static_cast<std::size_t>(in.bundle)];
      if (bundle.is_there()) {
        continue;
      }
      waiting.peer = bundle.peer();
      waiting.foreign = bundle.is_foreign();
      return true;
    }
    if (!exists(in, waiting.tile)) {
      continue;
    }
    const Spot at = spot(in, waiting.tile);
    if (!channel::is_full(at.full(), at.position, fingerprint(in))) {
      waiting.peer = at.link->peer;
      waiting.foreign = channel::is_foreign(at.full(), at.position, fingerprint(in));
      return true;
    }
  }
  for (const MessageRef& out : step.out) {
    if (!exists(out, waiting.tile)) {
      continue;
    }
    // The path of a bundle's message may not be picked yet; what is missing is the peer's, anyway.
    const Spot at = spot(out, waiting.tile);
    const bool blocked =
        out.bundle >= 0 ||
        (posted ? at.link->rail >= 0 || (at.protocol == Protocol::kDirectGet &&
                                         !channel::is_released(at.free(), at.position))
                : !channel::may_write(at.free(), at.position, at.link->ring.slots()));
    if (blocked) {
      waiting.peer = at.link->peer;
      return true;
    }
  }
  return false;
}

}  // namespace sennit
