#include "algo/algorithm.hpp"

#include "algo/shapes.hpp"
#include "algo/testing/one_tile.hpp"
#include "base/testing/trials.hpp"
#include "schedule/builder.hpp"
#include "schedule/passes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace sennit {
namespace {

constexpr int kMostRanks = trials(17, 9);
constexpr int kMostRanksWithAllRoots = 6;

struct Case {
  const Algorithm* algorithm;
  Shape shape;
};

std::string describe(const Case& c) {
  return fmt::format("{} {} of {} ranks, {}",
                     name(c.algorithm->collective),
                     c.algorithm->name,
                     c.shape.ranks,
                     algo::in_words(c.shape));
}

// Every row with every shape that it does not refuse, but for most roots of many ranks.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
        for (const Shape& shape : algo::shapes_to_try(algorithm, ranks)) {
          const bool tried =
              ranks <= kMostRanksWithAllRoots || shape.root == 0 || shape.root == ranks / 2;
          if (tried && algorithm.refuses(shape).empty()) {
            cases.push_back({&algorithm, shape});
          }
        }
      }
    }
  }
  return cases;
}

const Algorithm& row(Collective collective, std::string_view name) {
  return *find_algorithm(collective, name).value();
}

Shape ranks(int count) {
  Shape shape;
  shape.ranks = count;
  return shape;
}

// Counted at the sender. A step that names no block passes on what came in, and in the schedules
// here that is one block.
std::vector<std::int64_t> count_blocks_on_links(const Schedule& schedule) {
  const auto n = static_cast<std::size_t>(schedule.problem.ranks);
  std::vector<std::int64_t> blocks(n * n);
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (const Lane& lane : schedule.ranks[rank]) {
      for (const Step& step : lane.steps) {
        const std::size_t named = std::max(step.from.size(), step.to.size());
        const std::size_t size = step.kind == StepKind::kToken ? 0 : std::max(named, 1UL);
        for (const int channel : step.out) {
          for (const LaneId reader : schedule.channels[static_cast<std::size_t>(channel)].readers) {
            blocks[rank * n + static_cast<std::size_t>(reader.rank)] +=
                static_cast<std::int64_t>(size);
          }
        }
      }
    }
  }
  return blocks;
}

TEST(Algorithms, NamesAreUniqueWithinACollective) {
  for (const Collective collective : kCollectives) {
    std::set<std::string_view> names;
    for (const Algorithm& algorithm : algorithms(collective)) {
      EXPECT_EQ(algorithm.collective, collective) << algorithm.name;
      EXPECT_TRUE(names.insert(algorithm.name).second) << algorithm.name;
      EXPECT_FALSE(algorithm.summary.empty()) << algorithm.name;
      EXPECT_FALSE(algorithm.source.empty()) << algorithm.name;
    }
    EXPECT_FALSE(names.empty()) << name(collective);
  }
}

TEST(Algorithms, EverySchedulePassesTheStructureCheckAndKeepsItsName) {
  for (const Case& c : all_cases()) {
    const auto schedule = make_schedule(*c.algorithm, c.shape);
    ASSERT_TRUE(schedule.ok()) << describe(c);
    const Status status = check_structure(*schedule);
    EXPECT_TRUE(status.ok()) << describe(c) << ": " << status.message();
    EXPECT_EQ(schedule->algorithm, c.algorithm->name) << describe(c);
    EXPECT_EQ(schedule->problem.collective, c.algorithm->collective) << describe(c);
    EXPECT_EQ(schedule->problem.ranks, c.shape.ranks) << describe(c);
  }
}

TEST(Algorithms, ClosedFormOfLinksEqualsCountedBlocks) {
  for (const Case& c : all_cases()) {
    const Schedule schedule = make_schedule(*c.algorithm, c.shape).value();
    const auto counted = count_blocks_on_links(schedule);
    for (int from = 0; from < c.shape.ranks; ++from) {
      for (int to = 0; to < c.shape.ranks; ++to) {
        ASSERT_EQ(counted[static_cast<std::size_t>(from * c.shape.ranks + to)],
                  c.algorithm->blocks_on_link(c.shape, from, to))
            << describe(c) << ", link " << from << " -> " << to;
      }
    }
  }
}

TEST(Algorithms, ClosedFormOfRoundsEqualsTheLongestChain) {
  for (const Case& c : all_cases()) {
    const Schedule schedule = make_schedule(*c.algorithm, c.shape).value();
    EXPECT_EQ(one_tile::longest_chain(schedule), c.algorithm->rounds(c.shape)) << describe(c);
  }
}

// Out of place, and in place where the row claims it, in several orders of execution and with the
// fewest slots that fusion allows.
TEST(Algorithms, EveryOutputBlockIsRightInEveryOrderOfExecution) {
  for (const Case& c : all_cases()) {
    const Schedule schedule = make_schedule(*c.algorithm, c.shape).value();
    for (const bool in_place : {false, true}) {
      if (in_place && !c.algorithm->in_place) {
        continue;
      }
      for (const unsigned seed : {0U, 1U, 2U, 3U}) {
        const auto defect =
            one_tile::run(schedule, {.in_place = in_place, .slots = 2, .seed = seed});
        ASSERT_EQ(defect, "") << describe(c) << (in_place ? ", in place" : "") << ", seed " << seed;
      }
    }
  }
}

