// Groups of sends and recvs come to their end, as far as that can be promised: proved by the queue
// check for random programs. docs/decisions/0043-streams-that-share-queues.md has the table.
#include "base/testing/trials.hpp"
#include "exec/stream/testing/message_traffic.hpp"
#include "verify/queues.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sennit::stream {
namespace {

using How = Sending::How;
using Kind = StreamStep::Kind;
using Ranks = std::vector<IssuedSteps>;

constexpr QueueModel kOwn{.queues = Queues::kOwn};
constexpr QueueModel kOne{.queues = Queues::kOne};
constexpr QueueModel kOneAnyOrder{.queues = Queues::kOne, .order = QueueOrder::kAny};

// What messages of a program are like; some of all kinds that are allowed.
struct Mix {
  bool puts = true;
  bool kernels = true;  // messages, or what does not go through the host
  bool host_shares = true;
  bool fetched_shares = true;
  bool timed = true;
};
constexpr Mix kAll{};
constexpr Mix kCaptured{.timed = false};  // in a graph nothing is timed

void restrict_to(const Mix& mix, Sending& sending) {
  if (!mix.kernels) {
    sending.rest_by_kernels = false;
    sending.how = sending.how == How::kKernels ? How::kFetched : sending.how;
  }
  if (!mix.host_shares) {
    sending.host_share = 0;
    sending.rest_by_kernels = false;
  }
  if (!mix.puts && sending.how == How::kPut) {
    sending.how = How::kFetched;
  }
  if (!mix.fetched_shares && sending.how == How::kFetched) {
    sending.host_share = 0;
    sending.rest_by_kernels = false;
  }
  sending.is_timed = sending.is_timed && mix.timed;
}

struct Programs {
  int ranks = 2;
  Mix mix{};
  bool are_groups_alike = true;  // else each rank cuts its messages where it likes
  bool are_captured = false;
  int slots = 2;
};

class MessageQueues : public ::testing::Test {
 protected:
  Ranks program(const Programs& kind) {
    MessageTraffic traffic(kind.ranks, {.slots = kind.slots, .slot_bytes = 4096});
    for (int part = 0; part < 3; ++part) {
      const int count = 4 + static_cast<int>(random_() % 12);
      std::vector<Sending> sendings = random_() % 3 == 0
                                          ? random_exchange(random_, kind.ranks)
                                          : random_sendings(random_, kind.ranks, count);
      for (Sending& sending : sendings) {
        restrict_to(kind.mix, sending);
      }
      traffic.post(
          sendings,
          kind.are_groups_alike ? no_cuts(kind.ranks) : random_cuts(random_, kind.ranks, count));
    }
    return traffic.issued(kind.are_captured);
  }

  void expect_to_end(const Programs& kind, const QueueModel& model) {
    for (int i = 0; i < trials(80, 8); ++i) {
      const Status status = check_queues(program(kind), model, message_flag_name);
      ASSERT_TRUE(status.ok()) << kind.ranks << " ranks, program " << i << ": " << status.message();
    }
  }

  // Of 40 programs, how many need more queues, or another order.
  int refused(const Programs& kind, const QueueModel& model) {
    int refused = 0;
    for (int i = 0; i < 40; ++i) {
      refused += check_queues(program(kind), model, message_flag_name).ok() ? 0 : 1;
    }
    return refused;
  }

  std::mt19937 random_{1};
};

// However each rank cuts its messages into groups: these wait for each other only as they must.
TEST_F(MessageQueues, EndWhereEachStreamHasAQueue) {
  for (int ranks = 2; ranks <= trials(6, 4); ++ranks) {
    expect_to_end({.ranks = ranks, .are_groups_alike = false}, kOwn);
  }
}

TEST_F(MessageQueues, EndWithOneQueueWhereGroupsAreAlike) {
  for (int ranks = 2; ranks <= trials(6, 4); ++ranks) {
    for (const int slots : {2, 3, 4}) {
      expect_to_end({.ranks = ranks, .slots = slots}, kOne);
    }
  }
}

// What the library chooses by itself: only what is put has a share through host memory.
TEST_F(MessageQueues, OfTwoRanksEndWithOneQueueHoweverTheyAreCut) {
  for (const int slots : {2, 3, 4}) {
    expect_to_end({.mix = {.fetched_shares = false}, .are_groups_alike = false, .slots = slots},
                  kOne);
  }
}

// The sender of what is fetched does not know the groups of its receiver; and of three ranks no
// order of a queue suits all.
TEST_F(MessageQueues, MayNotEndWithOneQueueWhereNoOrderSuitsAll) {
  EXPECT_GT(refused({.mix = {.puts = false, .kernels = false}, .are_groups_alike = false}, kOne),
            5);
  EXPECT_GT(
      refused(
          {.ranks = 3, .mix = {.kernels = false, .host_shares = false}, .are_groups_alike = false},
          kOne),
      0);
}

// A replay may put what its streams hold into one queue in any order that its events leave open.
TEST_F(MessageQueues, OfCapturedGroupsEndInAnyOrderOfAGraph) {
  for (int ranks = 2; ranks <= 3; ++ranks) {
    for (const int slots : {2, 3, 4}) {
      expect_to_end({.ranks = ranks, .mix = kCaptured, .are_captured = true, .slots = slots},
                    kOneAnyOrder);
    }
  }
}

// Without the events of captured groups slots rely on the order of issue, which a graph forgets.
TEST_F(MessageQueues, OfOtherGroupsMayNotEndInAnyOrder) {
  EXPECT_GT(refused({.mix = {.kernels = false, .timed = false}}, kOneAnyOrder), 30);
}

// Calls of a driver that wait hold up nothing between processes. Between threads they do if they
// wait with a lock of the process: where a kernel is launched next to waits, and nowhere else.
TEST_F(MessageQueues, OfThreadsMayNotEndWhereALaunchWaitsWithALock) {
  const HostModel locked{.waits = HostModel::Waits::kAtLaunch, .locks_process = true};
  const auto is_proved = [&](const Mix& mix, bool are_threads) {
    Ranks ranks = program({.mix = mix});
    for (IssuedSteps& rank : ranks) {
      rank.process = are_threads ? 0 : rank.process;
    }
    return check_hosts(ranks, kOne, locked, message_flag_name).ok();
  };
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(is_proved(kAll, /*are_threads=*/false));
    ASSERT_TRUE(is_proved({.kernels = false}, /*are_threads=*/true));
    refused += is_proved(kAll, /*are_threads=*/true) ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
}

// A signal or a reset less is always refused.
TEST_F(MessageQueues, RefuseGroupsThatLackASignalOrAReset) {
  for (int i = 0; i < trials(10, 2); ++i) {
    const Ranks whole = program({.ranks = 3});
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      for (std::size_t at = 0; at < whole[rank].steps.size(); at += 7) {
        const Kind kind = whole[rank].steps[at].kind;
        if (kind == Kind::kSignal || kind == Kind::kReset) {
          Ranks mutant = whole;
          mutant[rank].steps.erase(mutant[rank].steps.begin() + static_cast<std::ptrdiff_t>(at));
          ASSERT_FALSE(check_queues(mutant, kOne, message_flag_name).ok())
              << "rank " << rank << " without step " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sennit::stream
