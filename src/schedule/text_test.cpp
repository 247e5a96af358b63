#include "schedule/text.hpp"

#include "schedule/testing/sample_schedules.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace sennit {
namespace {

constexpr std::string_view kEverything =
    R"(schedule all_reduce everything ranks=3 root=2 cut=4
scratch stage blocks=8 depth=2 place=host
scratch pre blocks=4 depth=1 place=device
channel c0 0.0 -> 1.0, 2.0
channel c1 1.0 -> 0.0
channel c2 1.1 -> 0.0 single_hop
rank 0
  lane 0 reduce
    0 send        input[0..2] input[0] -> c0
    1 token       c1
    2 recv_reduce input[3] input[1] + c2 + c1 -> output[0] output[2]  pre  post  order 2, 0, 1
rank 1
  lane 0 move
    0 token       -> c1
    1 recv        c0 -> stage[4] stage[5]
    2 token       -> c1
  lane 1 reduce
    0 copy        stage[4] -> pre[3]  after 0.1, 0.0
    1 reduce      pre[0] pre[1] + stage[0] pre[1] -> output[1] output[3], c2  post  order 1, 0
rank 2
  lane 0 reduce
    0 recv        c0 -> output[0..3]
)";

TEST(Text, PrintsEverythingThatAScheduleCanHold) {
  EXPECT_EQ(to_text(schedule_with_everything()), kEverything);
}

TEST(Text, ReadsBackWhatItPrints) {
  const Result<Schedule> read = schedule_from_text(kEverything, "everything");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, schedule_with_everything());
}

TEST(Text, ReadsCommentsBlankLinesAndAnyIndentation) {
  const Result<Schedule> read = schedule_from_text(
      "# a chain\r\n\n  schedule broadcast chain ranks=1 root=0 cut=1  # of one\r\n"
      "rank 0\nlane 0 move\n\t0 copy input[0]->output[0]",
      "chain");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->ranks[0][0].steps.size(), 1U);
}

struct Wrong {
  std::string_view text;
  std::string_view message;
};

// Puts `line` where a step is expected, as line 6.
std::string with_step(std::string_view line) {
  return "schedule all_reduce x ranks=2 root=0 cut=2\nscratch s blocks=2 depth=1 place=host\n"
         "channel c0 0.0 -> 1.0\nrank 0\nlane 0 reduce\n" +
         std::string(line) + "\nrank 1\nlane 0 reduce\n0 recv c0 -> output[0]\n";
}

TEST(Text, RefusesWrongLinesWhereTheyAreWrong) {
  const Wrong cases[] = {
      {"", "f:1:1: the text ended, expected 'schedule'"},
      {"\n\nplan", "f:3:1: found 'plan', expected 'schedule'"},
      {"schedule sort x", "f:1:10: there is no collective 'sort'; there are: all_reduce, "},
      {"schedule reduce x ranks=0", "f:1:25: ranks is 0, expected 1 to 4096"},
      {"schedule reduce x ranks=99999999999999999999", "f:1:25: ranks is 99999999999999999999, "},
      {"schedule reduce x ranks=2 root=2", "f:1:32: root is 2, expected 0 to 1"},
      {"schedule reduce x ranks=2 size=2", "f:1:27: found 'size', expected 'root'"},
      {"schedule reduce x ranks=2 root=1 cut=1 radix=2",
       "f:1:40: found 'radix', expected the end of the line"},
      {"schedule reduce x ranks=2 root=1 cut=1\nlane 0 move",
       "f:2:1: found 'lane', expected 'scratch', 'channel' or 'rank'"},
      {"schedule reduce x ranks=2 root=1 cut=1\nscratch input blocks=1 depth=1 place=host",
       "f:2:9: there is a buffer 'input' already, expected another name"},
      {"schedule reduce x ranks=2 root=1 cut=1\nscratch s blocks=1 depth=1 place=moon",
       "f:2:34: found 'moon', expected one of: device, host"},
      {"schedule reduce x ranks=2 root=1 cut=1\nchannel c1 0.0 -> 1.0",
       "f:2:9: the channel is 1, expected 0"},
      {"schedule reduce x ranks=2 root=1 cut=1\nchannel c0 0.0 -> 2.0",
       "f:2:19: a rank is 2, expected 0 to 1"},
      {"schedule reduce x ranks=2 root=1 cut=1\nrank 1", "f:2:6: the rank is 1, expected 0"},
      {"schedule reduce x ranks=1 root=0 cut=1\nrank 0\nrank 1",
       "f:3:6: found '1', expected no more than 1 ranks"},
      {"schedule reduce x ranks=2 root=1 cut=1\nrank 0",
       "f:1:1: schedule reduce x: 1 rank programs for 2 ranks"},
  };
  for (const Wrong& wrong : cases) {
    const Status status = schedule_from_text(wrong.text, "f").status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong.text;
    EXPECT_TRUE(status.message().starts_with(wrong.message)) << status.message();
  }
}

