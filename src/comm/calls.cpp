#include "comm/calls.hpp"

#include "base/log.hpp"
#include "base/seconds.hpp"
#include "comm/error_contract.hpp"

#include <iterator>
#include <utility>

namespace sennit {
namespace {

using std::chrono::microseconds;

// A call that has waited this long looks at the other ranks' lines, then ever less often: a look
// costs some microseconds, and a mismatch or death must be reported within a second.
constexpr Clock::duration kFirstLook = microseconds(100);

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

}  // namespace

void Calls::post(std::shared_ptr<Work> work) {
  watch_.own_wait().touch();
  set_times(*work, config_);
  last_program_ = work->program;
  if (work->operation.collective != Collective::kSendRecv) {
    work->sequence = ++posted_;
  }
  // Else others would see a call that differs from theirs before they see the abort.
  notice_abort();
  if (!failure_.ok()) {
    work->ended = true;
    work->status = failure_;
    return;
  }
  WorkQueues::Queue& queue = queues_.of(*work);
  queue.push_back(std::move(work));
  if (queue.size() == 1) {
    start(*queue.front());
  }
}

void Calls::go_on(std::shared_ptr<Work> work) {
  set_times(*work, config_);
  queues_.collectives.push_back(std::move(work));
}

bool Calls::is_quiet() const {
  return !is_inherited() && failure_.ok() && is_idle() && empty_recvs_.is_empty() && !is_aborted();
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
    auto& calls = way_of(work, world_).calls;
    work.message = calls.entered.load(std::memory_order_relaxed) + 1;
    calls.enter(work.message, work.words);
  }
  work.call.die_at = die_at(work.sequence);
  work.job.emplace(*work.program, work.call);
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
  bool moved = (rails_ != nullptr && rails_->progress()) || has_moved;
  auto& pairs = queues_.pairs;
  for (auto pair = pairs.begin(); pair != pairs.end();) {
    moved = advance_front(pair->second) || moved;
    if (!failure_.ok()) {
      return true;  // and there are no pairs any more
    }
    pair = pair->second.empty() ? pairs.erase(pair) : std::next(pair);
  }
  return moved;
}

bool Calls::advance_front(WorkQueues::Queue& queue) {
  if (queue.empty()) {
    return false;
  }
  const std::shared_ptr<Work> work = queue.front();
  const bool moved = !work->job->finished() && work->job->advance();
  work->has_moved = work->has_moved || moved;
  if (work->job->finished() && flush_rails(*work)) {
    // A rank that sends more than a peer expects, or nothing where it expects some, may come to its
    // end. Whichever of the two is the later to announce its counts finds the other's here.
    const CallView view{
        .sequence = work->sequence, .words = work->words, .counts = work->pair_counts()};
    if (const auto verdict = find_different_counts(world_, view)) {
      fail(*work, *verdict);
      return true;
    }
    // Nor does a recv of no elements wait for anything.
    if (work->sequence == 0 && !work->operation.is_send && work->operation.count == 0) {
      empty_recvs_.add(work->operation.peer, work->message);
    }
    if (const auto verdict = empty_recvs_.find_unexpected(world_)) {
      fail(*work, *verdict);
      return true;
    }
    queue.pop_front();
    end(*work, {});
    if (!queue.empty()) {
      start(*queue.front());
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
  Status status = work.job->status();
  if (status.ok() && rails_ != nullptr) {
    status = rails_->failure([&](int peer) { return needs(work, peer, world_); });
  }
  return status;
}

void Calls::look(Clock::time_point now) {
  watch_.look_around(now);
  for (const std::shared_ptr<Work>& work : queues_.running()) {
    if (work->ended || !watch_.is_due(*work)) {
      continue;
    }
    if (const auto verdict = watch_.look_at(*work, broken(*work))) {
      fail(*work, *verdict);
    }
  }
}

Clock::time_point Calls::next_look() const {
  return is_inherited() ? Clock::time_point::max() : watch_.next_look();
}

void Calls::end(Work& work, Status status) {
  if (status.ok() && work.sequence != 0) {
    world_.my_line().leave(work.sequence);
  } else if (status.ok()) {
    way_of(work, world_).ended.store(work.message, std::memory_order_release);
  }
  if (status.ok()) {
    world_.my_line().waits_for.store(-1, std::memory_order_relaxed);
  }
  work.status = std::move(status);
  work.ended = true;
  work.job.reset();
  work.input_copy.reset();
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
      end(*work, status);
    }
  };
  end_all(queues_.collectives);
  for (const auto& [key, queue] : queues_.pairs) {
    end_all(queue);
  }
  queues_ = {};
}

}  // namespace sennit
