#include "comm/calls.hpp"

#include "base/log.hpp"
#include "base/seconds.hpp"
#include "comm/error_contract.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
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

// As the next one of its pair. A recv that was announced before may turn out to be for a later one.
void announce_message(Work& work, const World& world) {
  MessageLog::Way& way = way_of(work, world);
  const std::uint64_t number = way.ended.load(std::memory_order_relaxed) + 1;
  if (work.message == number) {
    return;
  }
  work.message = number;
  if (way.calls.entered.load(std::memory_order_relaxed) == number) {
    way.calls.replace(work.words);
  } else {
    way.calls.enter(number, work.words);
  }
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
// the job would tell the sender what it chooses: then it could not be taken back.
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

bool Calls::match_any() {
  bool moved = false;
  const int first = turn_;
  for (int i = 0; i < world_.size() && queues_.have_recvs_from_any(); ++i) {
    const int peer = (first + i) % world_.size();
    if (match(peer)) {
      moved = true;
      turn_ = (peer + 1) % world_.size();
    }
  }
  return moved;
}

// Gives the next message of `peer`, once that has begun it, to the recv that it is for; true when
// that is a new one.
bool Calls::match(int peer) {
  const auto running = queues_.pairs.find({peer, false});
  const bool is_busy = running != queues_.pairs.end() && !running->second.empty() &&
                       running->second.front()->is_matched;
  if (is_busy || !inbox_.knows(peer)) {
    return false;
  }
  const std::optional<NextMessage> next = next_message(world_, peer);
  const std::shared_ptr<Work> recv = next ? find_recv(peer, *next) : nullptr;
  if (recv == nullptr) {
    return false;
  }
  WorkQueues::Queue& queue = queues_.pairs[{peer, false}];
  if (!queue.empty()) {
    queue.front()->job.reset();  // nothing has moved there
  }
  queue.push_front(recv);
  recv->is_matched = true;
  if (const Status bound = bind(*recv, peer); !bound.ok()) {
    fail(*recv, {.code = bound.code(), .evidence = bound.message()});
  } else if (!recv->job) {
    start(*recv);
  }
  return true;
}

// The recv that was posted first, out of its queue, or a new one into own memory: messages behind
// this one may be waited for. Null: neither is possible now.
std::shared_ptr<Work> Calls::find_recv(int peer, const NextMessage& next) {
  std::shared_ptr<Work> recv = queues_.take_recv(peer, next.words.tag);
  if (recv != nullptr) {
    return recv;
  }
  const auto of_peer = queues_.pairs.find({peer, false});
  const bool is_waited_for = of_peer != queues_.pairs.end() && !of_peer->second.empty();
  const auto& waiting = is_waited_for ? of_peer->second : queues_.pairs.at({kAnyRank, false});
  return new_parked(peer, next.words, *waiting.front());
}

// A recv from any rank becomes one from `peer`.
Status Calls::bind(Work& recv, int peer) {
  if (recv.operation.peer != kAnyRank) {
    return {};
  }
  recv.operation.peer = peer;
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<Work> bound, prepare_(recv.operation));
  recv.program = bound->program;
  return {};
}

// Null where count and type do not say how the message is sent: its call has options of its own.
std::shared_ptr<Work> Calls::new_parked(int peer, const CallWords& words, const Work& waiting) {
  const Result<Dtype> dtype = dtype_from_value(static_cast<int>(words.dtype));
  if (!dtype.ok()) {
    return nullptr;
  }
  Operation operation;
  operation.collective = Collective::kSendRecv;
  operation.count = static_cast<std::int64_t>(words.count);
  operation.dtype = *dtype;
  operation.peer = peer;
  operation.tag = words.tag;
  const Result<std::shared_ptr<Work>> prepared = prepare_(operation);
  if (!prepared.ok() || (*prepared)->words != words) {
    return nullptr;
  }
  std::shared_ptr<Work> work = *prepared;
  const auto bytes = static_cast<std::size_t>(operation.bytes());
  work->parked.reset(new (std::nothrow) std::byte[std::max<std::size_t>(bytes, 1)]);
  work->operation.recv = work->call.output = work->parked.get();
  work->posted = waiting.posted;
  work->deadline = waiting.deadline;
  work->next_look = waiting.next_look;
  work->look_interval = waiting.look_interval;
  work->next_warning = waiting.next_warning;
  return work->parked != nullptr ? work : nullptr;
}

// A message that lies in own memory goes to its recv, which is in no queue.
void Calls::hand_over(const Work& message, const std::shared_ptr<Work>& recv) {
  const Operation& from = message.operation;
  recv->operation.peer = from.peer;
  if (recv->words != message.words) {
    queues_.of(*recv).push_front(recv);
    fail(*recv,
         different_message(world_,
                           {.from = from.peer, .to = world_.rank(), .number = message.message},
                           message.words,
                           recv->words));
    return;
  }
  if (from.count > 0) {
    std::memcpy(
        recv->operation.recv, message.parked.get(), static_cast<std::size_t>(from.bytes()));
  }
  end(*recv, {});
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
  if (queues_.have_recvs_from_any()) {
    moved = match_any() || moved;
  }
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
  if (!work->job) {
    return work->operation.peer != kAnyRank && match(work->operation.peer);
  }
  const bool moved = work->advance();
  if (work->job->has_met_foreign() && work->is_recv() && !work->is_matched) {
    return match(work->operation.peer);
  }
  if (work->job->finished() && flush_rails(*work)) {
    // A rank that sends more than a peer expects, or nothing where it expects some, may come to its
    // end. Whichever of the two is the later to announce its counts finds the other's here.
    if (const auto verdict = find_different_counts(*work)) {
      fail(*work, *verdict);
      return true;
    }
    queue.pop_front();
    report_end(*work);
    end(*work, {});
    if (!work->parked || deliver(work)) {
      start_front(queue);
    }
    return true;
  }
  return moved;
}

std::optional<Verdict> Calls::find_different_counts(const Work& work) const {
  if (!work.operation.varying) {
    return std::nullopt;
  }
  const CallView view{.sequence = work.sequence, .words = work.words, .counts = &work.counts};
  return sennit::find_different_counts(world_, view);
}

// A message that has come into own memory. False: the communicator has failed.
bool Calls::deliver(const std::shared_ptr<Work>& message) {
  const Operation& operation = message->operation;
  if (const auto recv = queues_.take_recv(operation.peer, operation.tag)) {
    hand_over(*message, recv);
  } else {
    inbox_.park(message);
  }
  return failure_.ok();
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
    // A job does not meet all messages of others: those of bundles come on several paths.
    if (work->is_recv() && !work->is_matched && work->operation.peer != kAnyRank) {
      match(work->operation.peer);
    }
    if (const auto verdict = watch_.look_at(*work, broken(*work))) {
      fail(*work, *verdict);
    }
  }
}

Clock::time_point Calls::next_look() const {
  return is_inherited() ? Clock::time_point::max() : watch_.next_look();
}

// To the other ranks: this one has done its part.
void Calls::report_end(const Work& work) {
  if (work.sequence != 0) {
    world_.my_line().leave(work.sequence);
  } else {
    way_of(work, world_).ended.store(work.message, std::memory_order_release);
  }
}

void Calls::end(Work& work, Status status) {
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
