#include "comm/device/stopped_at_exit.hpp"

#include "base/fork_guard.hpp"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

namespace sennit {

void stop_all_threads();

namespace {

struct Registry {
  std::mutex mutex;
  std::set<StoppedAtExit*> threads;
  std::uint64_t process = fork_generation();
};

// The handler is registered after CUDA's own, which has begun by then: so it runs before that.
Registry& registry() {
  static auto& all = []() -> Registry& {
    std::atexit(stop_all_threads);
    return *new Registry;  // never freed: others may end their communicators after this one's time
  }();
  return all;
}

}  // namespace

void stop_all_threads() {
  if (registry().process != fork_generation()) {
    return;  // a child has none of its parent's threads
  }
  const std::scoped_lock lock(registry().mutex);
  for (StoppedAtExit* const thread : registry().threads) {
    thread->stop_();
  }
}

StoppedAtExit::StoppedAtExit(std::function<void()> stop) : stop_(std::move(stop)) {
  const std::scoped_lock lock(registry().mutex);
  registry().threads.insert(this);
}

StoppedAtExit::~StoppedAtExit() {
  const std::scoped_lock lock(registry().mutex);
  registry().threads.erase(this);
}

}  // namespace sennit
