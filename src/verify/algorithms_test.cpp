#include "verify/sweep.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

std::string in_words(const SweepResult& result) {
  std::string words;
  for (const SweepFailure& failure : result.failures) {
    words += fmt::format("{} {}, {} ranks, root {}: {}\n",
                         name(failure.collective),
                         failure.algorithm,
                         failure.ranks,
                         failure.root,
                         failure.why);
  }
  return words;
}

// Proof, in-place claim, link loads and rounds of every row.
TEST(ProvedAlgorithms, AreWhatTheirTableClaims) {
  const SweepResult result = sweep({.ranks_first = 1, .ranks_last = 16});
  EXPECT_EQ(result.failed, 0) << in_words(result);
  EXPECT_GT(result.instances, 1000);
}

TEST(ProvedAlgorithms, StayProvedWithDirectProtocols) {
  for (const Protocol protocol : {Protocol::kDirectGet, Protocol::kDirectPut}) {
    const SweepResult result = sweep({.ranks_first = 1, .ranks_last = 8, .protocol = protocol});
    EXPECT_EQ(result.failed, 0) << in_words(result);
    EXPECT_GT(result.direct, 0) << name(protocol);
    EXPECT_LT(result.direct, result.instances) << name(protocol);
  }
}

}  // namespace
}  // namespace sennit
