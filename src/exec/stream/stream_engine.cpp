#include "exec/stream/stream_engine.hpp"

#include "exec/stream/slot_run.hpp"
#include "exec/stream/staging_sizes.hpp"
#include "exec/stream/word_steps.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {

StreamEngine::StreamEngine(CudaDriver& driver,
                           std::vector<RankWords*> words,
                           std::int64_t staging_bytes)
    : driver_(driver),
      words_(std::move(words)),
      staging_(driver, staging_bytes),
      sides_(driver),
      slot_sides_(driver) {}

Result<std::unique_ptr<StreamEngine>> StreamEngine::create(CudaDriver& driver,
                                                           std::vector<RankWords*> words,
                                                           std::int64_t staging_bytes) {
  std::unique_ptr<StreamEngine> engine(new StreamEngine(driver, std::move(words), staging_bytes));
  SENNIT_RETURN_IF_ERROR(engine->open());
  return engine;
}

Status StreamEngine::open() {
  SENNIT_RETURN_IF_ERROR(sides_.open(StreamRun::kStreams));
  for (void*& event : folded_) {
    SENNIT_ASSIGN_OR_RETURN(event, driver_.create_event());
  }
  return {};
}

StreamEngine::~StreamEngine() {
  sides_.close();  // they may still wait for the events
  for (void* const event : folded_) {
    if (event != nullptr) {
      (void)driver_.destroy_event(event);
    }
  }
}

StreamContext StreamEngine::context() { return {driver_, sides_, words_, staging_, folded_}; }

Status StreamEngine::use_rings(host::Rings rings) {
  SENNIT_RETURN_IF_ERROR(slot_sides_.open(SlotRun::kStreams));
  rings_ = std::move(rings);
  return {};
}

Status StreamEngine::run(const PlanProgram& program, const StreamCall& call, void* stream) {
  if (const StreamProgram* const alone = program.alone()) {
    return run(*alone, call, stream);
  }
  std::vector<StreamRun> direct;
  std::vector<SlotRun> slots;
  for (const StrandProgram& strand : program.strands) {
    if (const auto* const straight = std::get_if<StreamProgram>(&strand.program)) {
      direct.emplace_back(context(), *straight, strand.portion, call, stream);
      continue;
    }
    if (rings_.shape.slots == 0) {
      return fail(Code::kInternalError, "a strand through host memory has no rings");
    }
    slots.emplace_back(SlotContext{driver_, slot_sides_, words_, rings_},
                       std::get<SlotProgram>(strand.program),
                       strand.portion,
                       call);
  }
  return run_all({program.rank, call.number, call.deadline_ms}, direct, slots, stream);
}

Status StreamEngine::run(const StreamProgram& program, const StreamCall& call, void* stream) {
  const std::int64_t rounds = rounds_of(program, call.extent());
  for (std::int64_t round = 0; round < rounds; ++round) {
    StreamRun run(context(), program, {.before = round, .share = 1, .total = rounds}, call, stream);
    const std::uint64_t number = round + 1 == rounds ? call.number : 0;
    SENNIT_RETURN_IF_ERROR(
        run_all({program.rank, number, call.deadline_ms}, {&run, 1}, {}, stream));
  }
  return {};
}

// Equal on all ranks, whoever folds.
std::int64_t StreamEngine::rounds_of(const StreamProgram& program, const Extent& extent) const {
  const Problem& problem = program.problem;
  return is_reduction(problem.collective) && problem.ranks > 1
             ? staging_rounds(problem, extent, staging_.most_bytes())
             : 1;
}

std::int64_t StreamEngine::staging_needs(const StreamProgram& program, const Extent& extent) const {
  if (!program.is_staged()) {
    return 0;
  }
  std::int64_t room = 0;  // for the contribution of one rank
  const std::int64_t rounds = rounds_of(program, extent);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Portion portion{.before = round, .share = 1, .total = rounds};
    room = std::max(room, staging_room(program.problem, portion, extent));
  }
  return (program.problem.ranks - 1) * room;
}

// Direct strands go first: each part of those through slots takes some calls of the driver, and
// many of them more time than such a strand takes to begin. So where a device has one queue for all
// streams, what waits there waits for what peers put in at the beginning of the call; then for
// copies of direct strands that come earlier in the order of move(); and behind them strands
// through slots wait for each other alone, in an order of their own (slot_run.hpp).
Status StreamEngine::run_all(const Told& told,
                             std::span<StreamRun> direct,
                             std::span<SlotRun> slots,
                             void* stream) {
  RankWords& mine = *words_[static_cast<std::size_t>(told.rank)];
  // What the user's stream holds so far comes before everything of this call.
  SENNIT_RETURN_IF_ERROR(sides_.fork(stream));
  SENNIT_RETURN_IF_ERROR(slot_sides_.fork(stream));
  std::vector<WordStep> steps;
  steps.push_back({WordStep::Kind::kStore, &mine.running, running_word(0, told.deadline_ms)});
  for (const StreamRun& run : direct) {
    run.meet(steps);
  }
  const Status moved = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(walk(driver_, steps, stream));
    for (StreamRun& run : direct) {
      SENNIT_RETURN_IF_ERROR(run.move());
    }
    for (SlotRun& run : slots) {
      SENNIT_RETURN_IF_ERROR(run.move());
    }
    return {};
  }();
  // Also after a failure: the user's stream does not end before what was begun beside it.
  SENNIT_RETURN_IF_ERROR(sides_.join(stream));
  SENNIT_RETURN_IF_ERROR(slot_sides_.join(stream));
  SENNIT_RETURN_IF_ERROR(moved);
  steps.clear();
  for (const StreamRun& run : direct) {
    run.settle(steps);
  }
  for (const SlotRun& run : slots) {
    run.settle(steps);
  }
  end_call(steps, mine, told.number);
  return walk(driver_, steps, stream);
}

}  // namespace sennit::stream
