// HostWait: waiting on the host for what another rank writes into shared memory.
#pragma once

#include "base/status.hpp"

#include <chrono>
#include <functional>
#include <thread>

namespace sennit {

// Ranks that call together meet within microseconds, and a nap lasts longer than was asked for,
// while GPUs stand idle. So who waits gives way to others for a while before it naps. Then it asks
// now and then whether it is in vain: `trouble` says why, or ok.
template <typename Predicate>
Status wait_on_host(const std::function<Status()>& trouble, Predicate is_there) {
  constexpr int kSpins = 2000;
  constexpr std::chrono::microseconds kAwake{500};
  constexpr std::chrono::microseconds kNap{20};
  for (int spins = 0; spins < kSpins; ++spins) {
    if (is_there()) {
      return {};
    }
  }
  const auto nap_from = std::chrono::steady_clock::now() + kAwake;
  while (!is_there()) {
    if (std::chrono::steady_clock::now() < nap_from) {
      std::this_thread::yield();
      continue;
    }
    SENNIT_RETURN_IF_ERROR(trouble());
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

}  // namespace sennit