TEST(Text, RefusesWrongStepsWhereTheyAreWrong) {
  const Wrong cases[] = {
      {"1 send input[0] -> c0", "f:6:1: the step is 1, expected 0"},
      {"0 push input[0] -> c0", "f:6:3: found 'push', expected one of: send, recv, recv_reduce, "},
      {"0 send input[2] -> c0", "f:6:14: the block is 2, expected 0 to 1"},
      {"0 send input[0..2] -> c0", "f:6:17: the last block is 2, expected 0 to 1"},
      {"0 send input[1..0] -> c0", "f:6:17: the last block is 0, expected 1"},
      {"0 send t[0] -> c0",
       "f:6:8: found 't', expected 'input', 'output' or the name of a scratch"},
      {"0 send input[0 -> c0", "f:6:16: found '->', expected ']'"},
      {"0 send input[0] -> c1", "f:6:20: the channel is 1, expected 0"},
      {"0 send input[0] -> c", "f:6:20: found 'c', expected a channel, as c0"},
      {"0 send input[0] ->", "f:6:19: the line ended, expected a channel, as c0"},
      {"0 send input[0] + input[1] -> c0", "f:6:19: found 'input', expected a channel, as c0"},
      {"0 send input[0] -> c0 before 0.1", "f:6:23: found 'before', expected 'pre', 'post', "},
      {"0 send input[0] -> c0 after 0", "f:6:30: the line ended, expected '.'"},
      {"0 reduce input[0] input[1] + s[0] -> output[0]",
       "f:6:30: an operand of 1 blocks, expected 2 as in the first"},
      {"0 reduce input[0] s[0] + input[1] s[1] -> output[0]",
       "f:6:10: operands of 2 blocks, expected as many as at the destination, 1"},
      {"0 send input[0] -> c0 after 0.7",
       "f:1:1: schedule all_reduce x: rank 0 lane 0 step 0: after 0.7 is not there"},
      {"0 copy input[0] -> output[0]",
       "f:1:1: schedule all_reduce x: channel 0 carries 0 messages a tile, but rank 1 takes 1"},
      {"\x80", "f:6:1: found '\x80', expected a step, 'lane' or 'rank'"},
  };
  for (const Wrong& wrong : cases) {
    const Status status = schedule_from_text(with_step(wrong.text), "f").status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong.text;
    EXPECT_TRUE(status.message().starts_with(wrong.message)) << status.message();
  }
}

TEST(Text, RefusesRangesThatWouldFillTheMemory) {
  std::string line = "0 send";
  for (int i = 0; i < 20; ++i) {
    line += " s[0..1048575]";
  }
  std::string text = with_step(line + " -> c0");
  text.replace(text.find("blocks=2"), 8, "blocks=1048576");
  const Status status = schedule_from_text(text, "f").status();
  EXPECT_NE(status.message().find("the ranges make too many blocks"), std::string::npos)
      << status.message();
}

// What comes back, if anything does, is a schedule that prints and reads back.
TEST(Text, SurvivesMutations) {
  constexpr unsigned kSeed = 20240611;
  std::mt19937 random(kSeed);
  const std::string_view pieces[] = {
      "0",       "9999999999", "c0", "c9",   "->",    "..",          "[",    "]",
      "+",       ",",          " ",  "\n",   "after", "input[0]",    "rank", "lane",
      "channel", "\xff",       "=",  "4096", "#",     "stage[0..7]", "-1",   "pre"};
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text(kEverything);
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int edit = 0; edit < edits; ++edit) {
      const std::size_t at = random() % text.size();
      const std::size_t length = random() % 4 == 0 ? random() % 60 : random() % 3;
      text.replace(at, length, pieces[random() % std::size(pieces)]);
    }
    const Result<Schedule> read = schedule_from_text(text, "mutant");
    if (read.ok()) {
      ++accepted;
      const Result<Schedule> again = schedule_from_text(to_text(*read), "again");
      ASSERT_TRUE(again.ok()) << "round " << round << " of seed " << kSeed << ": "
                              << again.status().message();
      ASSERT_EQ(*again, *read) << "round " << round << " of seed " << kSeed << "\n" << text;
    } else {
      ASSERT_EQ(read.status().code(), Code::kInvalidArgument);
      ASSERT_TRUE(read.status().message().starts_with("mutant:")) << read.status().message();
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace sennit
