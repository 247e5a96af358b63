#include "exec/cpu/job.hpp"

#include "base/copy_bytes.hpp"
#include "exec/cpu/coded_step.hpp"
#include "types/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sennit {

Job::Job(const BoundProgram& bound, const Call& call, Trace* trace)
    : bound_(bound),
      program_(bound.program()),
      call_(call),
      trace_(trace),
      layout_(bound, call_),
      lanes_(program_.lanes.size()) {
  reach_moment();
  if (Choices::has_any(program_)) [[unlikely]] {
    choices_.emplace(*this);
  }
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const ProgramLane& lane = program_.lanes[l];
    lanes_[l].units = (layout_.tiles_of_copy(lane.strand, lane.copy) + lane.burst - 1) / lane.burst;
    const bool runs = lanes_[l].units > 0 || (choices_ && !choices_->has_all_tiles());
    lanes_left_ += runs && !lane.steps.empty() ? 1 : 0;
  }
  if (lanes_left_ > 0) {
    layout_.allocate_scratch();
    if (!program_.codecs.empty()) {
      coding_ = CodingBuffers(program_.codecs,
                              call_.dtype,
                              layout_.strands().front().tile_elements,
                              program_.most_coded_operands);
    }
  }
  finish_if_ended();
}

// A job ends with its last lane, unless it must see late copies of messages come. The next call
// goes on where this one's messages end.
void Job::finish_if_ended() {
  if (lanes_left_ > 0 || (choices_ && !choices_->have_ended())) {
    return;
  }
  finished_ = true;
  layout_.finish();
  if (choices_) {
    choices_->finish();
  }
}

void Job::end_lane() {
  --lanes_left_;
  finish_if_ended();
}

void Job::go_on(std::span<const std::uint8_t> steps_done, DieAt* die_at) {
  call_.die_at = die_at;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const std::size_t steps = program_.lanes[l].steps.size();
    if (lanes_[l].units == 0 || steps == 0) {
      continue;
    }
    lanes_[l].step = steps_done[l];
    if (steps_done[l] == steps) {
      lanes_[l].step = 0;
      lanes_[l].unit = lanes_[l].units;
      end_lane();
    }
  }
}

bool Job::advance() {
  bool moved = choices_ && choices_->advance();
  for (const std::size_t lane : program_.turns) {
    moved = try_lane(lane) || moved;
  }
  return moved;
}

bool Job::try_lane(std::size_t index) {
  LaneState& state = lanes_[index];
  const ProgramLane& lane = program_.lanes[index];
  if (state.unit >= state.units || lane.steps.empty() || !status_.ok()) {
    return false;
  }
  const ProgramStep& step = lane.steps[static_cast<std::size_t>(state.step)];
  const std::int64_t first = state.unit * lane.burst;
  const std::int64_t last =
      std::min(first + lane.burst, layout_.tiles_of_copy(lane.strand, lane.copy)) - 1;
  const bool was_posted = state.posted;
  if (!state.posted) {
    if (!ready(step, first, last)) {
      return false;
    }
    run_unit(lane, state.step, first, last);
    if (!status_.ok()) {
      return false;  // the step has not done its work, so nothing may come after it
    }
    state.posted = true;
  }
  if (!ended(lane, step, first, last)) {
    return !was_posted;
  }
  state.posted = false;
  for (const MessageRef& out : step.out) {
    if (out.bundle >= 0) [[unlikely]] {
      choices_->sent(out.bundle);
    }
  }
  if (++state.step == static_cast<int>(lane.steps.size())) {
    state.step = 0;
    if (++state.unit == state.units && (!choices_ || choices_->has_all_tiles())) {
      end_lane();
    }
  }
  return true;
}

// The tiles of a burst are one unit, as the proof has it: nothing of it is visible before all of it
// has run.
void Job::run_unit(const ProgramLane& lane, int index, std::int64_t first, std::int64_t last) {
  const ProgramStep& step = lane.steps[static_cast<std::size_t>(index)];
  const std::uint64_t begin = trace_ != nullptr ? trace_->tick() : 0;
  for (std::int64_t tile = first; tile <= last; ++tile) {
    run(lane, step, tile);
  }
  if (!status_.ok()) {
    return;  // nobody may take what is not the right message
  }
  reach_moment();
  const std::uint64_t end = trace_ != nullptr ? trace_->tick() : 0;
  for (std::int64_t tile = first; tile <= last; ++tile) {
    if (trace_ != nullptr) {
      trace_->add({.rank = program_.rank,
                   .strand = lane.strand,
                   .copy = lane.copy,
                   .lane = lane.schedule_lane,
                   .step = index,
                   .tile = tile,
                   .begin = begin,
                   .end = end});
    }
    publish(lane, step, tile);
    release(step, tile);
  }
  reach_moment();
}

