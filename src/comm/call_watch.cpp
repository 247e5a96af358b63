#include "comm/call_watch.hpp"

#include "base/log.hpp"
#include "world/passed_deadline.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using std::chrono::milliseconds;

constexpr Clock::duration kLongestLookInterval = milliseconds(50);
constexpr Clock::duration kProcessLookInterval = milliseconds(20);
// A process that is killed loses its memory first; its pidfd reports its death a moment later.
constexpr Clock::duration kDyingTime = milliseconds(300);
// Why a connection to another node has failed comes over the control connections, which may take
// longer than it took to fail.
constexpr Clock::duration kNewsTime = milliseconds(1000);
constexpr Clock::duration kOnTheWay = milliseconds(500);
// Of a peer that has ended the call while this rank still waits for it (Verdict::is_doubtful).
constexpr Clock::duration kDoubt = milliseconds(100);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// At the first warning's time and at each doubling, who is here and who is not.
void warn(Work& work, const CallView& view, const World& world, const std::string& comm) {
  work.next_warning = work.posted + 2 * (work.next_warning - work.posted);
  const Verdict verdict = explain_deadline(world, view);
  SENNIT_WARN("comm",
              "{}{} on comm '{}', rank {} of {}, waits for {:.0f} s: {}{}",
              describe_call(view, world.rank()),
              work.sequence != 0 ? fmt::format(" #{}", work.sequence) : "",
              comm,
              world.rank(),
              world.size(),
              seconds_since(work.posted),
              verdict.evidence,
              view.note);
}

// The verdict on a job that cannot go on because a peer's memory could not be read, or a rail to it
// has failed, unless that peer may yet turn out to be dead.
std::optional<Verdict> judge_broken(Work& work,
                                    const Status& broken,
                                    const CallView& view,
                                    const World& world,
                                    Clock::time_point now) {
  if (broken.ok()) {
    work.broken_since = {};
    return std::nullopt;
  }
  if (work.broken_since == Clock::time_point()) {
    work.broken_since = now;
  }
  const std::vector<int>& blamed = broken.detail().blamed_ranks;
  const bool is_rail = !blamed.empty() && !world.is_local(blamed.front());
  if (now < work.broken_since + (is_rail ? kNewsTime : kDyingTime)) {
    return std::nullopt;
  }
  if (auto verdict = is_rail ? find_behind_lost_rail(world, view, blamed.front()) : std::nullopt) {
    return verdict;
  }
  return Verdict{.code = broken.code(), .blamed_ranks = blamed, .evidence = broken.message()};
}

}  // namespace

Clock::time_point CallWatch::next_look() const {
  if (world_.alarms() != alarms_seen_) {
    return {};  // long past, yet close enough to be subtracted from
  }
  return queues_.next_look();
}

void CallWatch::look_around(Clock::time_point now) {
  now_ = now;
  is_alarmed_ = world_.alarms() != alarms_seen_;
  alarms_seen_ = world_.alarms();
  world_.ask_nodes();
  moves_.count(world_, now);
  wait_.report(long_wait());
  const bool asks_processes = is_alarmed_ || now >= next_process_look_;
  depth_ = asks_processes ? Depth::kLinesAndProcesses : Depth::kLines;
  if (asks_processes) {
    next_process_look_ = now + kProcessLookInterval;
  }
}

CallView CallWatch::view_of(const Work& work) const {
  CallView view{.sequence = work.sequence,
                .words = work.words,
                .counts = work.pair_counts(),
                .elapsed_s = seconds_since(work.posted)};
  if (work.job) {
    view.waiting = work.job->waiting();
  }
  if (work.sequence != 0) {
    view.idle_s = moves_.idle_s(work.posted);
    return view;
  }
  const int peer = work.operation.peer;
  const bool is_send = work.operation.is_send;
  view.waiting.peer = peer == kAnyRank ? -1 : peer;
  view.message = {.from = is_send ? world_.rank() : peer,
                  .to = is_send ? peer : world_.rank(),
                  .number = work.message};
  if (work.moved_at) {
    view.idle_s = seconds_since(*work.moved_at);
  }
  if (!is_send) {
    // What lies there may be for a recv with another tag.
    view.waiting.foreign = view.waiting.foreign && (work.is_matched || !inbox_.knows(peer));
    view.note = inbox_.describe_parked(peer);
  }
  return view;
}

