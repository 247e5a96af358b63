// Codecs in plans: what is coded once and everywhere alike is proved, and what is not is refused.
#include "algo/algorithm.hpp"
#include "codec/codec.hpp"
#include "schedule/scaling.hpp"
#include "verify/checks.hpp"
#include "verify/sweep.hpp"
#include "verify/testing/expectations.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using namespace verify_test;

Plan coded_plan(Collective collective, std::string_view algorithm, int ranks, Codec codec) {
  Plan plan = named_plan(collective, algorithm, ranks, Protocol::kSlots);
  set_codec(plan.strands.front(), codec);
  return plan;
}

// ---- Which algorithms can have one ----

struct Row {
  Collective collective;
  std::string algorithm;

  auto operator<=>(const Row&) const = default;
};

// Those that are proved for all of `ranks`, and those that are for none of more than two.
struct Sorted {
  std::vector<Row> always;
  std::vector<Row> sometimes;
};

Sorted sorted_by(Codec codec, int ranks_last) {
  Sorted sorted;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      const SweepResult result = sweep({.collective = collective,
                                        .algorithm = std::string(algorithm.name),
                                        .ranks_first = 1,
                                        .ranks_last = ranks_last,
                                        .codec = codec});
      EXPECT_EQ(result.failed, 0) << algorithm.name;
      (result.coded == result.instances ? sorted.always : sorted.sometimes)
          .push_back({collective, std::string(algorithm.name)});
    }
  }
  return sorted;
}

std::string in_words(const std::vector<Row>& rows) {
  std::string words;
  for (const Row& row : rows) {
    words += fmt::format("{} {}\n", name(row.collective), row.algorithm);
  }
  return words;
}

TEST(CodecsInPlans, LossyOnesAreProvedWhereNothingIsCodedTwice) {
  EXPECT_EQ(in_words(sorted_by(Codec::kQ8, 64).always), "");
}

TEST(CodecsInPlans, LosslessOnesAreProvedEverywhere) {
  EXPECT_EQ(in_words(sorted_by(Codec::kExact, 12).sometimes), "");
}

}  // namespace
}  // namespace sennit
