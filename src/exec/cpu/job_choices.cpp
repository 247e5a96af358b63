// What a job decides at run time: the paths of bundles, the strands of a claimed plan's grains, and
// with them when it has ended.
#include "exec/cpu/job.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace sennit {

void Job::begin_choices() {
  bundles_.reserve(program_.bundles.size());
  std::int64_t copies = 0;
  bool chooses = false;
  for (const ProgramBundle& ends : program_.bundles) {
    bundles_.emplace_back(bound_, ends, call_.fingerprint);
    if (bundles_.back().by_reader() && !ends.outgoing) {
      copies += tiles_of_copy(ends.strand, ends.copy) * ends.messages_per_tile;
      chooses = true;
    }
  }
  if (chooses) {
    assigner_.emplace(bundles_, copies, trace_);
  }
  if (program_.plan->division == Division::kClaimed) {
    for (StrandView& view : strands_) {
      view.tiles = 0;
    }
    const std::int64_t grain = strands_.front().grain_tiles;
    claims_.emplace(bound_, (strands_.front().all_tiles + grain - 1) / grain, call_.fingerprint);
  }
}

// A job ends with its last lane, unless it must see late copies of messages come.
void Job::end_lane() {
  if (--lanes_left_ == 0 && (!assigner_ || assigner_->finished())) {
    finish();
  }
}

// The next call goes on where this one's messages end.
void Job::finish() {
  finished_ = true;
  for (std::size_t l = 0; l < program_.links.size(); ++l) {
    const ProgramLink& link = program_.links[l];
    const std::vector<std::int64_t>& tiles = links_[l].tiles;
    const std::int64_t messages =
        tiles.empty() ? tiles_of_copy(link.strand, link.copy) * link.messages_per_tile
                      : std::accumulate(tiles.begin(), tiles.end(), std::int64_t{0});
    *bound_.links()[l].position = links_[l].base + static_cast<std::uint64_t>(messages);
  }
  for (const Bundle& bundle : bundles_) {
    bundle.finish();
  }
  if (claims_) {
    claims_->finish();
  }
}

// What is decided at run time, beside the lanes.
bool Job::advance_choices() {
  bool moved = false;
  if (assigner_ && !finished_) {
    moved = assigner_->advance();
    if (lanes_left_ == 0 && assigner_->finished()) {
      finish();
    }
  }
  if (claims_ && !claims_->is_complete() && status_.ok()) {
    moved = take_claims() || moved;
  }
  return moved;
}