std::optional<Verdict> CallWatch::look_at(Work& work, const Status& broken) {
  if (std::exchange(work.has_moved, false)) {
    work.moved_at = now_;
  }
  const CallView view = view_of(work);
  world_.my_line().waits_for.store(view.waiting.peer, std::memory_order_release);
  // A death that is doubted has to be seen in every look until the doubt ends.
  const bool may_be_dead = work.doubted_since != Clock::time_point() || !broken.ok();
  if (auto verdict = find_failure(world_, view, may_be_dead ? Depth::kLinesAndProcesses : depth_)) {
    if (verdict->is_undecided && is_doubted_for_less_than(kUndecided, work)) {
      return std::nullopt;
    }
    const bool is_certain = work.sequence != 0 && !verdict->is_doubtful;
    return is_certain || !may_end_well(work, view.waiting.peer) ? std::move(verdict) : std::nullopt;
  }
  work.doubted_since = {};
  if (auto circle = wait_.has_reported(work) ? deadlocks_.find() : std::nullopt) {
    return circle;
  }
  if (auto verdict = judge_broken(work, broken, view, world_, now_)) {
    return verdict;
  }
  if (now_ >= work.deadline) {
    Verdict verdict = explain_deadline(world_, view);
    verdict.evidence += view.note;
    return verdict;
  }
  if (now_ >= work.next_warning) {
    warn(work, view, world_, config_.name);
  }
  work.look_interval = std::min(work.look_interval * 2, kLongestLookInterval);
  work.next_look = std::min(now_ + work.look_interval, work.deadline);
  return std::nullopt;
}

// Whether a message has begun that may be for the recv, or for another one ahead of its own.
bool CallWatch::has_next_message(const Work& recv) const {
  for (int peer = 0; peer < world_.size(); ++peer) {
    if (inbox_.knows(peer) && recv.takes_from(peer, recv.operation.tag) &&
        next_message(world_, peer)) {
      return true;
    }
  }
  return false;
}

// A peer may leave, or die, once its part of a call lies in our slots. From another node that part
// comes over a card, and the news of the peer may overtake it.
bool CallWatch::may_end_well(Work& work, int peer) const {
  // What the peer stored before it left the call is visible now that it was seen to have left.
  // Partner: the release of StatusLine::leave().
  const bool is_collective = work.sequence != 0;
  const auto waits_for_peer = [&] {
    const Waiting waiting = work.job->waiting();
    return waiting.is_certain && waiting.peer == peer;
  };
  const bool has_ended = work.job && work.job->finished();
  if (work.advance() || has_ended || (is_collective && !waits_for_peer())) {
    work.doubted_since = {};
    return true;
  }
  const bool is_on_node = peer < 0 || world_.is_local(peer);
  const bool may_be_matched = work.is_recv() && !work.is_matched && has_next_message(work);
  if (!is_collective && is_on_node && !may_be_matched) {
    return false;
  }
  return is_doubted_for_less_than(is_collective ? kDoubt : kOnTheWay, work);
}

// The doubt begins with the first of these questions that finds none, and is asked about soon.
bool CallWatch::is_doubted_for_less_than(Clock::duration time, Work& work) const {
  if (work.doubted_since == Clock::time_point()) {
    work.doubted_since = now_;
  }
  work.next_look = now_ + milliseconds(1);
  return now_ < work.doubted_since + time;
}

// What this rank waits in and does nothing else before that has ended.
LongWait CallWatch::long_wait() const {
  const Work* const work = wait_.work(now_);
  // A work that others of its queue are ahead of waits for the first of them.
  const Work* const first = work != nullptr ? queues_.first_of(*work) : nullptr;
  if (first == nullptr || now_ - first->posted < OwnWait::kLong) {
    return {};
  }
  const Waiting waiting = view_of(*first).waiting;
  if (waiting.peer < 0 || waiting.foreign) {
    return {};
  }
  const bool is_message = first->sequence == 0;
  return {.call = !is_message                ? LongWait::Call::kCollective
                  : first->operation.is_send ? LongWait::Call::kSend
                                             : LongWait::Call::kRecv,
          .peer = waiting.peer,
          .number = is_message ? first->message : first->sequence};
}

}  // namespace sennit
