// FakeSharedMessages, for tests: sends and recvs whose shares through host memory follow the load,
// on fake GPUs that say what copies and kernels take.
#pragma once

#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace sennit::tests {

inline constexpr const char* kDynamic = "nvlink+host:dynamic";
inline constexpr const char* kFetched = "direct_get";

// What a byte costs on its way, in us: a copy over NVLink or out of host memory, and a kernel.
struct ByteCosts {
  double direct = 1;
  double host = 1;
};

inline double cost_of_kernel(const void* kernel, const void* parameters, double of_byte) {
  if (is_small_pairs_kernel(kernel)) {
    return 0;
  }
  const auto& pairs = *static_cast<const sm::PairCalls*>(parameters);
  double us = 0;
  for (int i = 0; i < pairs.begin[static_cast<std::size_t>(pairs.chains())]; ++i) {
    const sm::PairMessage& message = pairs.messages[static_cast<std::size_t>(i)];
    if (!message.is_send()) {
      us += of_byte * static_cast<double>(message.call.arrive[0][0].length);
    }
  }
  return us;
}

class FakeSharedMessages : public FakeMessagesWithRings {
 protected:
  void set_costs(const ByteCosts& costs, std::shared_ptr<FakeWordTimes> words = nullptr) {
    prepare_ = [costs, words = std::move(words)](Rank& rank) {
      rank.cuda->set_costs({.copy_us =
                                [costs](bool is_from_host, std::size_t bytes) {
                                  return static_cast<double>(bytes) *
                                         (is_from_host ? costs.host : costs.direct);
                                },
                            .kernel_us =
                                [costs](const void* kernel, const void* parameters) {
                                  return cost_of_kernel(kernel, parameters, costs.direct);
                                },
                            .words = words});
    };
  }

  // Calls and ends them so often, all ranks together.
  void repeat(const Rank& rank, const Calls& calls, int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(post(rank, calls).ok());
      rank.finish();
      meet();
    }
  }

  // What messages put into slots, of a few, since one of them may be a trial.
  struct Slots {
    int least = 1'000'000;
    int most = 0;
  };
  Slots slots_of(const Rank& rank, const Calls& calls, int direct_copies) {
    Slots slots;
    for (int i = 0; i < 4; ++i) {
      const int used = (work_of(rank, calls).copies - direct_copies) / 2;
      slots = {.least = std::min(slots.least, used), .most = std::max(slots.most, used)};
      meet();
    }
    return slots;
  }

  // As the base that both paths share has, or its neighbours.
  static void expect_half(int slots) {
    constexpr int kHalf = static_cast<int>(kLarge / kSlot / 2);
    EXPECT_LE(std::abs(slots - kHalf), 2) << slots << " of " << kHalf;
  }
};

}  // namespace sennit::tests
