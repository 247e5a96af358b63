// Messages whose shares follow the load and whose rest the sender's copy engines put.
#include "base/testing/trials.hpp"
#include "comm/device/testing/fake_shared_messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

namespace sennit::tests {
namespace {

// From each even rank to the next, which has posted when the sender asks, so that copy engines of
// the sender put all of it that goes straight.
class FakePutMessages : public FakeSharedMessages {
 protected:
  // What went through slots, as each end saw it.
  int put_one(const Rank& rank, std::byte* out, std::byte* in) {
    const bool is_sender = rank.rank % 2 == 0;
    const int peer = rank.rank ^ 1;
    const Calls calls =
        over({is_sender ? send(rank, peer, out) : recv(rank, peer, in)}, kDynamic, "copy_engines");
    if (is_sender) {
      await_post(rank, peer);
    }
    const int slots = work_of(rank, calls).copies - (is_sender ? 1 : 0);
    EXPECT_TRUE(is_sender || came_from(peer, in));
    meet();
    return slots;
  }

  // Of the last four messages.
  Slots put_many(const Rank& rank, int times) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    introduce_well(rank, out, in);
    Slots slots;
    for (int i = 0; i < times; ++i) {
      const int used = put_one(rank, out, in);
      if (i + 4 >= times) {
        slots = {.least = std::min(slots.least, used), .most = std::max(slots.most, used)};
      }
    }
    EXPECT_TRUE(rank.rank % 2 == 0 || rank.cuda->calls("elapsed_us") > 0);
    return slots;
  }
};

TEST_F(FakePutMessages, TakeNothingThroughAHostThatIsSlow) {
  set_costs({.direct = 1, .host = 100}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) { EXPECT_EQ(put_many(rank, 24).least, 0); });
}

TEST_F(FakePutMessages, TakeHalfThroughAHostThatIsAsFast) {
  set_costs({.direct = 1, .host = 1}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) { expect_half(put_many(rank, 34).most); });
}

TEST_F(FakePutMessages, ComeThroughWithOneQueueForAllStreams) {
  cuda_options_.one_queue = true;
  set_costs({.direct = 1, .host = 1}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) { put_many(rank, 10); });
}

// The sender knows nothing of that: its end meets all the same.
TEST_F(FakePutMessages, AreCapturedByTheirReceiversAlone) {
  set_costs({.direct = 1, .host = 1}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) {
    put_many(rank, 4);
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_well(rank, out, in);
    const int peer = rank.rank ^ 1;
    if (rank.rank % 2 == 0) {
      await_post(rank, peer);
      ASSERT_TRUE(post(rank, over({send(rank, peer, out)}, kDynamic)).ok());
      rank.finish();
      return;
    }
    const int asked = rank.cuda->calls("elapsed_us");
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(post(rank, over({recv(rank, peer, in)}, kDynamic)).ok());
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    graph.launch(rank.stream);
    rank.finish();
    EXPECT_TRUE(came_from(peer, in));
    EXPECT_EQ(rank.cuda->calls("elapsed_us"), asked);
  });
}

TEST_F(FakePutMessages, StayAtTheirShareWhereNoEventCanBeMade) {
  set_costs({.direct = 1, .host = 100}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) {
    rank.cuda->fail("create_timed_event", 2);
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    introduce_well(rank, out, in);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(put_one(rank, out, in), 4) << "message " << i;
    }
    EXPECT_EQ(rank.cuda->calls("elapsed_us"), 0);
  });
}

// Both kinds of messages that meet apart from what moves them.
TEST_F(FakePutMessages, AreTimedBesideMessagesOfKernels) {
  set_costs({.direct = 1, .host = 1}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    introduce_well(rank, out, in);
    const int peer = rank.rank ^ 1;
    const int other = rank.rank ^ 2;
    constexpr std::int64_t kCount = 200'001;
    Calls calls =
        over({send(rank, other, out + kLarge, kCount), recv(rank, other, in + kLarge, kCount)},
             kDynamic,
             "slots");
    calls.push_back(
        over({rank.rank % 2 == 0 ? send(rank, peer, out) : recv(rank, peer, in)}, kDynamic)
            .front());
    for (int i = 0; i < 10; ++i) {
      std::memset(in, 0, 2 * kLarge);
      if (rank.rank % 2 == 0) {
        await_post(rank, peer);
      }
      ASSERT_TRUE(post(rank, calls).ok());
      rank.finish();
      EXPECT_TRUE(rank.rank % 2 == 0 || came_from(peer, in));
      EXPECT_TRUE(holds(in + kLarge, contents(other, kCount, kLarge)));
      meet();
    }
    EXPECT_GT(rank.cuda->calls("elapsed_us"), 0);
  });
}

// Who moves which of them is up to the hosts' times.
TEST_F(FakeSharedMessages, FollowTheLoadBothWaysAtOnceFetchedOrPut) {
  set_costs({.direct = 1, .host = 1}, std::make_shared<FakeWordTimes>());
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    introduce_well(rank, out, in);
    const int partner = rank.rank ^ 1;
    const Calls calls = over({send(rank, partner, out), recv(rank, partner, in)}, kDynamic);
    for (int i = 0; i < trials(60, 20); ++i) {
      std::memset(in, 0, kLarge);
      ASSERT_TRUE(post(rank, calls).ok());
      rank.finish();
      ASSERT_TRUE(came_from(partner, in)) << "message " << i;
      meet();
    }
  });
}

}  // namespace
}  // namespace sennit::tests
