#include "schedule/schedule.hpp"

#include "schedule/builder.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace sennit {
namespace {

// Two ranks; rank 1 reduces what rank 0 sends, sends the sum back and shows a token.
//   rank 0: lane 0: send, recv          lane 1: token
//   rank 1: lane 0: recv_reduce, send   lane 1: token    lane 2: copy, reduce
Schedule valid() {
  Builder b("valid", {.collective = Collective::kAllReduce, .ranks = 2, .cut = 2});
  const int scratch = b.scratch("spare", 2, 1);
  const LaneId left = b.lane(0, Need::kMove);
  const LaneId left_token = b.lane(0, Need::kMove);
  const LaneId right = b.lane(1, Need::kReduce);
  const LaneId right_token = b.lane(1, Need::kMove);
  const LaneId local = b.lane(1, Need::kReduce);
  const int there = b.channel(left, right);
  const int back = b.channel(right, left);
  const int flag = b.channel(right_token, left_token);
  b.send(left, input_blocks(2), there);
  b.recv(left, back, output_blocks(2));
  b.token(left_token, {flag}, {});
  const StepRef sum = b.recv_reduce(right, there, input_blocks(2), output_blocks(2));
  b.send(right, output_blocks(2), back);
  b.token(right_token, {}, {flag});
  b.after(right_token, {sum});
  b.copy(local, {input_block(0)}, {scratch_block(scratch, 0)});
  b.step(local,
         {.kind = StepKind::kReduce,
          .from = {input_block(0), scratch_block(scratch, 0)},
          .to = {scratch_block(scratch, 1)}});
  return std::move(b).finish();
}

Step& step(Schedule& schedule, std::size_t rank, std::size_t lane, std::size_t index) {
  return schedule.ranks[rank][lane].steps[index];
}

TEST(CheckStructure, AcceptsTheScheduleThatTheRejectedOnesAreMadeFrom) {
  EXPECT_TRUE(check_structure(valid()).ok());
}

struct Malformed {
  std::string_view what;
  std::function<void(Schedule&)> change;
  std::string_view complaint;
};

// One change each, that makes valid() malformed.
std::vector<Malformed> malformed() {
  return {
      {"no ranks", [](Schedule& s) { s.problem.ranks = 0; }, "make no problem"},
      {"foreign root", [](Schedule& s) { s.problem.root = 2; }, "make no problem"},
      {"no cut", [](Schedule& s) { s.problem.cut = 0; }, "make no problem"},
      {"a rank too few", [](Schedule& s) { s.ranks.pop_back(); }, "1 rank programs for 2 ranks"},
      {"scratch without blocks", [](Schedule& s) { s.scratch[0].blocks = 0; }, "scratch 'spare'"},
      {"scratch without depth", [](Schedule& s) { s.scratch[0].depth = 0; }, "scratch 'spare'"},
      {"writer lane", [](Schedule& s) { s.channels[0].writer.lane = 2; }, "lacks a writing lane"},
      {"no reader", [](Schedule& s) { s.channels[0].readers.clear(); }, "or a reader"},
      {"reader lane",
       [](Schedule& s) { s.channels[0].readers[0].lane = 3; },
       "read by lane 1.3, which is not there"},
      {"a rank talks to itself",
       [](Schedule& s) { s.channels[0].readers[0] = {0, 1}; },
       "two ends on one rank"},
      {"two readers on one rank",
       [](Schedule& s) { s.channels[0].readers.push_back({1, 1}); },
       "two ends on one rank"},
      {"input index",
       [](Schedule& s) { step(s, 0, 0, 0).from[0].index = 2; },
       "input[2] is outside"},
      {"negative index", [](Schedule& s) { step(s, 0, 0, 1).to[0].index = -1; }, "output[-1]"},
      {"scratch index", [](Schedule& s) { step(s, 1, 2, 0).to[0].index = 2; }, "scratch[2]"},
      {"scratch number", [](Schedule& s) { step(s, 1, 2, 0).to[0].scratch = 1; }, "no scratch 1"},
      {"writes input",
       [](Schedule& s) { step(s, 1, 2, 0).to[0] = input_block(1); },
       "writes input[1]"},
      {"send of nothing", [](Schedule& s) { step(s, 0, 0, 0).from.clear(); }, "a send cannot have"},
      {"send that stores",
       [](Schedule& s) { step(s, 0, 0, 0).to = output_blocks(2); },
       "a send cannot have"},
      {"send to nobody", [](Schedule& s) { step(s, 0, 0, 0).out.clear(); }, "a send cannot have"},
      {"recv without effect", [](Schedule& s) { step(s, 0, 0, 1).to.clear(); }, "a recv cannot"},
      {"recv of two messages",
       [](Schedule& s) { step(s, 0, 0, 1).in.push_back(1); },
       "a recv cannot have"},
      {"recv that reads",
       [](Schedule& s) { step(s, 0, 0, 1).from = input_blocks(2); },
       "a recv cannot have"},
      {"recv_reduce of nothing received",
       [](Schedule& s) { step(s, 1, 0, 0).in.clear(); },
       "a recv_reduce cannot have"},
      {"recv_reduce of one operand",
       [](Schedule& s) { step(s, 1, 0, 0).from.clear(); },
       "a recv_reduce cannot have"},
      {"recv_reduce without effect",
       [](Schedule& s) { step(s, 1, 0, 0).to.clear(); },
       "a recv_reduce cannot have"},
      {"recv_reduce of unequal lists",
       [](Schedule& s) { step(s, 1, 0, 0).to.pop_back(); },
       "a recv_reduce cannot have"},
      {"copy of unequal lists",
       [](Schedule& s) { step(s, 1, 2, 0).from = input_blocks(2); },
       "a copy cannot have"},
      {"copy that sends", [](Schedule& s) { step(s, 1, 2, 0).out = {1}; }, "a copy cannot have"},
      {"reduce of one operand",
       [](Schedule& s) { step(s, 1, 2, 1).from.pop_back(); },
       "a reduce cannot have"},
      {"reduce of a broken group",
       [](Schedule& s) {
         Step& reduce = step(s, 1, 2, 1);
         reduce.to = {scratch_block(0, 0), scratch_block(0, 1)};
         reduce.from = {
             input_block(0), input_block(1), input_block(0), input_block(1), input_block(0)};
       },
       "a reduce cannot have"},
      {"token with data",
       [](Schedule& s) { step(s, 1, 1, 0).from = input_blocks(1); },
       "a token cannot have"},
      {"token without messages",
       [](Schedule& s) { step(s, 1, 1, 0).out.clear(); },
       "a token cannot have"},
      {"order of another length",
       [](Schedule& s) { step(s, 1, 0, 0).order = {0, 1, 2}; },
       "not a permutation of its 2 operands"},
      {"order with a repetition",
       [](Schedule& s) { step(s, 1, 2, 1).order = {1, 1}; },
       "not a permutation of its 2 operands"},
      {"order of a send", [](Schedule& s) { step(s, 0, 0, 0).order = {0}; }, "not a permutation"},
      {"sends on another's channel",
       [](Schedule& s) { step(s, 0, 0, 0).out = {1}; },
       "not the writer of channel 1"},
      {"sends on no channel",
       [](Schedule& s) { step(s, 0, 0, 0).out = {3}; },
       "not the writer of channel 3"},
      {"receives from another's channel",
       [](Schedule& s) { step(s, 0, 0, 1).in = {2}; },
       "not a reader of channel 2"},
      {"receives from no channel",
       [](Schedule& s) { step(s, 0, 0, 1).in = {-1}; },
       "there is no channel -1"},
      {"waits for a lane that is not there",
       [](Schedule& s) { step(s, 1, 1, 0).after[0].lane = 3; },
       "after 3.0 is not there"},
      {"waits for a step that is not there",
       [](Schedule& s) { step(s, 1, 1, 0).after[0].step = 2; },
       "after 0.2 is not there"},
      {"a message that nobody takes",
       [](Schedule& s) { s.ranks[0][0].steps.pop_back(); },
       "carries 1 messages a tile, but rank 0 takes 0"},
      {"a message that nobody sends",
       [](Schedule& s) { s.ranks[1][1].steps.clear(); },
       "carries 0 messages a tile, but rank 0 takes 1"},
  };
}

TEST(CheckStructure, RejectsEachMalformedThingAndNamesIt) {
  for (const Malformed& bad : malformed()) {
    Schedule schedule = valid();
    bad.change(schedule);
    const Status status = check_structure(schedule);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad.what;
    EXPECT_NE(status.message().find(bad.complaint), std::string::npos)
        << bad.what << ": " << status.message();
    EXPECT_NE(status.message().find("all_reduce valid"), std::string::npos) << status.message();
  }
}

TEST(CheckStructure, SendRecvHasTwoRoles) {
  Schedule schedule;
  schedule.problem = {.collective = Collective::kSendRecv, .ranks = 3};
  schedule.ranks.resize(3);
  EXPECT_NE(check_structure(schedule).message().find("two roles"), std::string::npos);
}

TEST(Schedule, LargestMessageIsTheLongestListThatASingleStepMoves) {
  EXPECT_EQ(largest_message_blocks(valid()), 2);
  EXPECT_EQ(largest_message_blocks(Schedule{}), 0);
}

TEST(Schedule, MessagesPerTileCountsTheWritersSteps) {
  Schedule schedule = valid();
  EXPECT_EQ(messages_per_tile(schedule, 0), 1);
  auto& steps = schedule.ranks[0][0].steps;
  steps.push_back(steps[0]);
  EXPECT_EQ(messages_per_tile(schedule, 0), 2);
}

TEST(Builder, SingleHopChannelsAreMarkedAndOthersAreNot) {
  Builder b("marks", {.collective = Collective::kSendRecv, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int plain = b.channel(lanes[0], lanes[1]);
  const int direct = b.single_hop_channel(lanes[0], lanes[1]);
  const Schedule schedule = std::move(b).finish();
  EXPECT_FALSE(schedule.channels[static_cast<std::size_t>(plain)].single_hop);
  EXPECT_TRUE(schedule.channels[static_cast<std::size_t>(direct)].single_hop);
}

}  // namespace
}  // namespace sennit
