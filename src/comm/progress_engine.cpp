#include "comm/progress_engine.hpp"

#include "base/env.hpp"
#include "base/seconds.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Pure polling: about as long as a small message takes between two running ranks.
constexpr Clock::duration kSpinTime = microseconds(5);
// Polling with the core offered to others in between, a core's share of ranks: longer than a
// message takes to come from a running rank, shorter than anybody notices. Two ranks on one core
// would otherwise each poll away the time that the other needs.
constexpr Clock::duration kPollTime = microseconds(50);
// The same where ranks are on several nodes: a message between nodes takes several times as long,
// and to sleep and to be woken costs as much as the message.
constexpr Clock::duration kPollTimeOverNodes = microseconds(200);
// Ranks alone come round faster than this and their polling time; a slice is several milliseconds.
constexpr Clock::duration kCostlyYield = milliseconds(1);
// Other communicators of the engine have doorbells of their own, which wake nobody here.
constexpr Clock::duration kSharedSleep = microseconds(500);
constexpr Clock::duration kLongestSleep = milliseconds(100);
// No doorbell says that the idle hook has something to do.
constexpr Clock::duration kSleepBetweenHooks = microseconds(200);
// Rounds between two looks at the clock, which costs as much as a round. One where ranks outnumber
// the cores: what is awaited comes from a rank that does not run now. One with rails, too: a round
// asks the system after each card and takes longer than a look at the clock.
constexpr int kRoundsPerClock = 16;

// At most so many rounds in a call that returns without waiting. One round fills one slot of a
// message, and a message has four slots by default, so this fills them all. Without a limit the
// call would go on for as long as its peer empties them.
constexpr int kMostRoundsWithoutWait = 32;

// Rounds of a quick call without a pause between them: as long as a message takes that is on its
// way, and a pause may take a third of that. Then with pauses, some microseconds in all.
constexpr int kTightRounds = 200;
constexpr int kQuickRounds = 400;
// Where ranks outnumber the cores: yields of the core, while one after the other comes to its turn.
constexpr int kQuickYields = 8;

// Lives while the engine's lock is held.
class LongWaitScope {
 public:
  LongWaitScope(OwnWait& wait, const Work& work, bool for_good, Clock::time_point now)
      : wait_(wait) {
    wait_.begin(work, for_good, now);
  }
  ~LongWaitScope() { wait_.end(); }
  LongWaitScope(const LongWaitScope&) = delete;
  LongWaitScope& operator=(const LongWaitScope&) = delete;

 private:
  OwnWait& wait_;
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  ::sched_yield();
#endif
}

}  // namespace

std::shared_ptr<ProgressEngine> ProgressEngine::of_this_thread() {
  thread_local const std::shared_ptr<ProgressEngine> kEngine = std::make_shared<ProgressEngine>();
  return kEngine;
}

void ProgressEngine::attach(const std::shared_ptr<Communicator>& comm) {
  const auto& peers = comm->world().peers();
  const int cores = peers.usable_cores();
  const int crowd = (peers.ranks_of_machine() + cores - 1) / cores;
  const std::scoped_lock guard(mutex_);
  comms_.push_back({.comm = comm, .crowd = crowd});
  has_rails_ = has_rails_ || comm->calls().rails() != nullptr;
  patience_ = patience();
}

void ProgressEngine::detach(const Communicator& comm) {
  const std::scoped_lock guard(mutex_);
  std::erase_if(comms_, [&](const Attached& attached) { return attached.comm.get() == &comm; });
  std::erase_if(busy_, [&](const Calls* calls) { return calls == &comm.calls(); });
  std::erase_if(waited_, [&](const Calls* calls) { return calls == &comm.calls(); });
  patience_ = patience();
}

void ProgressEngine::drive(Communicator& comm) {
  if (std::ranges::find(busy_, &comm.calls()) == busy_.end()) {
    busy_.push_back(&comm.calls());
  }
}

void ProgressEngine::post(Communicator& comm, std::shared_ptr<Work> work) {
  comm.calls().post(std::move(work));
  drive(comm);
}