bool Job::waits_over(const ProgramStep& step, std::int64_t last) const {
  return std::ranges::all_of(step.waits, [&](const Wait& wait) {
    const std::int64_t tile = last - wait.delay;
    if (tile < 0) {
      return true;
    }
    const LaneState& other = lanes_[static_cast<std::size_t>(wait.lane)];
    const std::int64_t unit = tile / program_.lanes[static_cast<std::size_t>(wait.lane)].burst;
    return other.unit > unit || (other.unit == unit && other.step > wait.step);
  });
}

bool Job::arrived(const MessageRef& ref, std::int64_t tile) {
  if (ref.bundle >= 0) [[unlikely]] {
    return choices_->has_arrived(ref.bundle);
  }
  const Spot at = spot(ref, tile);
  // Loaded once, for both questions: its line may be on its way here.
  const std::uint64_t word = channel::load_acquire(at.full());
  const std::uint64_t expected = channel::full_word(at.position, layout_.fingerprint(ref));
  has_met_foreign_ =
      word != expected && channel::sequence_of(word) == channel::sequence_of(expected);
  return word == expected;
}

bool Job::has_slot(const MessageRef& ref, std::int64_t tile) {
  if (ref.bundle >= 0) [[unlikely]] {
    return choices_->has_slot(ref.bundle);
  }
  const Spot at = spot(ref, tile);
  return channel::may_write(at.free(), at.position, at.link->ring.slots());
}

bool Job::ready(const ProgramStep& step, std::int64_t first, std::int64_t last) {
  if (!waits_over(step, last)) {
    return false;
  }
  for (std::int64_t tile = first; tile <= last; ++tile) {
    for (const MessageRef& in : step.in) {
      if (layout_.exists(in, tile) && !arrived(in, tile)) {
        if (in.bundle >= 0 && choices_->is_chosen_by_reader(in.bundle) && has_slots(step, tile))
            [[unlikely]] {
          choices_->await(in.bundle);
        }
        return false;
      }
    }
    if (!has_slots(step, tile)) {
      return false;
    }
  }
  return true;
}

bool Job::has_slots(const ProgramStep& step, std::int64_t tile) {
  const MessageRef* to_ask = nullptr;
  for (const MessageRef& out : step.out) {
    if (out.bundle >= 0 && choices_->is_chosen_by_reader(out.bundle)) [[unlikely]] {
      to_ask = &out;
    } else if (layout_.exists(out, tile) && !has_slot(out, tile)) {
      return false;
    }
  }
  // The reader is asked last: once it has answered, nothing may keep the step from running.
  return to_ask == nullptr || has_slot(*to_ask, tile);
}

// Whether nothing that the step sent can be wanted of our own buffers any more. Messages by
// direct_get lie there until their reader returns the slot, and a rail reads slots as it gets on.
bool Job::ended(const ProgramLane& lane,
                const ProgramStep& step,
                std::int64_t first,
                std::int64_t last) {
  return std::ranges::all_of(step.out, [&](const MessageRef& out) {
    if (out.bundle >= 0) [[unlikely]] {
      return choices_->has_ended(lane, step, out, first);
    }
    const BoundProgram::BoundLink& link = bound_.links()[static_cast<std::size_t>(out.link)];
    if (out.protocol != Protocol::kDirectGet && link.rail < 0) {
      return true;
    }
    for (std::int64_t tile = first; tile <= last; ++tile) {
      if (layout_.exists(out, tile) && !spot(out, tile).is_over(bound_.rails())) {
        return false;
      }
    }
    return true;
  });
}

