#include "world/line_copy.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

CallWords other_words(std::uint32_t number) {
  return {.collective = number,
          .dtype = number + 1,
          .op = number + 2,
          .root = static_cast<std::int32_t>(number + 3),
          .count = number + 4,
          .plan_hash = number + 5,
          .codec = number + 6,
          .varying = number % 2 == 0};
}

TEST(LineCopy, ComesBackAsItWas) {
  LineCopy copy{.state = RankState::kFailed,
                .probe = ProbeState::kWorks,
                .is_stopped = true,
                .failure_code = 1,
                .blamed = 2,
                .waits_for = 3,
                .beats = 4,
                .left = 5,
                .entered = 6,
                .long_wait = 7,
                .moves = 8};
  for (std::uint32_t call = 0; call < LineCopy::kCalls; ++call) {
    copy.calls[call] = other_words(10 * call + 1);
  }
  WireWriter out;
  copy.write(out);
  const std::string text = out.take();
  WireReader in(text);
  const auto read = LineCopy::read(in);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, copy);
}

}  // namespace
}  // namespace sennit