bool ProgressEngine::progress() {
  bool moved = false;
  for (std::size_t i = 0; i < busy_.size();) {
    moved = busy_[i]->progress() || moved;
    if (busy_[i]->is_idle()) {
      busy_[i] = busy_.back();
      busy_.pop_back();
    } else {
      ++i;
    }
  }
  // What is on its way to or from a communicator without calls waits for this rank all the same.
  if (has_rails_ && ++rounds_ % kRoundsPerRails == 0) {
    for (const Attached& attached : comms_) {
      rail::MirroredRings* const rails = attached.comm->calls().rails();
      moved = (rails != nullptr && rails->progress()) || moved;
    }
  }
  return moved;
}

void ProgressEngine::look() {
  const Clock::time_point now = Clock::now();
  for (Calls* const calls : busy_) {
    if (calls->next_look() <= now) {
      calls->look(now);
    }
  }
}

Clock::time_point ProgressEngine::next_look() const {
  Clock::time_point next = Clock::time_point::max();
  for (const Calls* const calls : busy_) {
    next = std::min(next, calls->next_look());
  }
  return next;
}

ProgressEngine::Patience ProgressEngine::patience() const {
  int crowd = 1;
  for (const Attached& attached : comms_) {
    crowd = std::max(crowd, attached.crowd);
  }
  const bool crowded = crowd > 1;
  Patience patience{.rounds = crowded || has_rails_ ? 1 : kRoundsPerClock,
                    .crowd = crowd,
                    .spin = crowded ? Clock::duration::zero() : kSpinTime,
                    .poll = (has_rails_ ? kPollTimeOverNodes : kPollTime) * crowd};
  const auto requested = env_integer("SENNIT_SPIN_US", {-1, 1'000'000});
  if (requested.ok() && *requested >= 0) {
    patience.poll = microseconds(*requested);
  }
  return patience;
}

bool ProgressEngine::run_rounds(const Work& work) {
  for (int round = 0; round < patience_.rounds && !work.ended; ++round) {
    if (progress()) {
      return true;
    }
    relax();
  }
  return work.ended;
}

bool ProgressEngine::poll(QuickRun& quick) {
  const bool crowded = patience_.spin == Clock::duration::zero();
  for (int round = 0; round < (crowded ? 1 : kQuickRounds); ++round) {
    quick.advance();
    if (quick.has_ended()) {
      return true;
    }
    if (round >= kTightRounds) {
      relax();
    }
  }
  // The lock is kept: others would have to wait for this call anyway, and it does not take long.
  const int yields = crowded && busy_.empty() ? kQuickYields * patience_.crowd : 0;
  for (int round = 0; round < yields && waits_without_yield_ == 0; ++round) {
    yield_core(Clock::now());
    quick.advance();
    if (quick.has_ended()) {
      return true;
    }
  }
  return false;
}

std::optional<Status> ProgressEngine::run_quick(Communicator& comm, const PlainCall& call) {
  std::shared_ptr<Work> work;
  {
    const auto guard = lock();
    std::optional<QuickRun> quick = comm.begin_quick(call);
    if (!quick) {
      return std::nullopt;
    }
    if (poll(*quick)) {
      comm.end_quick(*quick);
      return Status();
    }
    work = comm.go_on_as_work(*quick);
    drive(comm);
  }
  run_until(comm, *work, Clock::duration::max());
  return work->status;
}

Result<std::uint64_t> ProgressEngine::run(Communicator& comm, const Operation& operation) {
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<Work> work, [&] {
    const auto guard = lock();
    auto prepared = comm.prepare(operation);
    if (prepared.ok()) {
      post(comm, *prepared);
    }
    return prepared;
  }());
  run_until(comm, *work, Clock::duration::max());
  SENNIT_RETURN_IF_ERROR(work->status);
  return work->sequence;
}

Status ProgressEngine::gather(Communicator& comm, const void* mine, void* all, std::size_t bytes) {
  Operation gather;
  gather.collective = Collective::kAllGather;
  gather.send = mine;
  gather.recv = all;
  gather.count = static_cast<std::int64_t>(bytes);
  gather.dtype = Dtype::kUint8;
  return run(comm, gather).status();
}

