#include "base/fork_guard.hpp"

#include <pthread.h>

#include <atomic>

namespace sennit {
namespace {

std::atomic<std::uint64_t> generation{0};

// A handler in the child is cheaper than asking for the pid in every call.
const int kRegistered =
    ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint64_t fork_generation() {
  static_cast<void>(kRegistered);
  return generation.load(std::memory_order_relaxed);
}

}  // namespace sennit