void Job::run(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  if (step.is_coded) [[unlikely]] {
    if (step.in.empty() || layout_.exists(step.in.front(), tile)) {
      CodedStep(*this, lane, step, tile).run();
    }
    return;
  }
  switch (step.kind) {
    case StepKind::kSend:
      return fill(lane, step, step.from, tile);
    case StepKind::kRecv:
      return take(lane, step, tile);
    case StepKind::kRecvReduce:
    case StepKind::kReduce:
      return combine(lane, step, tile);
    case StepKind::kCopy:
      for (std::size_t k = 0; k < step.from.size(); ++k) {
        const Slice from = layout_.slice(lane, step.from[k], tile);
        const Slice to = layout_.slice(lane, step.to[k], tile);
        move(step, step.from[k], from, {to.data});
      }
      return;
    case StepKind::kToken:
      return;
  }
}

// Copies what a step reads; scales a contribution and finishes a sum on the way.
void Job::move(const ProgramStep& step, const Piece& piece, const Slice& from, const Target& to) {
  if (from.elements == 0) {
    return;
  }
  // What other steps pass on has been scaled already.
  const bool reads_own = step.kind == StepKind::kSend || step.kind == StepKind::kCopy;
  const bool is_scaled = reads_own && step.pre && piece.space == Space::kInput;
  const bool is_finished = reads_own && step.post;
  if (is_scaled || is_finished) {
    const Operand operand{.data = from.data, .is_scaled = is_scaled};
    to.reduce(call_.dtype,
              call_.op,
              call_.scaling,
              {.operands = std::span(&operand, 1),
               .elements = from.elements,
               .is_finished = is_finished});
  } else if (from.data != to.data) {
    // In place these are the same memory, and memcpy forbids that.
    to.copy(from.data, static_cast<std::size_t>(from.elements * layout_.element_bytes()));
  }
}

// Puts the blocks `from`, or where they lie, into every outgoing slot.
void Job::fill(const ProgramLane& lane,
               const ProgramStep& step,
               const std::vector<Piece>& from,
               std::int64_t tile) {
  for (const MessageRef& out : step.out) {
    if (layout_.exists(out, tile)) {
      fill_slot(lane, step, spot(out, tile), from, tile);
    }
  }
}

void Job::fill_slot(const ProgramLane& lane,
                    const ProgramStep& step,
                    const Spot& spot,
                    const std::vector<Piece>& from,
                    std::int64_t tile) {
  std::byte* at = layout_.payload(lane, step, spot, tile);
  for (const Piece& piece : from) {
    const Slice source = layout_.slice(lane, piece, tile);
    const auto bytes = static_cast<std::size_t>(source.elements * layout_.element_bytes());
    if (spot.protocol == Protocol::kDirectGet) {
      const cma::Descriptor descriptor{reinterpret_cast<std::uint64_t>(source.data), bytes};
      std::memcpy(at, &descriptor, sizeof(descriptor));
      at += sizeof(descriptor);
    } else {
      move(step, piece, source, {at, spot.link->stores});
      at += bytes;
    }
  }
}

void Job::take(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  if (!layout_.exists(step.in.front(), tile)) {
    return;  // a message of a single_hop channel goes no further either
  }
  const Spot from = spot(step.in.front(), tile);
  if (from.protocol == Protocol::kDirectGet) {
    fetch(lane, step, tile);
  } else {
    const std::byte* at = layout_.payload(lane, step, from, tile);
    for (const Piece& piece : step.to) {
      const Slice target = layout_.slice(lane, piece, tile);
      const auto bytes = static_cast<std::size_t>(target.elements * layout_.element_bytes());
      if (bytes > 0) {
        copy_bytes(target.data, at, bytes);
        at += bytes;
      }
    }
  }
  if (!step.out.empty()) {
    forward(lane, step, tile);
  }
}

// Copies the blocks straight out of the writer's memory. Their lengths are ours: what the peer
// wrote is compared, never obeyed.
void Job::fetch(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  const Spot from = spot(step.in.front(), tile);
  const BoundProgram::BoundLink& link = *from.link;
  const std::byte* at = layout_.payload(lane, step, from, tile);
  for (const Piece& piece : step.to) {
    const Slice target = layout_.slice(lane, piece, tile);
    cma::Descriptor descriptor;
    std::memcpy(&descriptor, at, sizeof(descriptor));
    at += sizeof(descriptor);
    const auto bytes = static_cast<std::size_t>(target.elements * layout_.element_bytes());
    Status status = descriptor.bytes == bytes
                        ? link.memory->read(target.data, descriptor.address, bytes)
                        : fail(Code::kMismatch,
                               "rank {} offers {} bytes where {} are due",
                               link.peer,
                               descriptor.bytes,
                               bytes);
    if (status.ok() && link.has_given_up()) {
      status = fail(Code::kRankFailed,
                    "rank {} gave up its call while its memory was read, so what was read may be "
                    "something else",
                    link.peer);
    }
    if (!status.ok()) {
      const bool is_ours = status.code() == Code::kSystemError && cma::PeerMemory::is_refused();
      ErrorDetail detail;
      detail.blamed_ranks = {is_ours ? bound_.rank().rank : link.peer};
      status_ = Status(status.code(), status.message(), std::move(detail));
      return;
    }
  }
}