bool ProgressEngine::run_until(Communicator& comm, const Work& work, Clock::duration limit) {
  auto guard = lock();
  // Small calls are often done before the clock is worth reading.
  while (run_rounds(work)) {
    if (work.ended) {
      return true;
    }
  }
  const IdleHook& idle = comm.config().idle;
  const Clock::duration longest_sleep = idle.call != nullptr ? kSleepBetweenHooks : kLongestSleep;
  const Clock::time_point begin = Clock::now();
  const bool for_good = limit == Clock::duration::max();
  std::optional<LongWaitScope> scope;  // of a wait that is long enough to be looked at
  OwnWait& wait = comm.calls().own_wait();
  const auto begin_long_wait = [&] {
    remember_wait(comm.calls());
    scope.emplace(wait, work, for_good, begin);
  };
  if (wait.continues(work)) {
    begin_long_wait();
  }
  Clock::time_point last_move = begin;
  while (true) {
    const bool moved = run_rounds(work);
    if (work.ended) {
      return true;
    }
    const Clock::time_point now = Clock::now();
    if (next_look() <= now) {
      if (!scope) {
        begin_long_wait();
      }
      look();
    }
    if (work.ended || now - begin >= limit) {
      return work.ended;
    }
    if (run_hook(idle, now - begin, guard) || moved) {
      last_move = now;
    } else if (now - last_move >= patience_.spin) {
      guard.unlock();
      if (now - last_move < patience_.poll && waits_without_yield_ == 0) {
        yield_core(now);
      } else {
        sleep(comm, work, now + std::min(limit - (now - begin), longest_sleep));
      }
      guard.lock();
    }
  }
}

bool ProgressEngine::run_hook(const IdleHook& idle,
                              Clock::duration waited,
                              std::unique_lock<std::mutex>& guard) {
  if (idle.call == nullptr || waited < clock_span(idle.after_s)) {
    return false;
  }
  guard.unlock();
  const int moved = idle.call(idle.argument);
  guard.lock();
  return moved != 0;
}

void ProgressEngine::yield_core(Clock::time_point now) {
  ::sched_yield();
  // Somebody else's work ran for a whole slice of time meanwhile. A sleeper gets its core back as
  // soon as it is woken, one that yields does not.
  if (Clock::now() - now <= kCostlyYield + patience_.poll) {
    sleeps_after_yield_ = kFewestSleeps;
    return;
  }
  waits_without_yield_ = sleeps_after_yield_.load();
  sleeps_after_yield_ = std::min(2 * sleeps_after_yield_, kMostSleeps);
}

void ProgressEngine::sleep(Communicator& comm, const Work& work, Clock::time_point until) {
  if (waits_without_yield_ > 0) {
    --waits_without_yield_;
  }
  {
    const std::scoped_lock guard(mutex_);
    until = std::min(until, next_look());
    if (busy_.size() > 1) {
      until = std::min(until, Clock::now() + kSharedSleep);
    }
  }
  const Clock::duration limit = until - Clock::now();
  if (limit <= Clock::duration::zero()) {
    return;
  }
  const auto look_again = [&] {
    const std::scoped_lock again(mutex_);
    return progress() || work.ended || next_look() <= Clock::now();
  };
  if (rail::MirroredRings* const rails = comm.calls().rails()) {
    rails->sleep(comm.world().bell(comm.rank()), limit, look_again);
    return;
  }
  sleep_on(comm.world().bell(comm.rank()), limit, look_again);
}

void ProgressEngine::remember_wait(Calls& calls) {
  if (std::ranges::find(waited_, &calls) == waited_.end()) {
    waited_.push_back(&calls);
  }
}

void ProgressEngine::touch() {
  std::erase_if(waited_, [](Calls* calls) { return !calls->own_wait().touch(); });
}

void ProgressEngine::progress_until_idle() {
  touch();
  for (int round = 0; round < kMostRoundsWithoutWait && progress(); ++round) {
  }
}

void ProgressEngine::push() {
  const std::scoped_lock guard(mutex_);
  progress_until_idle();
}

void ProgressEngine::poke() {
  const std::scoped_lock guard(mutex_);
  progress_until_idle();
  look();
}

void ProgressEngine::poke(Communicator& comm) {
  {
    const std::scoped_lock guard(mutex_);
    drive(comm);
  }
  poke();
}

}  // namespace sennit
