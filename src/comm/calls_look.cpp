// What is done about calls that wait: deadlines, failures of others, warnings.
#include "base/log.hpp"
#include "comm/calls.hpp"
#include "world/passed_deadline.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using std::chrono::milliseconds;

constexpr Clock::duration kLongestLookInterval = milliseconds(50);
constexpr Clock::duration kProcessLookInterval = milliseconds(20);
// A process that is killed loses its memory first; its pidfd tells of its death a moment later.
constexpr Clock::duration kDyingTime = milliseconds(300);
constexpr Clock::duration kOnTheWay = milliseconds(500);
// Of a peer that has ended the call while this rank still waits for it (Verdict::is_doubtful).
constexpr Clock::duration kDoubt = milliseconds(100);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

CallView view_of(const Work& work, const World& world, const Moves& moves) {
  CallView view{.sequence = work.sequence,
                .words = work.words,
                .counts = work.pair_counts(),
                .elapsed_s = seconds_since(work.posted)};
  if (work.job) {
    view.waiting = work.job->waiting();
  }
  if (work.sequence == 0) {
    const int peer = work.operation.peer;
    const bool is_send = work.operation.is_send;
    view.waiting.peer = peer;
    view.message = {.from = is_send ? world.rank() : peer,
                    .to = is_send ? peer : world.rank(),
                    .number = work.message};
  }
  if (work.sequence != 0) {
    view.idle_s = moves.idle_s(work.posted);
  } else if (work.moved_at) {
    view.idle_s = seconds_since(*work.moved_at);
  }
  return view;
}

// At the first warning's time and at each doubling, who is here and who is not.
void warn(Work& work, const CallView& view, const World& world, const std::string& comm) {
  work.next_warning = work.posted + 2 * (work.next_warning - work.posted);
  const Verdict verdict = explain_deadline(world, view);
  SENNIT_WARN("comm",
              "{}{} on comm '{}', rank {} of {}, waits for {:.0f} s: {}",
              describe_call(view, world.rank()),
              work.sequence != 0 ? fmt::format(" #{}", work.sequence) : "",
              comm,
              world.rank(),
              world.size(),
              seconds_since(work.posted),
              verdict.evidence);
}

}  // namespace

Clock::time_point Calls::next_look() const {
  if (is_inherited()) {
    return Clock::time_point::max();
  }
  if (world_.alarms() != alarms_seen_) {
    return {};  // long past, yet near enough to be subtracted from
  }
  Clock::time_point next = Clock::time_point::max();
  const auto add = [&](const Queue& queue) {
    next = queue.empty() ? next : std::min(next, queue.front()->next_look);
  };
  add(collectives_);
  for (const auto& [key, queue] : pairs_) {
    add(queue);
  }
  return next;
}

void Calls::look(Clock::time_point now) {
  const bool alarmed = world_.alarms() != alarms_seen_;
  alarms_seen_ = world_.alarms();
  world_.ask_nodes();
  moves_.count(world_, now);
  wait_.tell(long_wait(now));
  const bool ask_processes = alarmed || now >= next_process_look_;
  const Depth depth = ask_processes ? Depth::kLinesAndProcesses : Depth::kLines;
  if (ask_processes) {
    next_process_look_ = now + kProcessLookInterval;
  }
  for (const std::shared_ptr<Work>& work : running()) {
    if (!work->ended && (alarmed || now >= work->next_look)) {
      look_at(*work, depth, now);
    }
  }
}

// The first call of each queue: those behind it have not begun.
std::vector<std::shared_ptr<Work>> Calls::running() const {
  std::vector<std::shared_ptr<Work>> found;
  if (!collectives_.empty()) {
    found.push_back(collectives_.front());
  }
  for (const auto& [key, queue] : pairs_) {
    if (!queue.empty()) {
      found.push_back(queue.front());
    }
  }
  return found;
}

