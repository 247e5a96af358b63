// Sends and recvs whose shares through host memory follow the load.
#include "base/testing/trials.hpp"
#include "comm/device/testing/fake_shared_messages.hpp"
#include "exec/stream/message_shares.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace sennit::tests {
namespace {

constexpr std::int64_t kShort = 1000;
constexpr std::size_t kClass = 10;  // of these

TEST(MessageShares, TakeATrialOnceAndNoShareThatThereIsNoPlanFor) {
  FakeCuda cuda({});
  MessageShares shares(cuda);
  const auto line = std::make_unique<MessageLine>();
  EXPECT_EQ(shares.next(*line, kShort, 6, true).share, 6) << "no advice yet";
  constexpr std::uint64_t kTrialOf40BesideBase8 = 1 | 2 | 8U << 8 | 40U << 16;
  line->shares[kClass] = kTrialOf40BesideBase8 | std::uint64_t{1} << 32;
  EXPECT_EQ(shares.next(*line, kShort, 6, false).share, 8) << "it could not be measured";
  EXPECT_EQ(shares.next(*line, kShort, 6, true).share, 40);
  EXPECT_EQ(shares.next(*line, kShort, 6, true).share, 8);
  line->shares[kClass] = kTrialOf40BesideBase8 | std::uint64_t{2} << 32;
  EXPECT_EQ(shares.next(*line, kShort, 6, true).share, 40);
  EXPECT_EQ(shares.next(*line, 2 * kShort, 6, true).share, 6) << "of another size";
  line->shares[kClass] = ~std::uint64_t{0};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(shares.next(*line, kShort, 6, true).share, DynamicShare::kMost);
  }
}

TEST(MessageShares, TimeFewMessagesWhileNothingGoesThroughTheHost) {
  constexpr std::uint64_t kNoneAsBase = 1;
  constexpr std::uint64_t kTrialOfFour = kNoneAsBase | 2 | std::uint64_t{4} << 16;
  FakeCuda cuda({});
  MessageShares shares(cuda);
  const auto line = std::make_unique<MessageLine>();
  const auto timed_of = [&](int messages) {
    int timed = 0;
    for (int i = 0; i < messages; ++i) {
      const MessageShares::Next next = shares.next(*line, kShort, 6, true);
      EXPECT_EQ(next.share, 0);
      timed += next.is_timed ? 1 : 0;
    }
    return timed;
  };
  EXPECT_TRUE(shares.next(*line, kShort, 6, true).is_timed) << "no advice yet";
  line->shares[kClass].store(kNoneAsBase);
  EXPECT_EQ(timed_of(3 * DynamicShare::kIdleMessages), 3);
  int timed = 0;
  for (int i = 0; i < 2 * DynamicShare::kIdleMessages; ++i) {
    EXPECT_FALSE(shares.next(*line, kShort, 6, false).is_timed);
    timed += shares.next(*line, kShort, 6, true).is_timed ? 1 : 0;
  }
  EXPECT_EQ(timed, 2) << "others between them do not count";
  line->shares[kClass].store(kTrialOfFour | std::uint64_t{1} << 32);
  const MessageShares::Next trial = shares.next(*line, kShort, 6, true);
  EXPECT_EQ(trial.share, 4);
  EXPECT_TRUE(trial.is_timed);
}

// The first message asks for the ring; then the sender takes what it begins with.
TEST_F(FakeSharedMessages, BeginWithAShareAndBringTheRightBytes) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const Calls calls = over(around(rank, out, in), kDynamic, kFetched);
    EXPECT_EQ(work_of(rank, calls).copies, 1 + 2 * 4) << "6 percent";
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeSharedMessages, TakeNothingThroughAHostThatIsSlow) {
  set_costs({.direct = 1, .host = 100});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const Calls calls = over(around(rank, out, in), kDynamic, kFetched);
    repeat(rank, calls, 20);
    EXPECT_EQ(slots_of(rank, calls, 1).least, 0);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeSharedMessages, TakeHalfThroughAHostThatIsAsFast) {
  for (const char* const protocol : {kFetched, "ll128"}) {
    set_costs({.direct = 1, .host = 1});
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank, kRanks);
      std::byte* const in = incoming(rank, kRanks);
      introduce_paths(rank, out, in);
      const Calls calls = over(around(rank, out, in), kDynamic, protocol);
      repeat(rank, calls, 30);
      const Slots slots = slots_of(rank, calls, protocol == kFetched ? 1 : 0);
      expect_half(slots.most);
    });
  }
}

