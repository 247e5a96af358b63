// HostWait: waiting on the host for what another rank writes into shared memory.
#pragma once

#include "base/status.hpp"

#include <chrono>
#include <functional>
#include <thread>

namespace sennit {

// Ranks that call together meet within microseconds; who waits longer lets others run, and asks now
// and then whether it is in vain: `trouble` says why, or ok.
template <typename Predicate>
Status wait_on_host(const std::function<Status()>& trouble, Predicate is_there) {
  constexpr int kSpins = 2000;
  constexpr std::chrono::microseconds kNap{20};
  for (int spins = 0; !is_there(); ++spins) {
    if (spins < kSpins) {
      continue;
    }
    SENNIT_RETURN_IF_ERROR(trouble());
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

}  // namespace sennit
