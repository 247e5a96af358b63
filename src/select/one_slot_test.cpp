#include "select/select.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

// A communicator may be configured so; what Sennit chooses by itself must work there too.
TEST(Select, WhatIsChosenIsLiveWithOneSlot) {
  for (const bool cma : {false, true}) {
    const HostFacts facts{.shm = true, .cma = cma, .slots = 1};
    for (const Collective collective : kCollectives) {
      for (int ranks = 2; ranks <= 9; ++ranks) {
        const Shape shape{.ranks = collective == Collective::kSendRecv ? 2 : ranks};
        for (const std::int64_t bytes : {8, 20'000, 10'000'000}) {
          SCOPED_TRACE(
              fmt::format("{}, {} ranks, {} bytes, cma {}", name(collective), ranks, bytes, cma));
          const auto choice = choose(collective, shape, bytes, {}, facts);
          ASSERT_TRUE(choice.ok()) << choice.status().message();
          const auto plan = make_plan(*choice, shape, facts);
          if (!plan.ok()) {
            // The plan cache then takes slots.
            EXPECT_EQ(plan.status().code(), Code::kUnsupported) << plan.status().message();
            EXPECT_TRUE(choice->direct);
            continue;
          }
          const auto proof = verify(**plan);
          EXPECT_TRUE(proof.ok()) << proof.status().message();
        }
      }
    }
  }
}

}  // namespace
}  // namespace sennit
