#include "exec/cpu/single_tile.hpp"

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

constexpr std::size_t kMostOperands = 16;
constexpr std::size_t kMostSteps = 255;

bool is_simple_step(const ProgramStep& step) {
  const auto by_slot = [](const MessageRef& ref) { return ref.protocol == Protocol::kSlots; };
  return !step.pre && !step.post && !step.is_coded &&
         step.from.size() + step.in.size() <= kMostOperands &&
         std::ranges::all_of(step.in, by_slot) && std::ranges::all_of(step.out, by_slot);
}

}  // namespace

// Looks up what Job::run does in a step's only tile, move by move.
class SingleTile::Resolver {
 public:
  Resolver(const Job& job, const ProgramLane& lane, const ProgramStep& step)
      : job_(job), lane_(lane), step_(step) {}

  static bool is_simple(const Job& job) {
    const Program& program = job.program_;
    const auto has_one_tile = [](const auto& strand) { return strand.all_tiles <= 1; };
    return !job.finished_ && !job.bound_.has_rails() && program.bundles.empty() &&
           program.log_links.empty() && program.scratch_bytes == 0 &&
           !program.plan->problem().varying && program.lanes.size() <= kMostLanes &&
           std::ranges::all_of(job.layout_.strands(), has_one_tile) &&
           std::ranges::all_of(program.lanes, [](const ProgramLane& lane) {
             return lane.steps.size() <= kMostSteps &&
                    std::ranges::all_of(lane.steps, is_simple_step);
           });
  }

  TileStep run() && {
    for (const Wait& wait : step_.waits) {
      if (wait.delay == 0) {  // before the first tile there is none
        resolved_.waits.push_back(wait);
      }
    }
    resolved_.in = messages(step_.in);
    resolved_.out = messages(step_.out);
    add_moves();
    std::erase_if(resolved_.moves, [](const Move& move) { return move.elements == 0; });
    return std::move(resolved_);
  }

 private:
  [[nodiscard]] std::vector<Message> messages(const std::vector<MessageRef>& refs) const {
    std::vector<Message> found;
    for (const MessageRef& ref : refs) {
      found.push_back({.link = &job_.bound_.links()[static_cast<std::size_t>(ref.link)],
                       .index = static_cast<std::uint64_t>(ref.index),
                       .bytes = job_.layout_.message_bytes(lane_, step_, {}, 0)});
    }
    return found;
  }

  void add_moves() {
    switch (step_.kind) {
      case StepKind::kSend:
        return fill(step_.from);
      case StepKind::kRecv:
        return take();
      case StepKind::kRecvReduce:
      case StepKind::kReduce:
        return combine();
      case StepKind::kCopy:
        for (std::size_t k = 0; k < step_.from.size(); ++k) {
          add(place(step_.to[k]), {place(step_.from[k])}, elements(step_.from[k]));
        }
        return;
      case StepKind::kToken:
        return;
    }
  }

  void fill(const std::vector<Piece>& from) {
    for (std::size_t out = 0; out < step_.out.size(); ++out) {
      std::int64_t offset = 0;
      for (const Piece& piece : from) {
        add({Base::kOut, out, offset}, {place(piece)}, elements(piece));
        offset += elements(piece) * job_.layout_.element_bytes();
      }
    }
  }

  void take() {
    std::int64_t offset = 0;
    for (const Piece& piece : step_.to) {
      add(place(piece), {Place{Base::kIn, 0, offset}}, elements(piece));
      offset += elements(piece) * job_.layout_.element_bytes();
    }
    step_.to.empty() ? pass_on({Base::kIn, 0, 0}, 0) : fill(step_.to);
  }

  void combine() {
    const std::size_t blocks = step_.lengths_of.size();
    const std::size_t local = step_.from.size() / blocks;
    std::int64_t offset = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      std::vector<Place> operands;
      for (std::size_t index = 0; index < local + step_.in.size(); ++index) {
        const std::size_t operand =
            step_.order.empty() ? index : static_cast<std::size_t>(step_.order[index]);
        operands.push_back(operand < local ? place(step_.from[operand * blocks + block])
                                           : Place{Base::kIn, operand - local, offset});
      }
      const std::int64_t length = job_.layout_.slice_elements(lane_, step_.lengths_of[block], 0);
      add(step_.to.empty() ? Place{Base::kOut, 0, offset} : place(step_.to[block]),
          std::move(operands),
          length);
      offset += length * job_.layout_.element_bytes();
    }
    step_.to.empty() ? pass_on({Base::kOut, 0, 0}, 1) : fill(step_.to);
  }

  // The whole message that lies at `from` goes into the slots from `first_out` on.
  void pass_on(const Place& from, std::size_t first_out) {
    const auto bytes = static_cast<std::int64_t>(job_.layout_.message_bytes(lane_, step_, {}, 0));
    for (std::size_t out = first_out; out < step_.out.size(); ++out) {
      add({Base::kOut, out, 0}, {from}, bytes / job_.layout_.element_bytes());
    }
  }

  void add(const Place& to, std::vector<Place> from, std::int64_t elements) {
    resolved_.moves.push_back({to, std::move(from), elements});
  }

  [[nodiscard]] std::int64_t elements(const Piece& piece) const {
    return job_.layout_.slice_elements(lane_, {piece.space, piece.index}, 0);
  }
  [[nodiscard]] Place place(const Piece& piece) const {
    return {piece.space == Space::kInput ? Base::kInput : Base::kOutput,
            0,
            job_.layout_.buffer_offset(lane_, piece, 0)};
  }

  const Job& job_;
  const ProgramLane& lane_;
  const ProgramStep& step_;
  TileStep resolved_;
};

