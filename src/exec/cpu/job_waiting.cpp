// Whom a job waits for, asked when a call takes long.
#include "exec/cpu/job.hpp"

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
  return choices_ ? choices_->waiting() : Waiting();
}

// The peer whose word is missing for the first tile of the lane's unit; false when only this rank's
// own lanes are.
bool Job::find_peer(const ProgramStep& step, bool posted, Waiting& waiting) const {
  for (const MessageRef& in : step.in) {
    if (posted) {
      break;
    }
    if (in.bundle >= 0) {
      if (choices_->is_missing(in.bundle, waiting)) {
        return true;
      }
      continue;
    }
    if (!layout_.exists(in, waiting.tile)) {
      continue;
    }
    const Spot at = spot(in, waiting.tile);
    if (!channel::is_full(at.full(), at.position, layout_.fingerprint(in))) {
      waiting.peer = at.link->peer;
      waiting.is_certain = at.link->rail < 0;
      waiting.foreign = channel::is_foreign(at.full(), at.position, layout_.fingerprint(in));
      return true;
    }
  }
  for (const MessageRef& out : step.out) {
    if (!layout_.exists(out, waiting.tile)) {
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
      waiting.is_certain = out.bundle < 0 && at.link->rail < 0;
      return true;
    }
  }
  return false;
}

}  // namespace sennit
