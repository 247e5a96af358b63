// Plain calls that a communicator has made before.
#include "base/log.hpp"
#include "comm/communicator.hpp"

#include <utility>

namespace sennit {

// A call with options of its own is rare, and a group's or a work's call is found by the same
// arguments.
void Communicator::learn(const Work& work) {
  const Operation& operation = work.operation;
  if (operation.varying || operation.collective == Collective::kSendRecv ||
      operation.deadline_s != 0 || operation.request != CallRequest{} ||
      quick_calls_.find(plain(operation)) != nullptr) {
    return;
  }
  QuickCall call{.operation = operation,
                 .program = work.program,
                 .words = work.words,
                 .fingerprint = work.call.fingerprint,
                 .needs = buffer_needs(operation, rank(), size()),
                 .in_place = work.program->program().proof.in_place,
                 .tile = SingleTile::resolve(Job(*work.program, work.call))};
  quick_calls_.learn(std::move(call));
}

std::optional<QuickRun> Communicator::begin_quick(const PlainCall& call) {
  // Calls that are logged one by one are, where they are posted.
  if (finalized_ || !calls_.is_quiet() || log_enabled(LogLevel::kTrace)) {
    return std::nullopt;
  }
  const QuickCall* known = quick_calls_.find(call);
  if (known == nullptr || !known->tile || !known->fits(call.send, call.recv)) {
    return std::nullopt;
  }
  const std::uint64_t sequence = calls_.begin(known->program);
  world_.my_line().enter(sequence, known->words);
  return QuickRun{.call = known,
                  .send = call.send,
                  .recv = call.recv,
                  .sequence = sequence,
                  .run = known->tile->begin({.input = call.send,
                                             .output = call.recv,
                                             .fingerprint = known->fingerprint,
                                             .die_at = calls_.die_at(sequence)})};
}

void Communicator::end_quick(const QuickRun& quick) { world_.my_line().leave(quick.sequence); }

std::shared_ptr<Work> Communicator::go_on_as_work(const QuickRun& quick) {
  const QuickCall& call = *quick.call;
  auto work = std::make_shared<Work>();
  work->operation = call.operation;
  work->operation.send = quick.send;
  work->operation.recv = quick.recv;
  work->sequence = quick.sequence;
  work->words = call.words;
  work->program = call.program;
  work->call = {.input = quick.send,
                .output = quick.recv,
                .count = call.operation.count,
                .dtype = call.operation.dtype,
                .op = call.operation.op,
                .scaling = {.scalar = {}, .ranks = size()},
                .fingerprint = call.fingerprint,
                .path_policy = path_policy_};
  work->job.emplace(*work->program, work->call);
  work->job->go_on(quick.run.steps_done, quick.run.die_at);
  calls_.go_on(work);
  return work;
}

}  // namespace sennit
