#include "comm/calls.hpp"

#include "base/log.hpp"
#include "base/seconds.hpp"
#include "comm/error_contract.hpp"

#include <iterator>
#include <string>
#include <utility>

namespace sennit {
namespace {

using std::chrono::microseconds;

// A call that has waited this long looks at the other ranks' lines, then ever less often: a look
// costs some microseconds, and a mismatch or death must be reported within a second.
constexpr Clock::duration kFirstLook = microseconds(100);

// Of a call on several nodes, until it asks whether the other ends of rails still answer.
constexpr Clock::duration kLongWait = std::chrono::seconds(1);

void set_times(Work& work, const CommConfig& config) {
  work.posted = Clock::now();
  const double deadline =
      work.operation.deadline_s != 0 ? work.operation.deadline_s : config.deadline_s;
  work.deadline = deadline > 0 ? work.posted + clock_span(deadline) : Clock::time_point::max();
  work.look_interval = kFirstLook;
  work.next_look = work.posted + kFirstLook;
  work.next_warning = work.posted + clock_span(config.first_warning_s);
}

MessageLog::Way& way_of(const Work& work, const World& world) {
  return world.message_log(world.rank(), work.operation.peer).way(work.operation.is_send);
}

// As the next one of its pair. A recv that was announced before may turn out to be for a later one.
void announce_message(Work& work, const World& world) {
  MessageLog::Way& way = way_of(work, world);
  const std::uint64_t number = way.ended.load(std::memory_order_relaxed) + 1;
  if (work.message == number) {
    return;
  }
  work.message = number;
  if (way.calls.entered.load(std::memory_order_relaxed) == number) {
    way.calls.replace(number, work.words);
  } else {
    way.calls.enter(number, work.words);
  }
}

// To the other ranks: this one has done its part.
void report_end(const Work& work, const World& world) {
  if (work.sequence != 0) {
    world.my_line().leave(work.sequence);
  } else {
    way_of(work, world).ended.store(work.message, std::memory_order_release);
  }
}

void end(Work& work, Status status, const World& world) {
  if (status.ok()) {
    world.my_line().waits_for.store(-1, std::memory_order_relaxed);
  }
  work.status = std::move(status);
  work.ended = true;
  work.job.reset();
  work.input_copy.reset();
}

void trace(const Work& work, int rank) {
  const LogRank log_rank(rank);
  const Operation& operation = work.operation;
  const std::string number =
      work.is_message() ? fmt::format("to or from {}, tag {}", operation.peer, operation.tag)
                        : fmt::format("number {}", work.sequence);
  SENNIT_TRACE("call",
               "{} {}: {} bytes by {}",
               name_of(operation),
               number,
               operation.bytes(),
               work.program->program().plan->strands.front().schedule->algorithm);
}

std::optional<Verdict> find_different_counts(const Work& work, const World& world) {
  if (!work.operation.varying) {
    return std::nullopt;
  }
  const CallView view{.sequence = work.sequence, .words = work.words, .counts = &work.counts};
  return find_different_counts(world, view);
}

bool may_wait_for_rails(const WorkQueues& queues) {
  if (queues.collectives.empty() || !queues.pairs.empty()) {
    return true;
  }
  const Work& front = *queues.collectives.front();
  return !front.job || front.job->finished() || front.program->has_rails();
}

}  // namespace

void Calls::post(std::shared_ptr<Work> work) {
  watch_.own_wait().touch();
  set_times(*work, config_);
  last_program_ = work->program;
  if (work->is_message()) {
    work->order = ++messages_;
  } else {
    work->sequence = ++posted_;
  }
  if (log_enabled(LogLevel::kTrace)) [[unlikely]] {
    trace(*work, world_.rank());
  }
  // Else others would see a call that differs from theirs before they see the abort.
  notice_abort();
  if (!failure_.ok()) {
    work->ended = true;
    work->status = failure_;
    return;
  }
  if (!inbox_.is_empty() && work->is_recv()) {
    if (const auto message = inbox_.take(*work)) {
      hand_over(*message, work);
      return;
    }
  }
  WorkQueues::Queue& queue = queues_.of(*work);
  queue.push_back(std::move(work));
  if (queue.size() == 1) {
    start_front(queue);
  }
}

void Calls::go_on(std::shared_ptr<Work> work) {
  set_times(*work, config_);
  queues_.collectives.push_back(std::move(work));
}

bool Calls::is_quiet() const {
  return !is_inherited() && failure_.ok() && is_idle() && !is_aborted();
}

DieAt* Calls::die_at(std::uint64_t sequence) {
  const bool is_here = config_.die_at && config_.die_at->is_in(world_.rank(), sequence);
  return is_here ? &*config_.die_at : nullptr;
}

std::shared_ptr<Work> Calls::outstanding() const {
  return is_inherited() ? nullptr : queues_.outstanding();
}

void Calls::start(Work& work) {
  const Operation& operation = work.operation;
  if (work.sequence != 0 && !work.program->program().proof.in_place && operation.count > 0 &&
      is_in_place(operation, world_.rank(), world_.size())) {
    // Not before the calls ahead of it have ended: they may write this input.
    work.input_copy = copy_of_input(operation, world_.rank(), world_.size());
    work.call.input = work.input_copy.get();
  }
  if (work.sequence != 0) {
    if (operation.varying) {
      world_.counts().publish(world_.rank(), work.sequence, work.counts);
    }
    world_.my_line().enter(work.sequence, work.words);
  } else {
    announce_message(work, world_);
  }
  work.call.die_at = die_at(work.sequence);
  work.job.emplace(*work.program, work.call);
}

// A recv begins before its message is known, unless that may be for an older recv from any rank, or
// its job lets the sender know what it chooses: then it cannot be taken back.
void Calls::start_front(WorkQueues::Queue& queue) {
  if (queue.empty() || queue.front()->operation.peer == kAnyRank) {
    return;
  }
  Work& work = *queue.front();
  const bool awaits_message =
      work.is_recv() &&
      (queues_.have_recvs_from_any() || Choices::has_any(work.program->program())) &&
      inbox_.knows(work.operation.peer);
  if (awaits_message) {
    announce_message(work, world_);
  } else {
    start(work);
  }
}

// What the inbox has found a message for; false: nothing.
bool Calls::start_matched(const std::shared_ptr<Work>& recv) {
  if (recv == nullptr) {
    return false;
  }
  if (!recv->status.ok()) {
    fail(*recv, {.code = recv->status.code(), .evidence = recv->status.message()});
  } else if (!recv->job) {
    start(*recv);
  }
  return true;
}

// A message that has come into own memory goes to its recv, which is in no queue.
void Calls::hand_over(const Work& message, const std::shared_ptr<Work>& recv) {
  recv->operation.peer = message.operation.peer;
  if (const auto verdict = inbox_.copy(message, *recv)) {
    queues_.of(*recv).push_front(recv);
    fail(*recv, *verdict);
  } else {
    end(*recv, {}, world_);
  }
}

bool Calls::notice_abort() {
  if (!is_aborted() || !failure_.ok()) {
    return false;
  }
  fail_all(Status(Code::kAborted,
                  fmt::format("communicator '{}' was aborted by this rank", config_.name)),
           nullptr);
  return true;
}

bool Calls::progress() {
  if (is_inherited()) {
    return false;
  }
  if (notice_abort()) {
    return true;
  }
  const bool has_moved = advance_front(queues_.collectives);
  if (has_moved) {
    watch_.add_move();
  }
  const bool serves_rails = rails_ != nullptr && (may_wait_for_rails(queues_) ||
                                                  ++rounds_without_rails_ % kRoundsPerRails == 0);
  bool moved = (serves_rails && rails_->progress()) || has_moved;
  while (queues_.have_recvs_from_any() && start_matched(inbox_.match_any())) {
    moved = true;
  }
  auto& pairs = queues_.pairs;
  for (auto pair = pairs.begin(); pair != pairs.end();) {
    moved = advance_front(pair->second) || moved;
    if (!failure_.ok()) {
      return true;  // and there are no pairs any more
    }
    pair = pair->second.empty() ? queues_.erase(pair) : std::next(pair);
  }
  return moved;
}

bool Calls::advance_front(WorkQueues::Queue& queue) {
  if (queue.empty()) {
    return false;
  }
  const std::shared_ptr<Work> work = queue.front();
  if (!work->job) {
    return work->operation.peer != kAnyRank && start_matched(inbox_.match(work->operation.peer));
  }
  const bool moved = work->advance();
  if (work->job->has_met_foreign() && work->is_recv() && !work->is_matched) {
    return start_matched(inbox_.match(work->operation.peer));
  }
  if (work->job->finished() && flush_rails(*work)) {
    // A rank that sends more than a peer expects, or nothing where it expects some, may come to its
    // end. Whichever of the two is the later to announce its counts finds the other's here.
    if (const auto verdict = find_different_counts(*work, world_)) {
      fail(*work, *verdict);
      return true;
    }
    queue.pop_front();
    report_end(*work, world_);
    end(*work, {}, world_);
    if (const auto recv = work->parked ? inbox_.take_recv_for(work) : nullptr) {
      hand_over(*work, recv);
    }
    if (failure_.ok()) {  // else the queue is gone
      start_front(queue);
    }
    return true;
  }
  return moved;
}

// Who returns carries nothing more. Whether a message that has left its sender is read is not the
// sender's matter.
bool Calls::flush_rails(const Work& work) {
  return rails_ == nullptr ||
         rails_->flush([&](int peer) { return work.sequence != 0 && needs(work, peer, world_); });
}

// Why the work cannot go on; ok while it can.
Status Calls::broken(const Work& work) const {
  Status status = work.job ? work.job->status() : Status();
  if (status.ok() && rails_ != nullptr) {
    status = rails_->failure([&](int peer) { return needs(work, peer, world_); },
                             Clock::now() - work.posted >= kLongWait);
  }
  return status;
}

void Calls::look(Clock::time_point now) {
  watch_.look_around(now);
  for (const std::shared_ptr<Work>& work : queues_.running()) {
    if (work->ended || !watch_.is_due(*work)) {
      continue;
    }
    // A job does not meet all messages of others: those of bundles come on several paths.
    if (work->is_recv() && !work->is_matched && work->operation.peer != kAnyRank) {
      start_matched(inbox_.match(work->operation.peer));
      if (!failure_.ok()) {
        return;  // all works have ended
      }
    }
    if (const auto verdict = watch_.look_at(*work, broken(*work))) {
      fail(*work, *verdict);
    }
  }
}

Clock::time_point Calls::next_look() const {
  return is_inherited() ? Clock::time_point::max() : watch_.next_look();
}

void Calls::fail(const Work& work, const Verdict& verdict) {
  fail_all(error_contract(work, verdict, world_, config_.name), &work);
}

// Ends every work, and reports to the other ranks why.
void Calls::fail_all(const Status& status, const Work* cause) {
  failure_ = status;
  watch_.own_wait().keep();
  SENNIT_INFO("comm", "{}", status.message());
  if (cause != nullptr) {
    const auto& blamed = status.detail().blamed_ranks;
    world_.my_line().fail(status.code(), blamed.empty() ? -1 : blamed.front());
  }
  world_.sound_alarm();
  const auto end_all = [&](const WorkQueues::Queue& queue) {
    for (const std::shared_ptr<Work>& work : queue) {
      end(*work, status, world_);
    }
  };
  end_all(queues_.collectives);
  for (const auto& [key, queue] : queues_.pairs) {
    end_all(queue);
  }
  queues_ = {};
}

}  // namespace sennit
