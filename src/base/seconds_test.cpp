#include "base/seconds.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sennit {
namespace {

using std::chrono::steady_clock;

TEST(Seconds, AreConverted) {
  EXPECT_EQ(clock_span(0.25), std::chrono::milliseconds(250));
  EXPECT_EQ(clock_span(-2.0), std::chrono::seconds(-2));
}

TEST(Seconds, BeyondWhatTheClockCountsAreACenturyThatCanBeAddedToNow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {9.3e9, 1e300, kInfinity}) {
    EXPECT_GT(steady_clock::now() + clock_span(seconds),
              steady_clock::now() + std::chrono::hours(24 * 365 * 90));
    EXPECT_LT(clock_span(-seconds), std::chrono::seconds(0));
  }
  EXPECT_EQ(clock_span(std::numeric_limits<double>::quiet_NaN()), std::chrono::seconds(0));
}

}  // namespace
}  // namespace sennit
