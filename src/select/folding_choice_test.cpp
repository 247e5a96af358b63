#include "select/device_choice.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace sennit {
namespace {

DeviceChoice chosen(Collective collective, int ranks, std::string_view protocol) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 20;
  Wishes wishes;
  wishes.protocol = protocol;
  const auto choice = choose_for_devices(
      collective, {.ranks = ranks}, kBytes, wishes, DeviceFacts{.copy_engines = true});
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return choice.value();
}

// One-shot is no slower between two ranks, but reads what it overwrites where calls are in place.
TEST(FoldingChoice, AllReduceByCopyEnginesIsTwoShot) {
  EXPECT_EQ(chosen(Collective::kAllReduce, 2, kByCopyEngines).algorithm->name, "two_shot");
  EXPECT_EQ(chosen(Collective::kAllReduce, 2, "ll128").algorithm->name, "one_shot");
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
      const auto plan = make_device_plan(
          chosen(collective, ranks, kByCopyEngines), {.ranks = ranks}, DeviceFacts{});
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
