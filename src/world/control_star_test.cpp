// What ranks learn of ranks of other nodes while they wait. Nodes are virtual ones of this machine.
#include "world/control_star.hpp"

#include "base/seconds.hpp"
#include "world/nodes/nodes.hpp"
#include "world/rendezvous/testing/rendezvous_fixture.hpp"
#include "world/watch.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace sennit {
namespace {

constexpr int kRanks = 4;
constexpr const char* kNodes = "aabb";

World::Layout layout() {
  World::Layout layout;
  layout.rings = {.ranks = kRanks, .slots = 2, .slot_bytes = 1024};
  return layout;
}

// A rank with its world, and the star where it is the lowest of its node.
struct Rank {
  explicit Rank(Membership membership) : world(std::move(membership), layout()) {
    if (const auto links = world.take_links()) {
      star = std::make_unique<ControlStar>(world, links);
    }
  }

  World world;
  std::unique_ptr<ControlStar> star;
};

class ControlStarTest : public RendezvousTest {
 protected:
  [[nodiscard]] std::unique_ptr<Rank> make_rank(int rank) const {
    JoinOptions options = some_options();
    options.segment_bytes = World::segment_bytes(layout());
    options.node = std::string(1, kNodes[rank]);
    Result<Membership> joined =
        join_world({.rank = rank, .size = kRanks, .key = key_, .root = "127.0.0.1"}, options);
    return joined.ok() ? std::make_unique<Rank>(std::move(joined).value()) : nullptr;
  }
  // All ranks as threads; each is destroyed by the thread that made it, as programs do.
  void run_ranks(const std::function<void(Rank&)>& body) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([this, rank, &body] {
        const std::unique_ptr<Rank> made = make_rank(rank);
        ASSERT_NE(made, nullptr);
        body(*made);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  // `seconds` at most, asking as a rank that waits does.
  template <typename Predicate>
  static bool comes_true(World& world, double seconds, const Predicate& predicate) {
    const auto end = Clock::now() + clock_span(seconds);
    while (!predicate()) {
      if (Clock::now() > end) {
        return false;
      }
      world.ask_nodes();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
};

CallWords words_of_count(std::uint64_t count) {
  CallWords words;
  words.count = count;
  words.plan_hash = 7;
  return words;
}

// Of the first call, in which all ranks are to be.
CallView view_of_first(std::uint64_t count) {
  CallView view;
  view.sequence = 1;
  view.words = words_of_count(count);
  return view;
}

TEST_F(ControlStarTest, LinesOfOtherNodesAreBroughtUpToDate) {
  run_ranks([](Rank& rank) {
    const auto own = static_cast<std::uint64_t>(rank.world.rank());
    for (std::uint64_t call = 1; call <= 20; ++call) {
      rank.world.my_line().enter(call, words_of_count(100 * own + call));
      rank.world.my_line().leave(call);
    }
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_TRUE(comes_true(rank.world,
                             kGenerousSeconds,
                             [&] {
                               CallWords seen;
                               return rank.world.line(peer).left.load() == 20 &&
                                      rank.world.line(peer).read(20, seen) &&
                                      seen == words_of_count(
                                                  100 * static_cast<std::uint64_t>(peer) + 20);
                             }))
          << "rank " << peer << " as seen by rank " << own;
    }
  });
}

TEST_F(ControlStarTest, ADifferentCallOnAnotherNodeIsFoundByAll) {
  run_ranks([](Rank& rank) {
    const std::uint64_t count = rank.world.rank() == 3 ? 5 : 4;
    rank.world.my_line().enter(1, words_of_count(count));
    std::optional<Verdict> verdict;
    EXPECT_TRUE(comes_true(rank.world, 1.0 + kGenerousSeconds, [&] {
      verdict = find_failure(rank.world, view_of_first(count), Depth::kLinesAndProcesses);
      return verdict.has_value();
    }));
    if (verdict) {
      EXPECT_EQ(verdict->code, Code::kMismatch);
      EXPECT_EQ(verdict->blamed_ranks, std::vector{3}) << verdict->evidence;
    }
    // Nobody leaves before all have seen it.
    rank.world.my_line().leave(1);
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_TRUE(comes_true(
          rank.world, kGenerousSeconds, [&] { return rank.world.line(peer).left.load() == 1; }));
    }
  });
}

TEST_F(ControlStarTest, AnAbortOnOneNodeIsAnAlarmOnAll) {
  run_ranks([](Rank& rank) {
    if (rank.world.rank() == 3) {
      rank.world.my_line().fail(Code::kAborted, -1);
      rank.world.sound_alarm();
    }
    const auto end = Clock::now() + clock_span(kGenerousSeconds);
    while (rank.world.alarms() == 0 && Clock::now() < end) {  // without asking
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(rank.world.alarms(), 0U);
    std::optional<Verdict> verdict =
        find_failure(rank.world, view_of_first(1), Depth::kLinesAndProcesses);
    if (rank.world.rank() != 3) {
      ASSERT_TRUE(verdict);
      EXPECT_EQ(verdict->code, Code::kAborted);
      EXPECT_EQ(verdict->blamed_ranks, std::vector{3}) << verdict->evidence;
    }
    // So that none is gone before all have looked.
    rank.world.my_line().left.store(9);
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_TRUE(comes_true(
          rank.world, kGenerousSeconds, [&] { return rank.world.line(peer).left.load() == 9; }));
    }
  });
}

TEST_F(ControlStarTest, RanksThatLeaveOrderlyAreNotDead) {
  run_ranks([](Rank& rank) {
    if (rank.world.rank() != 2) {
      return;
    }
    EXPECT_TRUE(comes_true(rank.world, 0.3, [&] { return !rank.world.peers().dead().empty(); }) ==
                false);
  });
}

// One rank in this process, the others as children that wait until they are ended.
class ControlStarProcesses : public ControlStarTest {
 protected:
  void start(int own) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t child = rank == own ? 0 : fork();
      if (rank != own && child == 0) {
        const std::unique_ptr<Rank> made = make_rank(rank);
        while (made != nullptr && made->world.line(own).left.load() == 0) {
          made->world.ask_nodes();
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        _exit(made != nullptr ? 0 : 1);
      }
      children_.push_back(child);
    }
    rank_ = make_rank(own);
    ASSERT_NE(rank_, nullptr);
    // All have come so far that their lines are seen.
    for (int peer = 0; peer < kRanks; ++peer) {
      ASSERT_TRUE(comes_true(world(), kGenerousSeconds, [&] {
        return world().line(peer).state.load() == RankState::kActive;
      })) << peer;
    }
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
      }
    }
    rank_.reset();
  }
  void signal(int rank, int number) const {
    kill(children_[static_cast<std::size_t>(rank)], number);
  }
  [[nodiscard]] World& world() const { return rank_->world; }
  void expect_dead(int victim) const {
    EXPECT_TRUE(
        comes_true(world(), 2.0, [&] { return world().peers().dead() == std::vector{victim}; }))
        << "rank " << victim;
    const auto verdict = find_failure(world(), view_of_first(1), Depth::kLinesAndProcesses);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->code, Code::kRankFailed);
    EXPECT_EQ(verdict->blamed_ranks, std::vector{victim});
    EXPECT_NE(verdict->evidence.find(
                  fmt::format("pid {}) died", children_[static_cast<std::size_t>(victim)])),
              std::string::npos)
        << verdict->evidence;
  }

  std::vector<pid_t> children_;
  std::unique_ptr<Rank> rank_;
};