TEST(Algorithms, FusionKeepsTheValues) {
  for (const Case& c : all_cases()) {
    const Schedule unfused = c.algorithm->build(c.shape);
    ASSERT_EQ(one_tile::run(unfused, {}), "") << describe(c);
    ASSERT_EQ(one_tile::final_values(unfused), one_tile::final_values(fuse(unfused)))
        << describe(c);
  }
}

TEST(Algorithms, WhatIsNotProvedInPlaceIsIndeedWrongThereForSomeRanksInSomeOrder) {
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      bool wrong = algorithm.in_place;
      for (int n = 3; n < 6; ++n) {
        for (unsigned seed = 0; seed < 50 && !wrong; ++seed) {
          const Schedule schedule = make_schedule(algorithm, ranks(n)).value();
          wrong = !one_tile::run(schedule, {.in_place = true, .seed = seed}).empty();
        }
      }
      EXPECT_TRUE(wrong) << name(collective) << " " << algorithm.name;
    }
  }
}

// With the rank at the other end of a channel instead of the channel.
std::string in_words(const Schedule& schedule, const Step& step) {
  std::string words(name(step.kind));
  for (const auto* blocks : {&step.from, &step.to}) {
    for (const Block& block : *blocks) {
      words += fmt::format(" {}{}", name(block.space), block.index);
    }
    words += '|';
  }
  for (const int channel : step.in) {
    words += fmt::format(" <{}", schedule.channels[static_cast<std::size_t>(channel)].writer.rank);
  }
  for (const int channel : step.out) {
    for (const LaneId reader : schedule.channels[static_cast<std::size_t>(channel)].readers) {
      words += fmt::format(" >{}", reader.rank);
    }
  }
  return words + '\n';
}

// What each rank does, whatever its lanes and channels are called.
std::vector<std::multiset<std::string>> in_words(const Schedule& schedule) {
  std::vector<std::multiset<std::string>> ranks;
  for (const auto& lanes : schedule.ranks) {
    std::multiset<std::string>& of_rank = ranks.emplace_back();
    for (const Lane& lane : lanes) {
      std::string words;
      for (const Step& step : lane.steps) {
        words += in_words(schedule, step);
      }
      of_rank.insert(std::move(words));
    }
  }
  return ranks;
}

TEST(Algorithms, NoTwoRowsOfACollectiveAreOneProgram) {
  for (const Collective collective : kCollectives) {
    for (const int n : {5, 8}) {
      std::map<std::vector<std::multiset<std::string>>, std::string_view> made;
      for (const Algorithm& algorithm : algorithms(collective)) {
        if (const auto schedule = make_schedule(algorithm, ranks(n)); schedule.ok()) {
          const auto [first, is_new] = made.try_emplace(in_words(*schedule), algorithm.name);
          EXPECT_TRUE(is_new) << name(collective) << " of " << n << " ranks: " << algorithm.name
                              << " is " << first->second;
        }
      }
    }
  }
}

TEST(Algorithms, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto found = find_algorithm(Collective::kAllReduce, "rong");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kInvalidArgument);
  EXPECT_NE(found.status().message().find("rong"), std::string::npos);
  EXPECT_NE(found.status().message().find("recursive_doubling"), std::string::npos);
}