// The leader gives each strand in turn the next grain, the others learn of it.
bool Job::take_claims() {
  bool moved = false;
  if (!claims_->is_leader()) {
    for (Result<int> strand = claims_->take(); !strand.ok() || *strand >= 0;
         strand = claims_->take()) {
      if (!strand.ok()) {
        status_ = strand.status();
        return true;
      }
      add_grain(*strand, trace_ != nullptr ? trace_->tick() : 0);
      moved = true;
    }
    return moved;
  }
  const int strands = static_cast<int>(strands_.size());
  for (bool claimed = true; claimed;) {
    claimed = false;
    for (int s = 0; s < strands && !claims_->is_complete(); ++s) {
      const std::uint64_t tick = trace_ != nullptr ? trace_->tick() : 0;
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
// So the others hear of a grain before they need it, and a strand whose path is slow holds two.
bool Job::wants_grain(int strand) {
  const StrandView& view = strands_[static_cast<std::size_t>(strand)];
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const ProgramLane& lane = program_.lanes[l];
    if (lane.strand != strand || lane.steps.empty()) {
      continue;
    }
    const LaneState& state = lanes_[l];
    const int width = program_.plan->strands[static_cast<std::size_t>(strand)].width;
    const std::int64_t begun = lane.copy + state.unit * width;
    const ProgramStep& step = lane.steps[static_cast<std::size_t>(state.step)];
    const bool has_credit =
        !state.posted && std::ranges::all_of(step.out, [&](const MessageRef& out) {
          return !exists(out, state.unit) || has_slot(out, state.unit);
        });
    if (view.tiles - begun > view.grain_tiles || !has_credit) {
      return false;
    }
  }
  return true;
}

void Job::add_grain(int strand, std::uint64_t tick) {
  StrandView& view = strands_[static_cast<std::size_t>(strand)];
  const std::int64_t grain = claims_->known() - 1;
  // The last grain of a message may be short.
  view.tiles += std::min(view.grain_tiles, view.all_tiles - grain * view.grain_tiles);
  if (trace_ != nullptr) {
    trace_->add(TraceClaim{.rank = program_.rank, .grain = grain, .strand = strand, .tick = tick});
  }
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const ProgramLane& lane = program_.lanes[l];
    lanes_[l].units = lane.strand == strand ? tiles_of_copy(strand, lane.copy) : lanes_[l].units;
    // Lanes that had run dry learn now whether anything comes after all.
    if (claims_->is_complete() && !lane.steps.empty() && lanes_[l].unit == lanes_[l].units) {
      end_lane();
    }
  }
}

void Job::record(const Bundle& bundle, TraceMessage::Event event, int path) {
  if (trace_ != nullptr) {
    TraceMessage message = trace_message(bundle, event, path);
    message.tick = trace_->tick();
    trace_->add(message);
  }
}

// Nothing but `in` is missing for the step: if this rank chooses its path, it may do so now.
void Job::await(const ProgramStep& step, const MessageRef& in, std::int64_t tile) {
  if (in.bundle < 0) [[likely]] {
    return;
  }
  Bundle& bundle = bundles_[static_cast<std::size_t>(in.bundle)];
  if (bundle.by_reader() && has_slots(step, tile)) {
    bundle.await();
  }
}

// Picks the path of the next message; true when it has a slot there.
bool Job::pick_path(Bundle& bundle) {
  if (bundle.by_reader()) {
    const bool goes = bundle.ask();
    if (bundle.is_corrupt()) {
      status_ = fail(Code::kMismatch, "rank {} gives an order that is none", bundle.peer());
    }
    return goes;
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
  return bundle.pick(call_.path_policy, views);
}

// The same for one message of a bundle; sends it again if its reader says so.
bool Job::bundle_ended(const ProgramLane& lane,
                       const ProgramStep& step,
                       const MessageRef& out,
                       std::int64_t tile) {
  Bundle& bundle = bundles_[static_cast<std::size_t>(out.bundle)];
  if (!bundle.by_reader()) {
    const Spot at = bundle.spot();
    return at.protocol != Protocol::kDirectGet || channel::is_released(at.free(), at.position);
  }
  while (const auto order = bundle.has_ended() ? std::nullopt : bundle.next_order()) {
    if (order->answer == Bundle::Answer::kEnd) {
      bundle.end_message();
    } else {
      const Spot again = bundle.spot_on(order->path);
      fill_slot(lane, step, again, step.kind == StepKind::kSend ? step.from : step.to, tile);
      record(bundle, TraceMessage::Event::kSentAgain, order->path);
      publish_spot(again, call_.fingerprint);
      bundle.also_sent_on(order->path);
    }
  }
  if (bundle.is_corrupt()) {
    status_ = fail(Code::kMismatch, "rank {} gives an order that is none", bundle.peer());
  }
  return bundle.has_ended();
}

void Job::pass_taken(std::size_t index) {
  Bundle& bundle = bundles_[index];
  record(bundle, TraceMessage::Event::kTaken, bundle.path());
  if (bundle.by_reader()) {
    assigner_->taken(index);
  } else {
    bundle.taken();
  }
}

void Job::pass_sent(const ProgramStep& step) {
  for (const MessageRef& out : step.out) {
    if (out.bundle >= 0) {
      bundles_[static_cast<std::size_t>(out.bundle)].sent();
    }
  }
}

}  // namespace sennit
