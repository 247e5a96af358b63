#include "exec/cpu/choices.hpp"

#include "exec/cpu/job.hpp"

#include <algorithm>
#include <array>

namespace sennit {

bool Choices::has_any(const Program& program) {
  return !program.bundles.empty() || program.plan->division == Division::kClaimed;
}

Choices::Choices(Job& job) : job_(job) {
  const Program& program = job_.program_;
  const std::uint32_t fingerprint = job_.call_.fingerprint;
  bundles_.reserve(program.bundles.size());
  std::int64_t copies = 0;
  bool chooses = false;
  for (const ProgramBundle& ends : program.bundles) {
    bundles_.emplace_back(job_.bound_, ends, fingerprint);
    if (bundles_.back().by_reader() && !ends.outgoing) {
      copies += job_.layout_.tiles_of_copy(ends.strand, ends.copy) * ends.messages_per_tile;
      chooses = true;
    }
  }
  if (chooses) {
    assigner_.emplace(bundles_, copies, job_.trace_);
  }
  if (program.plan->division == Division::kClaimed) {
    const CallLayout::StrandView& view = job_.layout_.strands().front();
    const std::int64_t grains = (view.all_tiles + view.grain_tiles - 1) / view.grain_tiles;
    claims_.emplace(job_.bound_, grains, fingerprint);
    job_.layout_.begin_claims();
  }
}

void Choices::finish() const {
  for (const Bundle& bundle : bundles_) {
    bundle.finish();
  }
  if (claims_) {
    claims_->finish();
  }
}

bool Choices::advance() {
  bool moved = false;
  if (assigner_ && !job_.finished_) {
    moved = assigner_->advance();
    job_.finish_if_ended();
  }
  if (claims_ && !claims_->is_complete() && job_.status_.ok()) {
    moved = take_claims() || moved;
  }
  return moved;
}

// The leader gives each strand in turn the next grain, the others learn of it.
bool Choices::take_claims() {
  Trace* const trace = job_.trace_;
  bool moved = false;
  if (!claims_->is_leader()) {
    for (Result<int> strand = claims_->take(); !strand.ok() || *strand >= 0;
         strand = claims_->take()) {
      if (!strand.ok()) {
        job_.status_ = strand.status();
        return true;
      }
      add_grain(*strand, trace != nullptr ? trace->tick() : 0);
      moved = true;
    }
    return moved;
  }
  const int strands = static_cast<int>(job_.layout_.strands().size());
  for (bool claimed = true; claimed;) {
    claimed = false;
    for (int s = 0; s < strands && !claims_->is_complete(); ++s) {
      const std::uint64_t tick = trace != nullptr ? trace->tick() : 0;
      if (wants_grain(s) && claims_->append(s)) {
        add_grain(s, tick);
        claimed = true;
      }
    }
    moved = moved || claimed;
  }
  return moved;
}

// A strand is claimed when its lanes here have credit and none of them is more than a grain behind.
// So the others learn of a grain before they need it, and a strand whose path is slow holds two.
bool Choices::wants_grain(int strand) {
  const CallLayout::StrandView& view = job_.layout_.strands()[static_cast<std::size_t>(strand)];
  for (std::size_t l = 0; l < job_.lanes_.size(); ++l) {
    const ProgramLane& lane = job_.program_.lanes[l];
    if (lane.strand != strand || lane.steps.empty()) {
      continue;
    }
    const Job::LaneState& state = job_.lanes_[l];
    const int width = job_.program_.plan->strands[static_cast<std::size_t>(strand)].width;
    const std::int64_t begun = lane.copy + state.unit * width;
    const ProgramStep& step = lane.steps[static_cast<std::size_t>(state.step)];
    const bool has_credit =
        !state.posted && std::ranges::all_of(step.out, [&](const MessageRef& out) {
          return !job_.layout_.exists(out, state.unit) || job_.has_slot(out, state.unit);
        });
    if (view.tiles - begun > view.grain_tiles || !has_credit) {
      return false;
    }
  }
  return true;
}

void Choices::add_grain(int strand, std::uint64_t tick) {
  const std::int64_t grain = claims_->known() - 1;
  job_.layout_.add_grain(strand, grain);
  if (job_.trace_ != nullptr) {
    job_.trace_->add(
        TraceClaim{.rank = job_.program_.rank, .grain = grain, .strand = strand, .tick = tick});
  }
  for (std::size_t l = 0; l < job_.lanes_.size(); ++l) {
    const ProgramLane& lane = job_.program_.lanes[l];
    Job::LaneState& state = job_.lanes_[l];
    state.units =
        lane.strand == strand ? job_.layout_.tiles_of_copy(strand, lane.copy) : state.units;
    // Lanes that had run dry learn now whether anything comes after all.
    if (claims_->is_complete() && !lane.steps.empty() && state.unit == state.units) {
      job_.end_lane();
    }
  }
}

void Choices::record(const Bundle& bundle, TraceMessage::Event event, int path) {
  if (job_.trace_ != nullptr) {
    TraceMessage message = bundle.trace(event, path);
    message.tick = job_.trace_->tick();
    job_.trace_->add(message);
  }
}

void Choices::fail_if_corrupt(Bundle& bundle) {
  if (bundle.orders().are_corrupt()) {
    job_.status_ = fail(Code::kMismatch, "rank {} gives an order that is none", bundle.peer());
  }
}

bool Choices::has_slot(int index) {
  Bundle& bundle = at(index);
  if (bundle.by_reader()) {
    const std::optional<int> path = bundle.orders().ask();
    fail_if_corrupt(bundle);
    return path && bundle.use(*path);
  }
  std::array<PathView, channel::kMaxPaths> views;
  for (int p = 0; p < bundle.ends().paths; ++p) {
    for (Bundle& other : bundles_) {
      if (other.ends().outgoing && p < other.ends().paths) {
        other.add_load(p, views[static_cast<std::size_t>(p)]);
      }
    }
  }
  if (assigner_) {
    return bundle.use(
        assigner_->policy().type_for_scatter({views[0].under_way, views[1].under_way}));
  }
  return bundle.pick(job_.call_.path_policy, views);
}

bool Choices::has_ended(const ProgramLane& lane,
                        const ProgramStep& step,
                        const MessageRef& out,
                        std::int64_t tile) {
  Bundle& bundle = at(out.bundle);
  if (!bundle.by_reader()) {
    return bundle.spot().is_over(job_.bound_.rails());
  }
  while (const auto order = bundle.orders().next()) {
    if (order->answer != Orders::Answer::kEnd) {
      const Spot again = bundle.spot_on(order->path);
      job_.fill_slot(lane, step, again, step.kind == StepKind::kSend ? step.from : step.to, tile);
      record(bundle, TraceMessage::Event::kSentAgain, order->path);
      again.publish(job_.call_.fingerprint);
      bundle.also_sent_on(order->path);
    }
  }
  fail_if_corrupt(bundle);
  return bundle.orders().has_ended();
}

void Choices::published(int index) {
  Bundle& bundle = at(index);
  record(bundle, TraceMessage::Event::kSent, bundle.path());
  bundle.published();
}

void Choices::taken(int index) {
  Bundle& bundle = at(index);
  record(bundle, TraceMessage::Event::kTaken, bundle.path());
  if (bundle.by_reader()) {
    assigner_->taken(static_cast<std::size_t>(index));
  } else {
    bundle.taken();
  }
}

bool Choices::is_missing(int index, Waiting& waiting) const {
  const Bundle& bundle = at(index);
  if (bundle.is_there()) {
    return false;
  }
  waiting.peer = bundle.peer();
  waiting.foreign = bundle.is_foreign();
  return true;
}

Waiting Choices::waiting() const {
  if (claims_ && !claims_->is_complete() && !claims_->is_leader()) {
    return {.peer = claims_->leader()};
  }
  const auto late = std::ranges::find_if(bundles_, &Bundle::awaits_late);
  return late == bundles_.end() ? Waiting() : Waiting{.peer = late->peer()};
}

}  // namespace sennit
