#include "comm/quick_calls.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace sennit {
namespace {

QuickCall quick_call(const PlainCall& plain) {
  QuickCall call;
  call.operation.collective = plain.collective;
  call.operation.count = static_cast<std::int64_t>(plain.count);
  call.operation.dtype = static_cast<Dtype>(plain.dtype);
  call.operation.op = static_cast<ReduceOp>(plain.op);
  return call;
}

bool knows(const QuickCalls& calls, const PlainCall& plain) {
  const QuickCall* const found = calls.find(plain);
  return found != nullptr && found->operation.collective == plain.collective &&
         found->operation.count == static_cast<std::int64_t>(plain.count);
}

// A loop of a program: whichever they are, each is still known when it comes round.
TEST(QuickCallsOfAProgram, FourThatTakeTurnsDoNotPutEachOtherOut) {
  std::vector<PlainCall> all = {{.collective = Collective::kBarrier}};
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllToAll}) {
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64, Dtype::kInt32}) {
      for (std::size_t count = 1; count <= 64; count *= 2) {
        all.push_back({.collective = collective, .count = count, .dtype = static_cast<int>(dtype)});
      }
    }
  }
  constexpr std::array<std::size_t, 4> kSteps = {0, 1, 7, 19};
  for (std::size_t i = 0; i < all.size(); ++i) {
    QuickCalls calls;
    std::vector<PlainCall> loop;
    for (const std::size_t step : kSteps) {
      loop.push_back(all[(i + step) % all.size()]);
      calls.learn(quick_call(loop.back()));
    }
    for (const PlainCall& call : loop) {
      EXPECT_TRUE(knows(calls, call)) << "loop " << i;
    }
    EXPECT_FALSE(knows(calls, {.collective = Collective::kScatter, .count = 3}));
  }
}

// No more are kept than there is room for, and the latest always.
TEST(QuickCallsOfAProgram, TheLatestIsKept) {
  QuickCalls calls;
  for (std::size_t count = 1; count <= 5000; ++count) {
    const PlainCall call{.collective = Collective::kAllReduce, .count = count};
    calls.learn(quick_call(call));
    ASSERT_TRUE(knows(calls, call));
  }
}

}  // namespace
}  // namespace sennit
