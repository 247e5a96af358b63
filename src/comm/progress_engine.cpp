#include "comm/progress_engine.hpp"

#include "base/env.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace sennit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Longer than a message takes between two running ranks, shorter than anybody notices.
constexpr Clock::duration kPollTime = microseconds(50);
// Other communicators of the engine have doorbells of their own, which wake nobody here.
constexpr Clock::duration kSharedSleep = microseconds(500);
constexpr Clock::duration kLongestSleep = milliseconds(100);
// Rounds between two looks at the clock, which costs as much as a round.
constexpr int kRoundsPerClock = 16;

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

std::shared_ptr<ProgressEngine> ProgressEngine::of_this_thread() {
  thread_local const std::shared_ptr<ProgressEngine> engine = std::make_shared<ProgressEngine>();
  return engine;
}

void ProgressEngine::attach(const std::shared_ptr<Communicator>& comm) {
  const std::lock_guard guard(mutex_);
  comms_.push_back(comm);
}

void ProgressEngine::detach(const Communicator& comm) {
  const std::lock_guard guard(mutex_);
  std::erase_if(comms_, [&](const auto& attached) { return attached.get() == &comm; });
}

bool ProgressEngine::progress() {
  bool moved = false;
  for (const auto& comm : comms_) {
    moved = comm->progress() || moved;
  }
  return moved;
}

void ProgressEngine::look() {
  const Clock::time_point now = Clock::now();
  for (const auto& comm : comms_) {
    if (comm->next_look() <= now) {
      comm->look(now);
    }
  }
}

Clock::time_point ProgressEngine::next_look() const {
  Clock::time_point next = Clock::time_point::max();
  for (const auto& comm : comms_) {
    next = std::min(next, comm->next_look());
  }
  return next;
}

Clock::duration ProgressEngine::poll_time() const {
  static const int cores = usable_cores();
  const auto wished = env_integer("SENNIT_SPIN_US", {-1, 1'000'000});
  if (wished.ok() && *wished >= 0) {
    return microseconds(*wished);
  }
  const bool crowded =
      std::ranges::any_of(comms_, [](const auto& comm) { return comm->size() > cores; });
  return crowded ? Clock::duration::zero() : kPollTime;
}

bool ProgressEngine::run_until(Communicator& comm, const Work& work, Clock::duration limit) {
  auto guard = lock();
  // The common case of small calls: done before the clock is worth reading.
  for (int round = 0; round < kRoundsPerClock; ++round) {
    progress();
    if (work.ended) {
      return true;
    }
  }
  const Clock::time_point begin = Clock::now();
  const Clock::duration polling = poll_time();
  Clock::time_point poll_end = begin + polling;
  while (!work.ended) {
    bool moved = false;
    for (int round = 0; round < kRoundsPerClock && !work.ended && !moved; ++round) {
      moved = progress();
      if (!moved) {
        relax();
      }
    }
    if (moved) {
      poll_end = Clock::time_point::min();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (poll_end == Clock::time_point::min()) {
      poll_end = now + polling;
    }
    if (next_look() <= now) {
      look();
    }
    if (work.ended || now - begin >= limit) {
      break;
    }
    if (now >= poll_end) {
      guard.unlock();
      sleep(
          comm, work, std::min(next_look(), now + std::min(limit - (now - begin), kLongestSleep)));
      guard.lock();
    }
  }
  return work.ended;
}

void ProgressEngine::sleep(Communicator& comm, const Work& work, Clock::time_point until) {
  std::unique_lock guard(mutex_);
  const bool alone = comms_.size() == 1;
  guard.unlock();
  Clock::duration limit = until - Clock::now();
  if (!alone) {
    limit = std::min(limit, kSharedSleep);
  }
  if (limit <= Clock::duration::zero()) {
    return;
  }
  sleep_on(comm.world().bell(comm.rank()), limit, [&] {
    const std::lock_guard again(mutex_);
    return progress() || work.ended || next_look() <= Clock::now();
  });
}

void ProgressEngine::poke() {
  const std::lock_guard guard(mutex_);
  progress();
  look();
}

}  // namespace sennit