// Passes a received message on: from where it was stored, else from slot to slot.
void Job::forward(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  if (!step.to.empty()) {
    return fill(lane, step, step.to, tile);
  }
  const std::size_t bytes = layout_.message_bytes(lane, step, {}, tile);
  const std::byte* from = layout_.payload(lane, step, spot(step.in.front(), tile), tile);
  for (const MessageRef& out : step.out) {
    layout_.target(lane, step, spot(out, tile), tile).copy(from, bytes);
  }
}

// Reduces block by block into the stored blocks, else into the first outgoing slot; the other
// messages are copies of that.
void Job::combine(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  const std::size_t blocks = step.lengths_of.size();
  const std::size_t local = step.from.size() / blocks;
  std::vector<Operand> operands(local + step.in.size());
  const auto own = [&](const Piece& piece) {
    return Operand{.data = layout_.slice(lane, piece, tile).data,
                   .is_scaled = step.pre && piece.space == Space::kInput};
  };
  std::size_t offset = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t place = 0; place < operands.size(); ++place) {
      const std::size_t operand =
          step.order.empty() ? place : static_cast<std::size_t>(step.order[place]);
      operands[place] =
          operand < local
              ? own(step.from[operand * blocks + block])
              : Operand{.data = layout_.payload(
                                    lane, step, spot(step.in[operand - local], tile), tile) +
                                offset};
    }
    const Target result =
        step.to.empty() ? layout_.target(lane, step, spot(step.out.front(), tile), tile, offset)
                        : Target{layout_.slice(lane, step.to[block], tile).data};
    const std::int64_t elements = layout_.slice_elements(lane, step.lengths_of[block], tile);
    if (elements > 0) {
      result.reduce(call_.dtype,
                    call_.op,
                    call_.scaling,
                    {.operands = operands, .elements = elements, .is_finished = step.post});
    }
    offset += static_cast<std::size_t>(elements * layout_.element_bytes());
  }
  if (!step.to.empty()) {
    return fill(lane, step, step.to, tile);
  }
  for (std::size_t o = 1; o < step.out.size() && offset > 0; ++o) {
    layout_.target(lane, step, spot(step.out[o], tile), tile)
        .copy(layout_.payload(lane, step, spot(step.out.front(), tile), tile), offset);
  }
}

void Job::publish(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  if (!status_.ok()) {
    return;
  }
  for (const MessageRef& out : step.out) {
    if (!layout_.exists(out, tile)) {
      continue;
    }
    if (out.bundle >= 0) [[unlikely]] {
      choices_->published(out.bundle);
    }
    const Spot at = spot(out, tile);
    if (at.link->rail >= 0) {
      bound_.rails()->publish(at.link->peer,
                              at.link->rail,
                              at.link->port,
                              {.position = at.position,
                               .word = channel::full_word(at.position, layout_.fingerprint(out)),
                               .bytes = layout_.message_bytes(lane, step, at.codec, tile),
                               .tag = at.tag.value_or(0)});
    } else {
      at.publish(layout_.fingerprint(out));
    }
  }
}

void Job::release(const ProgramStep& step, std::int64_t tile) {
  if (!status_.ok()) {
    return;
  }
  for (const MessageRef& in : step.in) {
    if (!layout_.exists(in, tile)) {
      continue;
    }
    const Spot at = spot(in, tile);
    if (in.bundle >= 0) [[unlikely]] {
      choices_->taken(in.bundle);
    }
    if (at.link->rail >= 0) {
      bound_.rails()->release(at.link->peer, at.link->rail, at.link->port, at.position);
    } else {
      channel::release_slot(at.free(), at.position);
      wake(*at.link->bell);
    }
  }
}

}  // namespace sennit