// Both strands are measured where kernels have the rest, also of a message that they carry alone.
TEST_F(FakeSharedMessages, TakeNothingThroughASlowHostBesideKernels) {
  set_costs({.direct = 1, .host = 100});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const Calls calls = over(around(rank, out, in), kDynamic, "ll128");
    repeat(rank, calls, 20);
    EXPECT_EQ(slots_of(rank, calls, 0).least, 0);
    const int asked = rank.cuda->calls("elapsed_us");
    repeat(rank, calls, 2 * DynamicShare::kIdleMessages);
    EXPECT_GT(rank.cuda->calls("elapsed_us"), asked) << "measured without a share";
  });
}

TEST_F(FakeSharedMessages, FollowTheLoadBothWaysAtOnce) {
  set_costs({.direct = 1, .host = 1});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const int partner = rank.rank ^ 1;
    const Calls calls =
        over({send(rank, partner, out), recv(rank, partner, in)}, kDynamic, kFetched);
    repeat(rank, calls, 30);
    expect_half(slots_of(rank, calls, 1).most);
    EXPECT_TRUE(came_from(partner, in));
  });
}

TEST_F(FakeSharedMessages, RequestedAtOneEndOrBothByCopyEnginesOrKernels) {
  set_costs({.direct = 1, .host = 2});
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([&](Rank& rank) {
      rank.cuda->run_kernels(fake_pairs_kernel);
      constexpr std::int64_t kBytes = 200'001;
      std::byte* const out = outgoing(rank) + 1;
      std::byte* const in = incoming(rank) + 1;
      for (const char* const protocol : {"direct_get", "ll", "slots", "direct_put"}) {
        for (const auto& [there, here] : {std::pair(kDynamic, "nvlink+host:30"),
                                          std::pair("nvlink+host:30", kDynamic),
                                          std::pair(kDynamic, kDynamic)}) {
          Calls calls = over({send(rank, next_of(rank, kRanks), out, kBytes)}, there, protocol);
          calls.push_back(
              over({recv(rank, previous_of(rank, kRanks), in, kBytes)}, here, protocol).front());
          for (int round = 0; round < trials(20, 8); ++round) {
            std::memset(in, 0, kBytes);
            ASSERT_TRUE(post(rank, calls).ok());
            rank.finish();
            ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kBytes, 1)))
                << there << " and " << here << " by " << protocol << ", round " << round;
            meet();
          }
        }
      }
    });
  }
}

// They would measure each other.
TEST_F(FakeSharedMessages, AreNotMeasuredInWindows) {
  set_costs({.direct = 1, .host = 100});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    for (int round = 0; round < 10; ++round) {
      std::memset(in, 0, static_cast<std::size_t>(kLarge * kRanks));
      ASSERT_TRUE(post(rank, over(crossing(rank, out, in), kDynamic, kFetched)).ok());
      rank.finish();
      check_crossed(rank, in);
      meet();
    }
    EXPECT_EQ(rank.cuda->calls("elapsed_us"), 0);
    EXPECT_EQ(rank.cuda->calls("create_timed_event"), 0);
  });
}

