// What the processes of sennit-compare share: a barrier, the times of one sample, what of outputs
// is wrong, SMs, the rival's id, and memory of GPUs.
#pragma once

#include "compare_options.hpp"
#include "rival.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace sennit_bench {

struct Shared {
  std::atomic<int> arrived{0};
  std::atomic<int> round{0};
  double us[kMaxRanks] = {};
  std::uint64_t wrong[kMaxRanks] = {};
  int sms[kMaxRanks] = {};
  RivalId id{};
  cudaIpcMemHandle_t hand[kMaxRanks] = {};

  void barrier(int ranks) {
    const int now = round.load();
    if (arrived.fetch_add(1) + 1 == ranks) {
      arrived.store(0);
      round.store(now + 1);
      return;
    }
    while (round.load() == now) {
    }
  }
};

}  // namespace sennit_bench
