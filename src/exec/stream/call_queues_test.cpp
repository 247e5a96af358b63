// The lists of all collectives that copy engines run come to their end, whatever queues the streams
// share: proved by the queue check.
#include "base/testing/trials.hpp"
#include "exec/stream/call_operations.hpp"
#include "exec/stream/testing/queue_steps.hpp"
#include "exec/stream/testing/stream_cases.hpp"
#include "verify/queues.hpp"
#include "verify/testing/queue_execution.hpp"
#include "verify/testing/random_execution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace sennit::stream {
namespace {

using verify_test::ends;
using verify_test::orders_of_issue;
using verify_test::pick;
using verify_test::Random;
using Kind = StreamStep::Kind;
using Ranks = std::vector<IssuedSteps>;

constexpr std::int64_t kStagingBytes = std::int64_t{1} << 20;
constexpr QueueModel kOne{.queues = Queues::kOne};
constexpr QueueModel kOneAnyOrder{.queues = Queues::kOne, .order = QueueOrder::kAny};
// One part of a block, and so many that they go round a ring some times.
constexpr std::array<std::int64_t, 2> kCounts = {1, 20'000};

struct Setting {
  host::RingShape ring{.slots = 2, .slot_bytes = 4096};
  std::int64_t count = 1;
  bool is_captured = false;
  bool has_copy_kernel = true;
};

// Never in place: that only spares copies.
OperationList operations_of(const StreamCase& c, int rank, const Setting& setting) {
  static constexpr char kKernel = 0;
  StreamCall call{.peers = {},
                  .count = setting.count,
                  .element_bytes = 4,
                  .part_bytes = 4096,
                  .copy = setting.has_copy_kernel ? &kKernel : nullptr,
                  .is_captured = setting.is_captured};
  call.output = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40U);
  OperationList list;
  const PlanProgram& program = c.programs[static_cast<std::size_t>(rank)];
  if (const StreamProgram* const alone = program.alone()) {
    const std::int64_t rounds = rounds_of(*alone, call.extent(), kStagingBytes, setting.ring);
    for (std::int64_t i = 0; i < rounds; ++i) {
      append_round(*alone, call, {.index = i, .count = rounds}, list);
    }
  } else {
    append_call(program, call, setting.ring, list);
  }
  return list;
}

// Ranks that are processes with a device each, and make these calls one after the other.
Ranks issued(const std::vector<const StreamCase*>& calls, const Setting& setting) {
  Ranks ranks(static_cast<std::size_t>(calls.front()->ranks()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    IssuedSteps& mine = ranks[rank];
    mine.device = static_cast<int>(rank);
    mine.process = static_cast<int>(rank);
    for (const StreamCase* const c : calls) {
      mine.meetings.push_back(mine.steps.size());  // hosts agree about each call
      append_steps(operations_of(*c, static_cast<int>(rank), setting), mine);
    }
  }
  return ranks;
}

template <typename Function>
void for_each_case(int most_ranks, int most_roots, Function function) {
  for (const int slots : {2, 3, 4}) {
    const host::RingShape ring{.slots = slots, .slot_bytes = 4096};
    for (int ranks = 2; ranks <= (slots > 2 ? std::min(most_ranks, 4) : most_ranks); ++ranks) {
      for (const StreamCase& c : stream_cases(ranks, ring, slots > 2 ? 1 : most_roots)) {
        if (slots > 2 && !c.has_slots()) {
          continue;
        }
        for (const std::int64_t count : kCounts) {
          function(c, Setting{.ring = ring, .count = count});
          ASSERT_FALSE(testing::Test::HasFailure()) << c.name << ", " << count << " elements";
        }
      }
    }
  }
}

// With one queue a device, and so with any number of them.
TEST(CallQueues, OfTwoCallsInARowEndWithOneQueue) {
  for_each_case(trials(8, 4), 8, [](const StreamCase& c, const Setting& setting) {
    const Status status = check_queues(issued({&c, &c}, setting), kOne, flag_name);
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

// What a graph keeps of their order is enough, too.
TEST(CallQueues, OfCapturedCallsEndInAnyOrderOfAGraph) {
  for_each_case(trials(8, 4), 2, [](const StreamCase& c, Setting setting) {
    setting.is_captured = true;
    const Status status = check_queues(issued({&c, &c}, setting), kOneAnyOrder, flag_name);
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

// Without the events of captured calls reductions, and rings of slots, rely on the order of issue.
TEST(CallQueues, OfOtherCallsMayNotEndInAnyOrder) {
  int ending = 0;
  int others = 0;
  for (const StreamCase& c : stream_cases(4, Setting{}.ring, 1)) {
    const bool ends_in_all =
        check_queues(issued({&c}, {.count = kCounts[1]}), kOneAnyOrder, flag_name).ok();
    const bool relies = c.has_slots() || is_reduction(c.plan.problem().collective);
    EXPECT_EQ(ends_in_all, !relies) << c.name;
    (ends_in_all ? ending : others) += 1;
  }
  EXPECT_GT(ending, 0);
  EXPECT_GT(others, 0);
}

// Calls of a driver that wait hold up nothing between processes, whatever they wait for. Between
// threads of one process they do, if they wait with its lock: where a kernel is launched next to
// waits, be it one that reduces or one that copies what stays.
TEST(CallQueues, OfProcessesEndWhateverHostsWaitFor) {
  for_each_case(trials(5, 3), 1, [](const StreamCase& c, const Setting& setting) {
    const Ranks ranks = issued({&c, &c}, setting);
    for (const HostModel::Waits waits :
         {HostModel::Waits::kForRoom, HostModel::Waits::kAtLaunch, HostModel::Waits::kAlways}) {
      const Status status =
          check_hosts(ranks, kOne, {.waits = waits, .depth = 1, .locks_process = true}, flag_name);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  });
}

TEST(CallQueues, OfThreadsMayNotEndWhereALaunchWaitsWithALock) {
  const HostModel locked{.waits = HostModel::Waits::kAtLaunch, .locks_process = true};
  const auto is_proved = [&](const StreamCase& c, bool has_copy_kernel) {
    Ranks ranks = issued({&c}, {.has_copy_kernel = has_copy_kernel});
    for (IssuedSteps& rank : ranks) {
      rank.process = 0;
    }
    return check_hosts(ranks, kOne, locked, flag_name).ok();
  };
  for (const StreamCase& c : stream_cases(4, Setting{}.ring, 1)) {
    const Collective collective = c.plan.problem().collective;
    EXPECT_EQ(is_proved(c, false), !is_reduction(collective)) << c.name;
    if (collective == Collective::kAllGather && c.programs.front().alone() != nullptr) {
      EXPECT_FALSE(is_proved(c, true)) << c.name;
    }
  }
}

TEST(CallQueues, OfDifferentCallsInARowEnd) {
  Random random(7);
  for (int ranks = 2; ranks <= trials(8, 3); ++ranks) {
    const std::vector<StreamCase> cases = stream_cases(ranks, Setting{}.ring, ranks);
    for (int i = 0; i < 20; ++i) {
      std::vector<const StreamCase*> calls;
      std::string names;
      for (int call = 0; call < 4; ++call) {
        calls.push_back(
            &cases[static_cast<std::size_t>(pick(random, static_cast<int>(cases.size())))]);
        names += calls.back()->name + "; ";
      }
      Setting setting{.count = kCounts[static_cast<std::size_t>(pick(random, 2))]};
      const Status in_order = check_queues(issued(calls, setting), kOne, flag_name);
      ASSERT_TRUE(in_order.ok()) << names << in_order.message();
      setting.is_captured = true;
      const Status captured = check_queues(issued(calls, setting), kOneAnyOrder, flag_name);
      ASSERT_TRUE(captured.ok()) << names << captured.message();
    }
  }
}

// A signal or a reset less is always refused. Some waits are implied by others.
TEST(CallQueues, RefuseListsThatLackAnything) {
  int waits = 0;
  int refused_waits = 0;
  for (const StreamCase& c : stream_cases(3, Setting{}.ring, 1)) {
    const Ranks whole = issued({&c}, {.count = 3'000});
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      for (std::size_t at = 0; at < whole[rank].steps.size(); ++at) {
        const Kind kind = whole[rank].steps[at].kind;
        if (kind != Kind::kSignal && kind != Kind::kReset && kind != Kind::kAwait) {
          continue;
        }
        Ranks mutant = whole;
        mutant[rank].steps.erase(mutant[rank].steps.begin() + static_cast<std::ptrdiff_t>(at));
        const bool is_refused = !check_queues(mutant, kOne, flag_name).ok();
        ASSERT_TRUE(is_refused || kind == Kind::kAwait)
            << c.name << ", rank " << rank << " without step " << at;
        waits += kind == Kind::kAwait ? 1 : 0;
        refused_waits += kind == Kind::kAwait && is_refused ? 1 : 0;
      }
    }
  }
  EXPECT_GT(refused_waits, waits * 4 / 5);
}

// Two steps in each other's place: what the check says is what happens. Each flag is used once, so
// that no wait ends by the signal of another one.
TEST(CallQueues, JudgeSwappedOperationsAsTheyRun) {
  Random random(11);
  int dead = 0;
  int alive = 0;
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (const StreamCase& c : stream_cases(ranks, Setting{}.ring, 1)) {
      const Ranks whole = issued({&c}, {.ring = {.slots = 16, .slot_bytes = 4096}});
      for (int i = 0; i < trials(40, 4); ++i) {
        Ranks mutant = whole;
        std::vector<StreamStep>& steps =
            mutant[static_cast<std::size_t>(pick(random, ranks))].steps;
        const auto one = static_cast<std::size_t>(pick(random, static_cast<int>(steps.size())));
        const std::size_t other =
            std::min(steps.size() - 1, one + 1 + static_cast<std::size_t>(pick(random, 12)));
        std::swap(steps[one], steps[other]);
        const Status status = check_queues(mutant, kOne, flag_name);
        const bool has_ended = ends(mutant, orders_of_issue(mutant));
        const bool is_circle = status.message().find("circle") != std::string::npos;
        ASSERT_TRUE(status.ok() ? has_ended : !is_circle || !has_ended)
            << c.name << ", steps " << one << " and " << other << ": " << status.message();
        (status.ok() ? alive : dead) += 1;
      }
    }
  }
  EXPECT_GT(dead, 50);
  EXPECT_GT(alive, 50);
}

}  // namespace
}  // namespace sennit::stream