// Rank 0 sees another node's; rank 3, which is no lowest rank, sees rank 0 and those of its own.
TEST_F(ControlStarProcesses, AKilledRankOfAnotherNodeIsNamedInTwoSeconds) {
  struct Case {
    int own;
    int victim;
  };
  for (const Case& one : {Case{0, 3}, Case{0, 2}, Case{3, 0}, Case{3, 1}, Case{2, 1}, Case{1, 3}}) {
    SCOPED_TRACE(fmt::format("rank {} is killed, rank {} looks", one.victim, one.own));
    start(one.own);
    signal(one.victim, SIGKILL);
    expect_dead(one.victim);
    TearDown();
    children_.clear();
    key_ += '+';
  }
}

TEST_F(ControlStarProcesses, AStoppedRankOfAnotherNodeIsSeenAsStoppedUntilItGoesOn) {
  start(1);
  for (const int victim : {3, 2}) {  // the second is the lowest of its node: it cannot answer
    signal(victim, SIGSTOP);
    EXPECT_TRUE(comes_true(world(), 5.0, [&] { return world().peers().is_stopped(victim); }))
        << victim;
    EXPECT_TRUE(world().peers().dead().empty());
    signal(victim, SIGCONT);
    EXPECT_TRUE(comes_true(world(), 5.0, [&] { return !world().peers().is_stopped(victim); }))
        << victim;
  }
}

TEST_F(ControlStarProcesses, AStoppedRankZeroIsSeenAsStopped) {
  start(3);
  signal(0, SIGSTOP);
  EXPECT_TRUE(comes_true(world(), 5.0, [&] { return world().peers().is_stopped(0); }));
  EXPECT_TRUE(world().peers().dead().empty());
  signal(0, SIGCONT);
  EXPECT_TRUE(comes_true(world(), 5.0, [&] { return !world().peers().is_stopped(0); }));
}

}  // namespace
}  // namespace sennit