std::optional<SingleTile> SingleTile::resolve(const Job& job) {
  return Resolver::is_simple(job) ? std::optional(SingleTile(job)) : std::nullopt;
}

SingleTile::SingleTile(const Job& job)
    : program_(&job.program_),
      dtype_(job.call_.dtype),
      op_(job.call_.op),
      element_bytes_(job.layout_.element_bytes()),
      lanes_(job.lanes_.size()) {
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const ProgramLane& lane = program_->lanes[l];
    if (job.lanes_[l].units > 0 && !lane.steps.empty()) {
      ++lanes_to_run_;
      for (const ProgramStep& step : lane.steps) {
        lanes_[l].push_back(Resolver(job, lane, step).run());
      }
    }
  }
  for (std::size_t l = 0; l < program_->links.size(); ++l) {
    const ProgramLink& link = program_->links[l];
    const std::int64_t tiles = job.layout_.tiles_of_copy(link.strand, link.copy);
    counts_.push_back(
        {&job.bound_.links()[l], static_cast<std::uint64_t>(tiles * link.messages_per_tile)});
  }
}

SingleTile::Run SingleTile::begin(const Call& call, Trace* trace) const {
  Run run{.input = static_cast<const std::byte*>(call.input),
          .output = static_cast<std::byte*>(call.output),
          .fingerprint = call.fingerprint,
          .die_at = call.die_at,
          .trace = trace,
          .lanes_left = lanes_to_run_};
  run.reach_moment();
  return run;
}

bool SingleTile::advance(Run& run) const {
  bool moved = false;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const TileLane& lane = lanes_[l];
    while (run.steps_done[l] < lane.size() && may_run(run, lane[run.steps_done[l]])) {
      run_step(run, l, run.steps_done[l]);
      if (++run.steps_done[l] == lane.size() && --run.lanes_left == 0) {
        finish();
      }
      moved = true;
    }
  }
  return moved;
}

bool SingleTile::may_run(const Run& run, const TileStep& step) {
  for (const Wait& wait : step.waits) {
    if (run.steps_done[static_cast<std::size_t>(wait.lane)] <= wait.step) {
      return false;
    }
  }
  for (const Message& in : step.in) {
    const std::uint64_t position = in.position();
    if (!channel::is_full(in.link->ring.full(position), position, run.fingerprint)) {
      return false;
    }
  }
  return std::ranges::all_of(step.out, has_slot);
}

// The free words of a ring lie in one line, which the reader writes in every call. So this end
// looks at them only when what it saw last is used up, and then at all of them.
bool SingleTile::has_slot(const Message& message) {
  const std::uint64_t position = message.position();
  std::uint64_t& credit = *message.link->credit;
  if (position < credit) {
    return true;
  }
  const shm::Ring& ring = message.link->ring;
  std::uint64_t next = position;
  while (next < position + ring.slots() &&
         channel::may_write(ring.free(next), next, ring.slots())) {
    ++next;
  }
  credit = next;
  return next > position;
}

void SingleTile::run_step(Run& run, std::size_t lane, std::size_t index) const {
  const TileStep& step = lanes_[lane][index];
  const std::uint64_t begin = run.trace != nullptr ? run.trace->tick() : 0;
  for (const Move& move : step.moves) {
    run_move(run, step, move);
  }
  run.reach_moment();
  if (run.trace != nullptr) {
    const ProgramLane& known = program_->lanes[lane];
    run.trace->add({.rank = program_->rank,
                    .strand = known.strand,
                    .copy = known.copy,
                    .lane = known.schedule_lane,
                    .step = static_cast<int>(index),
                    .tile = 0,
                    .begin = begin,
                    .end = run.trace->tick()});
  }
  for (const Message& out : step.out) {
    const std::uint64_t position = out.position();
    channel::publish(out.link->ring.full(position), position, run.fingerprint);
    wake(*out.link->bell);
  }
  for (const Message& in : step.in) {
    const std::uint64_t position = in.position();
    channel::release_slot(in.link->ring.free(position), position);
    wake(*in.link->bell);
  }
  run.reach_moment();
}

std::byte* SingleTile::at(const Run& run, const TileStep& step, const Place& place) {
  switch (place.base) {
    case Base::kInput:
      return const_cast<std::byte*>(run.input) + place.offset;
    case Base::kOutput:
      return run.output + place.offset;
    case Base::kIn:
      return step.in[place.message].payload() + place.offset;
    case Base::kOut:
      break;
  }
  return step.out[place.message].payload() + place.offset;
}

void SingleTile::run_move(const Run& run, const TileStep& step, const Move& move) const {
  const Target to{at(run, step, move.to),
                  move.to.base == Base::kOut ? step.out[move.to.message].link->stores : nullptr};
  if (move.from.size() == 1) {
    const std::byte* from = at(run, step, move.from.front());
    if (from != to.data) {  // in place they are the same memory, and memcpy forbids that
      to.copy(from, static_cast<std::size_t>(move.elements * element_bytes_));
    }
    return;
  }
  std::array<Operand, kMostOperands> operands;
  for (std::size_t o = 0; o < move.from.size(); ++o) {
    operands[o].data = at(run, step, move.from[o]);
  }
  to.reduce(dtype_,
            op_,
            {},
            {.operands = std::span(operands).first(move.from.size()), .elements = move.elements});
}

// The next call goes on where this one's messages end.
void SingleTile::finish() const {
  for (const Count& count : counts_) {
    *count.link->position += count.messages;
  }
}

}  // namespace sennit
