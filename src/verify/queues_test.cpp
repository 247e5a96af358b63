#include "verify/queues.hpp"

#include "verify/testing/stream_steps.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace sennit {
namespace {

using verify_test::await;
using verify_test::behind;
using verify_test::launch;
using verify_test::record;
using verify_test::reset;
using verify_test::signal;
using verify_test::two;
using Ranks = std::vector<IssuedSteps>;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

constexpr QueueModel kOwn{.queues = Queues::kOwn};
constexpr QueueModel kOne{.queues = Queues::kOne};
constexpr QueueModel kOneAnyOrder{.queues = Queues::kOne, .order = QueueOrder::kAny};

// Rank 1 answers what rank 0 says.
Ranks answered() { return two({signal(1), await(2), reset(2)}, {await(1), reset(1), signal(2)}); }

TEST(Queues, WhatSignalsBeforeItWaitsComesToItsEnd) {
  EXPECT_TRUE(check_queues(answered(), kOwn).ok());
  EXPECT_TRUE(check_queues(answered(), kOne).ok());
  EXPECT_TRUE(check_queues(answered(), kOneAnyOrder).ok());
}

TEST(Queues, WhatWaitsBeforeItSignalsDoesNot) {
  const Ranks both_wait = two({await(2), reset(2), signal(1)}, {await(1), reset(1), signal(2)});
  const Status status = check_queues(both_wait, kOwn);
  EXPECT_EQ(status.code(), Code::kNotProved);
  EXPECT_TRUE(contains(status.message(), "rank 0 stream 0")) << status.message();
  EXPECT_TRUE(contains(status.message(), "waits for its signal")) << status.message();
}

// On streams of their own a wait holds up nothing.
TEST(Queues, AWaitHoldsUpWhatIsIssuedBehindItInItsQueue) {
  const Ranks waits_first =
      two({await(2, 1), reset(2, 1), signal(1, 2)}, {await(1, 1), reset(1, 1), signal(2, 2)});
  EXPECT_TRUE(check_queues(waits_first, kOwn).ok());
  const Status status = check_queues(waits_first, kOne);
  EXPECT_TRUE(contains(status.message(), "in one hardware queue")) << status.message();
  EXPECT_TRUE(check_queues(waits_first, {.queues = Queues::kDealt, .count = 2}).ok());
  EXPECT_FALSE(check_queues(waits_first, {.queues = Queues::kDealt, .count = 1}).ok());
}

// Issued in the right order, which a graph forgets unless an event says so.
TEST(Queues, AGraphKeepsTheOrderOfStreamsAndEventsAlone) {
  const auto steps = [](std::int64_t mine, std::int64_t theirs) {
    return std::vector{signal(theirs, 1), await(mine, 2), reset(mine, 2)};
  };
  const Ranks loose = two(steps(1, 2), steps(2, 1));
  EXPECT_TRUE(check_queues(loose, kOne).ok());
  const Status status = check_queues(loose, kOneAnyOrder);
  EXPECT_TRUE(contains(status.message(), "may be queued behind")) << status.message();
  const auto ordered = [](std::int64_t mine, std::int64_t theirs) {
    return std::vector{
        signal(theirs, 1), record(7, 1), behind(7, 2), await(mine, 2), reset(mine, 2)};
  };
  EXPECT_TRUE(check_queues(two(ordered(1, 2), ordered(2, 1)), kOneAnyOrder).ok());
}

// Its own stream waits for it, and with that the queue.
TEST(Queues, AKernelThatRunsHoldsUpItsStreamAlone) {
  const auto steps = [](std::int64_t mine, std::int64_t theirs, bool is_in_kernel) {
    std::vector all = {launch(), await(mine), reset(mine), signal(theirs, 1)};
    all[1].is_in_kernel = is_in_kernel;
    all[2].is_in_kernel = is_in_kernel;
    return all;
  };
  const auto judge = [](const Ranks& ranks, const QueueModel& model) {
    return check_queues(ranks, model).ok();
  };
  const Ranks kernels = two(steps(1, 2, true), steps(2, 1, true));
  const Ranks streams = two(steps(1, 2, false), steps(2, 1, false));
  EXPECT_TRUE(judge(kernels, kOne));
  EXPECT_FALSE(judge(streams, kOne));
  EXPECT_TRUE(judge(kernels, kOneAnyOrder));
  EXPECT_FALSE(judge(streams, kOneAnyOrder));
  Ranks followed = kernels;
  for (IssuedSteps& rank : followed) {
    rank.steps.insert(rank.steps.begin() + 3, launch());
  }
  EXPECT_FALSE(judge(followed, kOne));
  EXPECT_FALSE(judge(followed, kOneAnyOrder));
}

TEST(Queues, ThreadsOnOneDeviceShareItsQueues) {
  Ranks threads = answered();
  threads[1].device = 0;
  EXPECT_TRUE(check_queues(threads, kOne).ok()) << "queues of another process";
  threads[1].process = 0;
  EXPECT_TRUE(check_queues(threads, kOwn).ok());
  EXPECT_FALSE(check_queues(threads, kOne).ok()) << "rank 1 may be ahead of rank 0";
  // Its host begins when rank 0 has issued its signal.
  threads[0].meetings = {1};
  threads[1].meetings = {0};
  EXPECT_FALSE(check_queues(threads, kOne).ok()) << "the answer is behind the wait for it";
  threads[0].steps = {signal(1)};
  threads[1].steps = {await(1), reset(1)};
  EXPECT_TRUE(check_queues(threads, kOne).ok());
}

TEST(Queues, RefuseSignalsThatAreLost) {
  const auto refusal = [](const Ranks& ranks) { return check_signals(ranks).message(); };
  EXPECT_TRUE(contains(refusal(two({signal(1)}, {})), "nobody waits for"));
  EXPECT_TRUE(contains(refusal(two({}, {await(1), reset(1)})), "nobody signals"));
  EXPECT_TRUE(contains(refusal(two({signal(1)}, {await(1)})), "nobody resets"));
  EXPECT_TRUE(
      contains(refusal(two({signal(1), signal(1)}, {await(1), reset(1), await(1), reset(1)})),
               "is lost then"));
  EXPECT_TRUE(contains(refusal(two({signal(1)}, {await(1, 1), reset(1, 2)})), "misses it"));
  EXPECT_TRUE(contains(refusal(two({signal(1)}, {reset(1)})), "may come before"));
  EXPECT_TRUE(
      contains(refusal(two({signal(1), await(2), reset(2), signal(1)},
                           {await(1, 1), reset(1, 1), signal(2, 1), await(1, 2), reset(1, 2)})),
               "an old signal for a new one"));
  EXPECT_TRUE(contains(refusal(two({signal(1)}, {signal(1)})), "does so, too"));
  EXPECT_TRUE(contains(refusal(two({behind(1, 0)}, {})), "not recorded"));
  EXPECT_EQ(refusal(two({signal(1), await(2), reset(2), signal(1)},
                        {await(1), reset(1), signal(2), await(1), reset(1)})),
            "");
}

// What one queue can end, processes end whatever their hosts wait for.
TEST(Queues, HostsMayWaitWhereRanksAreProcesses) {
  const Ranks ranks = two({signal(1), launch(), await(2), reset(2), launch()},
                          {await(1), reset(1), launch(), signal(2)});
  for (const HostModel::Waits waits :
       {HostModel::Waits::kForRoom, HostModel::Waits::kAtLaunch, HostModel::Waits::kAlways}) {
    EXPECT_TRUE(check_hosts(ranks, kOne, {.waits = waits, .depth = 1}).ok());
  }
}

TEST(Queues, HostsOfOneProcessMayNotWaitWithItsLock) {
  Ranks ranks = two({await(2), reset(2), launch(), signal(1)}, {signal(2), await(1), reset(1)});
  ranks[1].process = 0;
  const HostModel locked{.waits = HostModel::Waits::kAtLaunch, .locks_process = true};
  EXPECT_TRUE(check_queues(ranks, kOne).ok());
  EXPECT_TRUE(check_hosts(ranks, kOne, {.waits = HostModel::Waits::kAtLaunch}).ok());
  const Status status = check_hosts(ranks, kOne, locked);
  EXPECT_TRUE(contains(status.message(), "holds the lock")) << status.message();
  // Rank 1 has signalled before rank 0 launches.
  ranks[0].meetings = {2};
  ranks[1].meetings = {1};
  EXPECT_TRUE(check_hosts(ranks, kOne, locked).ok());
  // A queue with room for two: the launch waits for nothing, the signal for the wait.
  const HostModel full{.waits = HostModel::Waits::kForRoom, .depth = 3, .locks_process = true};
  ranks[0].meetings = {};
  ranks[1].meetings = {};
  EXPECT_FALSE(check_hosts(ranks, kOne, full).ok());
  EXPECT_TRUE(check_hosts(ranks,
                          kOne,
                          {.waits = HostModel::Waits::kForRoom, .depth = 4, .locks_process = true})
                  .ok());
}

}  // namespace
}  // namespace sennit