TEST(Algorithms, ARefusalNamesAlgorithmRanksAndReason) {
  const auto refused = make_schedule(row(Collective::kSendRecv, "direct"), ranks(3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_EQ(
      refused.status().message(),
      "send_recv direct cannot run 3 ranks: it has two roles, the sender 0 and the receiver 1");
  for (const auto& [collective, name] : {std::pair(Collective::kBroadcast, "k_nomial"),
                                         std::pair(Collective::kReduce, "k_nomial"),
                                         std::pair(Collective::kBarrier, "tree")}) {
    Shape shape = ranks(4);
    shape.radix = 1;
    EXPECT_EQ(make_schedule(row(collective, name), shape).status().code(), Code::kUnsupported)
        << name;
  }
}

TEST(Algorithms, AShapeWhoseGroupsDoNotHoldEachRankOnceIsRejected) {
  Shape shape = ranks(4);
  for (const auto& [groups, defect] :
       std::vector<std::pair<std::vector<std::vector<int>>, std::string>>{
           {{{0, 1}, {3}}, "rank 2 is in 0 groups, not in one"},
           {{{0, 1}, {1, 2, 3}}, "rank 1 is in 2 groups, not in one"},
           {{{0, 1, 2, 3}, {}}, "a group is empty"},
           {{{0, 1, 2, 3, 4}}, "a group holds rank 4, which there is not"}}) {
    shape.groups = groups;
    const auto schedule = make_schedule(row(Collective::kAllReduce, "hierarchical"), shape);
    EXPECT_EQ(schedule.status().code(), Code::kInvalidArgument);
    EXPECT_NE(schedule.status().message().find(defect), std::string::npos)
        << schedule.status().message();
  }
}

TEST(Algorithms, AShapeWithoutRanksOrWithAForeignRootIsRejected) {
  const Algorithm& chain = row(Collective::kBroadcast, "chain");
  Shape foreign_root = ranks(4);
  foreign_root.root = 4;
  for (const Shape& shape : {ranks(0), ranks(-1), foreign_root}) {
    EXPECT_EQ(make_schedule(chain, shape).status().code(), Code::kInvalidArgument);
  }
}

TEST(Ring, EachChannelCarriesTwoTurnsOfMessagesInOneFusedLane) {
  for (int n = 2; n <= kMostRanks; ++n) {
    const Schedule ring = make_schedule(row(Collective::kAllReduce, "ring"), ranks(n)).value();
    ASSERT_EQ(ring.channels.size(), static_cast<std::size_t>(n));
    for (int c = 0; c < n; ++c) {
      EXPECT_EQ(messages_per_tile(ring, c), 2 * (n - 1));
    }
    for (const auto& lanes : ring.ranks) {
      ASSERT_EQ(lanes.size(), 1U);
      // The first send, then one step for each message that arrives.
      EXPECT_EQ(lanes[0].steps.size(), static_cast<std::size_t>(2 * n - 1));
    }
  }
}

TEST(Ring, PartialSumsAreNotStored) {
  const int n = 5;
  const Schedule ring = make_schedule(row(Collective::kAllReduce, "ring"), ranks(n)).value();
  for (const auto& lanes : ring.ranks) {
    const auto& steps = lanes[0].steps;
    for (int hop = 1; hop < n; ++hop) {
      const Step& sum = steps[static_cast<std::size_t>(hop)];
      EXPECT_EQ(sum.kind, StepKind::kRecvReduce);
      EXPECT_EQ(sum.out.size(), 1U);
      EXPECT_EQ(sum.to.empty(), hop < n - 1) << hop;  // the last one is a result
    }
  }
}

TEST(Dissemination, EveryRankSendsOneTokenInEachRound) {
  const std::map<int, int> rounds{{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {17, 5}};
  for (const auto& [n, expected] : rounds) {
    const Algorithm& algorithm = row(Collective::kBarrier, "dissemination");
    const Schedule schedule = make_schedule(algorithm, ranks(n)).value();
    EXPECT_EQ(algorithm.rounds(ranks(n)), expected);
    EXPECT_EQ(schedule.channels.size(), static_cast<std::size_t>(n * expected));
  }
}

TEST(Barrier, NoRankLeavesBeforeAllHaveEntered) {
  for (const Algorithm& algorithm : algorithms(Collective::kBarrier)) {
    for (int n = 1; n <= kMostRanks; ++n) {
      const Schedule schedule = make_schedule(algorithm, ranks(n)).value();
      EXPECT_TRUE(one_tile::last_steps_follow_all_first_steps(schedule)) << algorithm.name << n;
    }
  }
}

// Mistakes of an algorithm's author: the sentence has to say what is wrong, and of which shape.
Schedule writes_its_input(const Shape& shape) {
  Builder b("mistaken", {Collective::kAllReduce, shape.ranks, 0, /*cut=*/1});
  const LaneId lane = b.lane(0, Need::kMove);
  b.copy(lane, {output_block(0)}, {input_block(0)});
  return std::move(b).finish();
}

Schedule names_a_rank_too_many(const Shape& shape) {
  Builder b("mistaken", {Collective::kAllReduce, shape.ranks, 0, /*cut=*/1});
  b.lane(shape.ranks, Need::kMove);
  return std::move(b).finish();
}

Schedule waits_without_a_step(const Shape& shape) {
  Builder b("mistaken", {Collective::kAllReduce, shape.ranks, 0, /*cut=*/1});
  const LaneId lane = b.lane(0, Need::kMove);
  b.after(lane, {{0, 0}});
  return std::move(b).finish();
}

TEST(Algorithms, ThatBuildNoScheduleAreNotProvedAndNeverEndTheProcess) {
  Algorithm mistaken = row(Collective::kAllReduce, "ring");
  mistaken.name = "mistaken";
  for (const auto& [build, words] :
       {std::pair{&writes_its_input, "input"},
        std::pair{&names_a_rank_too_many, "a rank, a lane or a step that is not there"},
        std::pair{&waits_without_a_step, "a rank, a lane or a step that is not there"}}) {
    mistaken.build = build;
    const Result<Schedule> made = make_schedule(mistaken, {.ranks = 3});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::kNotProved);
    EXPECT_NE(made.status().message().find("all_reduce mistaken builds no schedule for 3 ranks"),
              std::string::npos)
        << made.status().message();
    EXPECT_NE(made.status().message().find(words), std::string::npos) << made.status().message();
  }
}

}  // namespace
}  // namespace sennit