// Where a receiver takes at once what its sender sends one after the other, too.
TEST_F(FakeSharedMessages, AreNotMeasuredWhereOneEndHasSeveralInItsGroup) {
  set_costs({.direct = 1, .host = 1});
  run([&](Rank& rank) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    for (const char* const protocol : {"direct_get", "ll"}) {
      for (int round = 0; round < 3; ++round) {
        std::memset(in, 0, 2 * kLarge);
        Calls calls;
        for (int i = 0; i < 2; ++i) {
          if (rank.rank % 2 == 0) {
            ASSERT_TRUE(
                post(rank, over({send(rank, rank.rank + 1, out + i * kLarge)}, kDynamic, protocol))
                    .ok());
          } else {
            calls.push_back(recv(rank, rank.rank - 1, in + i * kLarge));
          }
        }
        if (!calls.empty()) {
          ASSERT_TRUE(post(rank, over(calls, kDynamic, protocol)).ok());
        }
        rank.finish();
        for (int i = 0; i < 2 && rank.rank % 2 == 1; ++i) {
          ASSERT_TRUE(came_from(rank.rank - 1, in + i * kLarge, i)) << protocol;
        }
        meet();
      }
    }
    EXPECT_EQ(rank.cuda->calls("elapsed_us"), 0);
  });
}

// One peer of a graph could hold up another.
TEST_F(FakeSharedMessages, AreCapturedWithoutAShareAmongMoreThanTwoRanks) {
  set_costs({.direct = 1, .host = 1});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const Calls calls = over(around(rank, out, in), kDynamic, kFetched);
    repeat(rank, calls, 30);
    const int asked = rank.cuda->calls("elapsed_us");
    const int recorded = rank.cuda->calls("create_timed_event");
    for (const char* const protocol : {kFetched, "ll128"}) {
      rank.cuda->begin_capture(rank.stream);
      const int copied = rank.cuda->calls("copy_async");
      ASSERT_TRUE(post(rank, over(calls, kDynamic, protocol)).ok());
      EXPECT_EQ(rank.cuda->calls("copy_async") - copied, protocol == kFetched ? 1 : 0);
      const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
      for (int i = 0; i < 3; ++i) {
        std::memset(in, 0, kLarge);
        graph.launch(rank.stream);
        rank.finish();
        EXPECT_TRUE(protocol != kFetched || came_from(previous_of(rank, kRanks), in));
        meet();
      }
    }
    EXPECT_EQ(rank.cuda->calls("elapsed_us"), asked);
    EXPECT_EQ(rank.cuda->calls("create_timed_event"), recorded);
  });
}

// A sender and a receiver that are ahead of the streams have more under way than there are
// stopwatches.
TEST_F(FakeSharedMessages, NeverWaitForAMeasurement) {
  set_costs({.direct = 1, .host = 1});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const Calls calls = over(around(rank, out, in), kDynamic, kFetched);
    const Gate gate(rank);
    gate.close(rank.stream);
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(post(rank, calls).ok());
    }
    meet();
    gate.open();
    rank.finish();
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
    meet();
    repeat(rank, calls, 30);
    expect_half(slots_of(rank, calls, 1).most);
  });
}

TEST_F(FakeSharedMessages, StayAtTheirShareWhereNoEventCanBeMade) {
  set_costs({.direct = 1, .host = 100});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    rank.cuda->fail("create_timed_event", 2);
    const Calls calls = over(around(rank, out, in), kDynamic, kFetched);
    repeat(rank, calls, 20);
    EXPECT_EQ(slots_of(rank, calls, 1).most, 4);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

TEST_F(FakeSharedMessages, FollowTheLoadByTheSettingButCollectivesDoNot) {
  options_.dynamic_share = true;
  set_costs({.direct = 1, .host = 1});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const Calls calls = requested(around(rank, out, in), kFetched);
    repeat(rank, calls, 30);
    expect_half(slots_of(rank, calls, 1).most);
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    check_gathered(rank);
    Operation request = all_gather(rank);
    request.request.path = kDynamic;
    EXPECT_EQ(rank.call(request).code(), Code::kUnsupported);
  });
}

TEST_F(FakeSharedMessages, GiveBackAllThatTheyTook) {
  set_costs({.direct = 1, .host = 1});
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    repeat(rank, over(around(rank, out, in), kDynamic, kFetched), 5);
    EXPECT_GT(rank.cuda->calls("create_timed_event"), 0);
    expect_nothing_left(rank, {out, in});
  });
}

}  // namespace
}  // namespace sennit::tests
