#include "select/device_choice.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

constexpr std::int64_t kLarge = std::int64_t{256} << 20;

DeviceChoice chosen(Collective collective,
                    int ranks,
                    std::int64_t bytes,
                    bool copy_engines = true) {
  const auto choice =
      choose_for_devices(collective,
                         {.ranks = ranks},
                         bytes,
                         {},
                         DeviceFacts{.copy_engines = copy_engines, .folds_from_bytes = kLarge});
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return choice.value();
}

TEST(FoldingChoice, LargeReductionsGoByCopyEngines) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce}) {
    EXPECT_EQ(chosen(collective, 4, kLarge).protocol, Protocol::kDirectGet);
    EXPECT_NE(chosen(collective, 4, kLarge - 1).protocol, Protocol::kDirectGet);
    EXPECT_NE(chosen(collective, 4, kLarge, false).protocol, Protocol::kDirectGet);
    EXPECT_NE(chosen(collective, 1, kLarge).protocol, Protocol::kDirectGet);
  }
  // Its bytes are those of one rank's part.
  EXPECT_EQ(chosen(Collective::kReduceScatter, 4, kLarge / 4).protocol, Protocol::kDirectGet);
}

// One-shot is no slower between two ranks, but reads what it overwrites where calls are in place.
TEST(FoldingChoice, AllReduceByCopyEnginesIsTwoShot) {
  EXPECT_EQ(chosen(Collective::kAllReduce, 2, kLarge).algorithm->name, "two_shot");
  EXPECT_EQ(chosen(Collective::kAllReduce, 2, kLarge - 1).algorithm->name, "one_shot");
}

// Sums that are passed on without having been stored cannot be fetched.
TEST(FoldingChoice, ReduceByCopyEnginesIsDirect) {
  EXPECT_EQ(chosen(Collective::kReduce, 4, kLarge).algorithm->name, "direct");
  EXPECT_EQ(chosen(Collective::kReduce, 4, kLarge - 1).algorithm->name, "scatter_gather");
}

TEST(FoldingChoice, PlansForCopyEnginesAreProvedInPlace) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (const int ranks : {2, 3, 8}) {
      const auto plan =
          make_device_plan(chosen(collective, ranks, kLarge), {.ranks = ranks}, DeviceFacts{});
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const auto proof = verify(*plan.value());
      ASSERT_TRUE(proof.ok()) << proof.status().message();
      EXPECT_TRUE(proof->in_place) << proof->why_not_in_place;
      EXPECT_TRUE(proof->reproducible);
    }
  }
}

}  // namespace
}  // namespace sennit
