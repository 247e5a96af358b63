#include "path/rail/greetings.hpp"

#include "path/rail/testing/rail_job.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace sennit::rail {
namespace {

constexpr std::array kRailsTo{0, 1, 0};
constexpr std::array kOneRail{0, 0};

struct Way {
  std::uint64_t seed = 1;
  bool ends_when_left = false;
};

class GreetingsOverFakes : public testing::TestWithParam<Way> {
 protected:
  FakeUcx ucx_{{.seed = GetParam().seed, .ends_when_left = GetParam().ends_when_left}};
};

TEST_P(GreetingsOverFakes, RanksGreetOverTheRailsOfBothAndMessagesFollow) {
  constexpr int kRanks = 3;
  Job job(ucx_, kRanks, 2);
  job.open_all();
  std::vector<Status> statuses(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] =
          exchange_greetings(*job.rings[rank], {.rails_to = kRailsTo, .timeout_s = 20});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Status& status : statuses) {
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // Ranks 0 and 2 share rail 0; both have two routes to rank 1.
  constexpr std::uint64_t kRoutes = 5;
  EXPECT_GE(ucx_.payload_bytes(), 2 * kRoutes);
  EXPECT_LE(ucx_.payload_bytes(), 4 * kRoutes) << "two greetings of each end at most";
  job.pass(0, 1, 0);
  for (const auto& rings : job.rings) {
    EXPECT_EQ(rings->dropped_frames() + rings->cards().strange_frames(), 0U);
  }
}

TEST_P(GreetingsOverFakes, WhoHasAnAnswerIsNotNeededByItsPeer) {
  Job job(ucx_, 2, 1);
  job.open_all();
  while (!job.rings[0]->greet(kOneRail).empty()) {
    job.rings[1]->greet(kOneRail);
    job.rings[0]->progress();
    job.rings[1]->progress();
  }
  for (int round = 0; round < 200 && !job.rings[1]->greet(kOneRail).empty(); ++round) {
    job.rings[1]->progress();
  }
  EXPECT_TRUE(job.rings[1]->greet(kOneRail).empty());
}

INSTANTIATE_TEST_SUITE_P(Ways,
                         GreetingsOverFakes,
                         testing::Values(Way{1, false},
                                         Way{2, false},
                                         Way{3, false},
                                         Way{4, true},
                                         Way{5, true},
                                         Way{6, true}));

TEST(Greetings, AGreetingThatComesBeforeTheRingsAreOpenIsKept) {
  FakeUcx ucx({.ends_when_left = true});
  Job job(ucx, 2, 1);
  job.open(0);
  EXPECT_EQ(job.rings[0]->greet(kOneRail).size(), 1U);
  job.settle();
  job.open(1);
  // It greets once, and that is the answer.
  for (int round = 0; round < 200; ++round) {
    job.rings[0]->greet(kOneRail);
    job.rings[1]->greet(kOneRail);
    job.settle();
  }
  EXPECT_TRUE(job.rings[0]->greet(kOneRail).empty());
  EXPECT_TRUE(job.rings[1]->greet(kOneRail).empty());
  EXPECT_EQ(ucx.messages(), 3U);
}

TEST(Greetings, ACardThatReachesNobodyIsNamedWithThePeer) {
  FakeUcx ucx({});
  Job job(ucx, 3, 2);
  job.open_all();
  ucx.cut(job.sets[1]->addresses()[1]);
  std::array<Status, 3> statuses;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] =
          exchange_greetings(*job.rings[rank], {.rails_to = kRailsTo, .timeout_s = 0.5});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::size_t rank : {0, 2}) {
    const Status& status = statuses[rank];
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), Code::kJoinTimeout);
    EXPECT_EQ(status.detail().blamed_ranks, std::vector<int>{1});
    EXPECT_EQ(status.message(), "no connection to rank 1 over rail/1 (rail1)");
    EXPECT_NE(status.detail().evidence.find("to rank 1: connection reset"), std::string::npos)
        << status.detail().evidence;
    EXPECT_NE(status.detail().next.find("let rail1 reach"), std::string::npos)
        << status.detail().next;
    EXPECT_NE(status.detail().next.find("SENNIT_RAILS"), std::string::npos);
  }
  EXPECT_EQ(statuses[1].detail().blamed_ranks, (std::vector<int>{0, 2}));
}

// As if the peer had closed it when it left an earlier communicator.
TEST(Greetings, AConnectionThatFailsMeanwhileIsMadeAnew) {
  for (const bool ends_when_left : {false, true}) {
    FakeUcx ucx({.ends_when_left = ends_when_left});
    Job job(ucx, 2, 1);
    job.open_all();
    EXPECT_EQ(job.rings[0]->greet(kOneRail).size(), 1U);
    job.sets[0]->card(0).close(0);  // and the greeting has not left
    Status status;
    std::thread peer([&] {
      status = exchange_greetings(*job.rings[1], {.rails_to = kOneRail, .timeout_s = 10});
    });
    const Status own = exchange_greetings(*job.rings[0], {.rails_to = kOneRail, .timeout_s = 10});
    peer.join();
    EXPECT_TRUE(own.ok()) << own.message();
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Greetings, EndsWhenItsCallerFindsAReason) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  const auto begin = std::chrono::steady_clock::now();
  const Status status =
      exchange_greetings(*job.rings[0], {.rails_to = kOneRail, .timeout_s = 60, .check = [begin] {
                                           return std::chrono::steady_clock::now() <
                                                          begin + std::chrono::milliseconds(50)
                                                      ? Status()
                                                      : fail(Code::kAborted, "given up");
                                         }});
  EXPECT_EQ(status.code(), Code::kAborted);
}

TEST(Greetings, RingsMayGoBeforeTheirGreetingsHaveLeft) {
  FakeUcx ucx({.ends_when_left = true});
  Job job(ucx, 2, 1);
  job.open_all();
  EXPECT_EQ(job.rings[0]->greet(kOneRail).size(), 1U);
  job.rings[0].reset();
  job.sets[0]->progress();
  EXPECT_EQ(ucx.messages(), 0U);
}

// The peer has introduced itself, and its card is closed.
void greet_in_vain(UcxDriver& driver) {
  const std::array cards{NetworkCard{.device = "lo"}};
  MirroredRings rings(*CardSet::open(driver, cards), 0, 2);
  const std::string gone = MirroredRings(*CardSet::open(driver, cards), 1, 2).introduction().text();
  ASSERT_TRUE(rings
                  .open(std::make_unique<PlainRings>(2, kGeometry),
                        kGeometry,
                        std::array{rings.introduction().text(), gone},
                        std::array{0, 1})
                  .ok());
  const Status status = exchange_greetings(rings, {.rails_to = kOneRail, .timeout_s = 0.5});
  EXPECT_EQ(status.code(), Code::kJoinTimeout);
  EXPECT_EQ(status.message(), "no connection to rank 1 over rail/0 (lo)");
  EXPECT_FALSE(status.detail().evidence.empty());
}

// The real UCX. What it holds on to for a peer that is gone would be in the way of later tests.
TEST(Greetings, APeerThatIsGoneIsNamedAfterTheTimeout) {
  ::setenv("UCX_MEM_EVENTS", "n", 1);  // it would replace functions that sanitizers have
  const Result<UcxDriver*> driver = ucx_driver();
  if (!driver.ok()) {
    GTEST_SKIP() << "ucx: " << driver.status().message();
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    greet_in_vain(**driver);
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sennit::rail
