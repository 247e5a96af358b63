#include "exec/cpu/job.hpp"

#include "types/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace sennit {

Job::Job(const BoundProgram& bound, const Call& call, Trace* trace)
    : bound_(bound),
      program_(bound.program()),
      call_(call),
      element_bytes_(static_cast<std::int64_t>(size_bytes(call.dtype))),
      trace_(trace) {
  reach_moment();
  lay_out();
  open_links();
  lanes_.resize(program_.lanes.size());
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const ProgramLane& lane = program_.lanes[l];
    lanes_[l].units = (tiles_of_copy(lane.strand, lane.copy) + lane.burst - 1) / lane.burst;
    lanes_left_ += lanes_[l].units > 0 && !lane.steps.empty() ? 1 : 0;
  }
  if (program_.scratch_bytes > 0 && lanes_left_ > 0) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(program_.scratch_bytes));
  }
  if (finished()) {
    finish();
  }
}

bool Job::advance() {
  bool moved = false;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    moved = try_lane(l) || moved;
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
  const std::int64_t last = std::min(first + lane.burst, tiles_of_copy(lane.strand, lane.copy)) - 1;
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
  if (!fetched(step, first, last)) {
    return !was_posted;
  }
  state.posted = false;
  if (++state.step == static_cast<int>(lane.steps.size())) {
    state.step = 0;
    if (++state.unit == state.units && --lanes_left_ == 0) {
      finish();
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
    publish(step, tile);
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

bool Job::ready(const ProgramStep& step, std::int64_t first, std::int64_t last) const {
  if (!waits_over(step, last)) {
    return false;
  }
  for (std::int64_t tile = first; tile <= last; ++tile) {
    const auto is_there = [&](const MessageRef& in) {
      const std::uint64_t g = number(in, tile);
      const shm::Ring& ring = bound_.links()[static_cast<std::size_t>(in.link)].ring;
      return channel::is_full(ring.full(g), g, fingerprint(in));
    };
    const auto has_slot = [&](const MessageRef& out) {
      const std::uint64_t g = number(out, tile);
      const shm::Ring& ring = bound_.links()[static_cast<std::size_t>(out.link)].ring;
      return channel::may_write(ring.free(g), g, ring.slots());
    };
    for (const MessageRef& in : step.in) {
      if (exists(in, tile) && !is_there(in)) {
        return false;
      }
    }
    for (const MessageRef& out : step.out) {
      if (exists(out, tile) && !has_slot(out)) {
        return false;
      }
    }
  }
  return true;
}

// Messages by direct_get lie in our own buffers until their reader returns the slot.
bool Job::fetched(const ProgramStep& step, std::int64_t first, std::int64_t last) const {
  return std::ranges::all_of(step.out, [&](const MessageRef& out) {
    if (out.protocol != Protocol::kDirectGet) {
      return true;
    }
    for (std::int64_t tile = first; tile <= last; ++tile) {
      if (!exists(out, tile)) {
        continue;
      }
      const std::uint64_t g = number(out, tile);
      if (!channel::is_released(bound_.links()[static_cast<std::size_t>(out.link)].ring.free(g),
                                g)) {
        return false;
      }
    }
    return true;
  });
}

void Job::run(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
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
        const Slice from = slice(lane, step.from[k], tile);
        const Slice to = slice(lane, step.to[k], tile);
        move(step, step.from[k], from, to.data);
      }
      return;
    case StepKind::kToken:
      return;
  }
}

// Copies what a send or copy step reads; scales a contribution and finishes a sum on the way.
void Job::move(const ProgramStep& step, const Piece& piece, const Slice& from, std::byte* to) {
  if (from.elements == 0) {
    return;
  }
  // What other steps pass on has been scaled already.
  const bool reads_own = step.kind == StepKind::kSend || step.kind == StepKind::kCopy;
  const bool is_scaled = reads_own && step.pre && piece.space == Space::kInput;
  const bool is_finished = reads_own && step.post;
  if (is_scaled || is_finished) {
    const Operand operand{.data = from.data, .is_scaled = is_scaled};
    reduce(call_.dtype,
           call_.op,
           call_.scaling,
           {.out = to,
            .operands = std::span(&operand, 1),
            .elements = from.elements,
            .is_finished = is_finished});
  } else if (from.data != to) {
    // In place these are the same memory, and memcpy forbids that.
    std::memcpy(to, from.data, static_cast<std::size_t>(from.elements * element_bytes_));
  }
}

// Puts the blocks `from`, or where they lie, into every outgoing slot.
void Job::fill(const ProgramLane& lane,
               const ProgramStep& step,
               const std::vector<Piece>& from,
               std::int64_t tile) {
  for (const MessageRef& out : step.out) {
    if (!exists(out, tile)) {
      continue;
    }
    std::byte* at = payload(lane, step, out, tile);
    for (const Piece& piece : from) {
      const Slice source = slice(lane, piece, tile);
      const auto bytes = static_cast<std::size_t>(source.elements * element_bytes_);
      if (out.protocol == Protocol::kDirectGet) {
        const cma::Descriptor descriptor{reinterpret_cast<std::uint64_t>(source.data), bytes};
        std::memcpy(at, &descriptor, sizeof(descriptor));
        at += sizeof(descriptor);
      } else {
        move(step, piece, source, at);
        at += bytes;
      }
    }
  }
}

void Job::take(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  if (!exists(step.in.front(), tile)) {
    return;  // a message of a single_hop channel goes no further either
  }
  if (step.in.front().protocol == Protocol::kDirectGet) {
    fetch(lane, step, tile);
  } else {
    const std::byte* at = payload(lane, step, step.in.front(), tile);
    for (const Piece& piece : step.to) {
      const Slice target = slice(lane, piece, tile);
      const auto bytes = static_cast<std::size_t>(target.elements * element_bytes_);
      if (bytes > 0) {
        std::memcpy(target.data, at, bytes);
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
  const MessageRef& in = step.in.front();
  const BoundProgram::BoundLink& link = bound_.links()[static_cast<std::size_t>(in.link)];
  const std::byte* at = payload(lane, step, in, tile);
  for (const Piece& piece : step.to) {
    const Slice target = slice(lane, piece, tile);
    cma::Descriptor descriptor;
    std::memcpy(&descriptor, at, sizeof(descriptor));
    at += sizeof(descriptor);
    const auto bytes = static_cast<std::size_t>(target.elements * element_bytes_);
    const Status status = descriptor.bytes == bytes
                              ? link.memory->read(target.data, descriptor.address, bytes)
                              : fail(Code::kMismatch,
                                     "rank {} offers {} bytes where {} are due",
                                     link.peer,
                                     descriptor.bytes,
                                     bytes);
    if (!status.ok()) {
      ErrorDetail detail;
      detail.blamed_ranks = {link.peer};
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
  const std::size_t bytes = message_bytes(lane, step, tile);
  const std::byte* from = payload(lane, step, step.in.front(), tile);
  for (const MessageRef& out : step.out) {
    if (bytes > 0) {
      std::memcpy(payload(lane, step, out, tile), from, bytes);
    }
  }
}

Operand Job::own_operand(const ProgramLane& lane,
                         const ProgramStep& step,
                         const Piece& piece,
                         std::int64_t tile) const {
  return {.data = slice(lane, piece, tile).data,
          .is_scaled = step.pre && piece.space == Space::kInput};
}

// Reduces block by block into the stored blocks, else into the first outgoing slot; the other
// messages are copies of that.
void Job::combine(const ProgramLane& lane, const ProgramStep& step, std::int64_t tile) {
  const std::size_t blocks = step.lengths_of.size();
  const std::size_t local = step.from.size() / blocks;
  std::vector<Operand> operands(local + step.in.size());
  std::size_t offset = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t place = 0; place < operands.size(); ++place) {
      const std::size_t operand =
          step.order.empty() ? place : static_cast<std::size_t>(step.order[place]);
      operands[place] =
          operand < local
              ? own_operand(lane, step, step.from[operand * blocks + block], tile)
              : Operand{.data = payload(lane, step, step.in[operand - local], tile) + offset};
    }
    std::byte* result = step.to.empty() ? payload(lane, step, step.out.front(), tile) + offset
                                        : slice(lane, step.to[block], tile).data;
    const std::int64_t elements = slice_elements(lane, step.lengths_of[block], tile);
    if (elements > 0) {
      reduce(call_.dtype,
             call_.op,
             call_.scaling,
             {.out = result, .operands = operands, .elements = elements, .is_finished = step.post});
    }
    offset += static_cast<std::size_t>(elements * element_bytes_);
  }
  if (!step.to.empty()) {
    return fill(lane, step, step.to, tile);
  }
  for (std::size_t o = 1; o < step.out.size() && offset > 0; ++o) {
    std::memcpy(payload(lane, step, step.out[o], tile),
                payload(lane, step, step.out.front(), tile),
                offset);
  }
}

void Job::publish(const ProgramStep& step, std::int64_t tile) {
  if (!status_.ok()) {
    return;
  }
  for (const MessageRef& out : step.out) {
    if (exists(out, tile)) {
      const BoundProgram::BoundLink& link = bound_.links()[static_cast<std::size_t>(out.link)];
      const std::uint64_t g = number(out, tile);
      channel::publish(link.ring.full(g), g, fingerprint(out));
      wake(*link.bell);
    }
  }
}

void Job::release(const ProgramStep& step, std::int64_t tile) {
  if (!status_.ok()) {
    return;
  }
  for (const MessageRef& in : step.in) {
    if (exists(in, tile)) {
      const BoundProgram::BoundLink& link = bound_.links()[static_cast<std::size_t>(in.link)];
      const std::uint64_t g = number(in, tile);
      channel::release_slot(link.ring.free(g), g);
      wake(*link.bell);
    }
  }
}

// The next call goes on where this one's messages end.
void Job::finish() {
  for (std::size_t l = 0; l < program_.links.size(); ++l) {
    const ProgramLink& link = program_.links[l];
    const std::vector<std::int64_t>& tiles = links_[l].tiles;
    const std::int64_t messages =
        tiles.empty() ? tiles_of_copy(link.strand, link.copy) * link.messages_per_tile
                      : std::accumulate(tiles.begin(), tiles.end(), std::int64_t{0});
    *bound_.links()[l].position = links_[l].base + static_cast<std::uint64_t>(messages);
  }
}

Job::Waiting Job::waiting() const {
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
  return {};
}

// The peer whose word is missing for the first tile of the lane's unit; false when only this rank's
// own lanes are.
bool Job::find_peer(const ProgramStep& step, bool posted, Waiting& waiting) const {
  for (const MessageRef& in : step.in) {
    if (posted || !exists(in, waiting.tile)) {
      continue;
    }
    const BoundProgram::BoundLink& link = bound_.links()[static_cast<std::size_t>(in.link)];
    const std::uint64_t g = number(in, waiting.tile);
    if (!channel::is_full(link.ring.full(g), g, fingerprint(in))) {
      waiting.peer = link.peer;
      waiting.foreign = channel::is_foreign(link.ring.full(g), g, fingerprint(in));
      return true;
    }
  }
  for (const MessageRef& out : step.out) {
    if (!exists(out, waiting.tile)) {
      continue;
    }
    const BoundProgram::BoundLink& link = bound_.links()[static_cast<std::size_t>(out.link)];
    const std::uint64_t g = number(out, waiting.tile);
    const channel::Word& word = link.ring.free(g);
    const bool blocked =
        posted ? out.protocol == Protocol::kDirectGet && !channel::is_released(word, g)
               : !channel::may_write(word, g, link.ring.slots());
    if (blocked) {
      waiting.peer = link.peer;
      return true;
    }
  }
  return false;
}

}  // namespace sennit