void Calls::look_at(Work& work, Depth depth, Clock::time_point now) {
  if (std::exchange(work.has_moved, false)) {
    work.moved_at = now;
  }
  const CallView view = view_of(work, world_, moves_);
  world_.my_line().waits_for.store(view.waiting.peer, std::memory_order_release);
  if (const auto verdict = find_failure(world_, view, depth)) {
    const bool is_certain = work.sequence != 0 && !verdict->is_doubtful;
    if (is_certain || !may_end_well(work, view.waiting.peer, now)) {
      fail(work, *verdict);
    }
    return;
  }
  work.doubted_since = {};
  if (const auto circle = wait_.tells_of(work) ? deadlocks_.find() : std::nullopt) {
    fail(work, *circle);
  } else if (const auto broken = find_broken(work, now)) {
    fail(work, *broken);
  } else if (now >= work.deadline) {
    fail(work, explain_deadline(world_, view));
  } else {
    if (now >= work.next_warning) {
      warn(work, view, world_, config_.name);
    }
    work.look_interval = std::min(work.look_interval * 2, kLongestLookInterval);
    work.next_look = std::min(now + work.look_interval, work.deadline);
  }
}

// A peer may leave, or die, once its part of a call lies in our slots. From another node that part
// comes over a card, and the news of the peer may overtake it.
bool Calls::may_end_well(Work& work, int peer, Clock::time_point now) {
  // What the peer stored before it left the call is visible now that it was seen to have left.
  // Partner: the release of StatusLine::leave().
  const bool is_collective = work.sequence != 0;
  const auto waits_for_peer = [&] {
    const Waiting waiting = work.job->waiting();
    return waiting.is_certain && waiting.peer == peer;
  };
  if (work.job->advance() || work.job->finished() || (is_collective && !waits_for_peer())) {
    work.doubted_since = {};
    return true;
  }
  if (!is_collective && world_.is_local(peer)) {
    return false;
  }
  if (work.doubted_since == Clock::time_point()) {
    work.doubted_since = now;
  }
  work.next_look = now + milliseconds(1);
  return now < work.doubted_since + (is_collective ? kDoubt : kOnTheWay);
}

// What this rank waits in and does nothing else before that has ended.
LongWait Calls::long_wait(Clock::time_point now) const {
  const Work* const work = wait_.work(now);
  if (work == nullptr) {
    return {};
  }
  // A work that others of its queue are ahead of waits for the first of them.
  const Operation& operation = work->operation;
  const bool is_message = work->sequence == 0;
  const auto pair = pairs_.find({operation.peer, operation.is_send});
  if (is_message ? pair == pairs_.end() : collectives_.empty()) {
    return {};
  }
  const Work& first = is_message ? *pair->second.front() : *collectives_.front();
  if (!first.job || now - first.posted < OwnWait::kLong) {
    return {};
  }
  const Waiting waiting = view_of(first, world_, moves_).waiting;
  if (waiting.peer < 0 || waiting.foreign) {
    return {};
  }
  return {.call = !is_message         ? LongWait::Call::kCollective
                  : operation.is_send ? LongWait::Call::kSend
                                      : LongWait::Call::kRecv,
          .peer = waiting.peer,
          .number = is_message ? first.message : first.sequence};
}

// The verdict on a job that cannot go on because a peer's memory could not be read, unless that
// peer may yet turn out to be dead.
std::optional<Verdict> Calls::find_broken(Work& work, Clock::time_point now) {
  Status status = work.job->status();
  if (status.ok() && rails_ != nullptr) {
    status = rails_->failure([&](int peer) { return needs(work, peer, world_); });
  }
  if (status.ok()) {
    return std::nullopt;
  }
  if (work.broken_since == Clock::time_point()) {
    work.broken_since = now;
  }
  if (now < work.broken_since + kDyingTime) {
    return std::nullopt;
  }
  return Verdict{.code = status.code(),
                 .blamed_ranks = status.detail().blamed_ranks,
                 .evidence = status.message()};
}

}  // namespace sennit
