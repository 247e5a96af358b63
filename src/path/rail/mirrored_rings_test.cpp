#include "path/rail/mirrored_rings.hpp"

#include "drivers/ucx/testing/fake_ucx.hpp"
#include "path/rail/testing/rail_job.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <thread>

namespace sennit::rail {
namespace {

class MirroredRingsOverFakes : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MirroredRingsOverFakes, EveryMessageArrivesOnceAndWhoReturnsOwesNothing) {
  constexpr int kRanks = 3;
  constexpr int kMessages = 150;
  FakeUcx ucx({.seed = GetParam(), .ends_when_left = GetParam() % 2 == 0});
  Job job(ucx, kRanks, 2);
  job.open_all();
  std::barrier all_done(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RingTraffic traffic(*job.rings[static_cast<std::size_t>(rank)],
                          *job.memories[static_cast<std::size_t>(rank)],
                          {.geometry = kGeometry,
                           .rank = rank,
                           .ranks = kRanks,
                           .rails = 2,
                           .messages = kMessages});
      EXPECT_EQ(traffic.run(), "") << "seed " << GetParam();
      // From here on this rank carries nothing, and the others have to come to their ends.
      all_done.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& rings : job.rings) {
    EXPECT_EQ(rings->dropped_frames(), 0U);
    EXPECT_EQ(rings->cards().strange_frames(), 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MirroredRingsOverFakes, testing::Range<std::uint64_t>(1, 6));

TEST(MirroredRings, ReturnedSlotsGoWithTheNextMessageToTheirWriter) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  job.pass(0, 1, 0);
  job.rings[1]->release(0, 0, 0, 0);
  EXPECT_TRUE(job.rings[1]->flush(everybody)) << "a call may end";
  job.rings[0]->progress();
  EXPECT_FALSE(job.is_returned(0, 1, 0));
  job.pass(1, 0, 0);
  EXPECT_TRUE(job.is_returned(0, 1, 0));
  EXPECT_EQ(ucx.payload_bytes(), 16U) << "of two messages";
}

TEST(MirroredRings, ARankThatWaitsReturnsItsSlots) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  job.pass(0, 1, 0);
  job.rings[1]->release(0, 0, 0, 0);
  job.settle();
  EXPECT_TRUE(job.is_returned(0, 1, 0));
}

TEST(MirroredRings, ARankThatReturnsOwesLessThanHalfOfTheSlots) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  for (std::uint64_t position = 0; position < kGeometry.slots / 2; ++position) {
    job.pass(0, 1, position);
    job.rings[1]->release(0, 0, 0, position);
  }
  while (!job.rings[1]->flush(everybody)) {
    job.sets[1]->progress();
  }
  while (!job.is_returned(0, 1, 1)) {
    ASSERT_TRUE(job.rings[0]->progress());
  }
  EXPECT_TRUE(job.is_returned(0, 1, 0));
}

// Where messages end when they have left.
TEST(MirroredRings, AMessageToAnotherNodeIsOneOfTheCard) {
  FakeUcx ucx({.ends_when_left = true});
  Job job(ucx, 2, 1);
  job.open_all();
  constexpr std::uint64_t kCalls = 10;
  for (std::uint64_t call = 0; call < kCalls; ++call) {
    job.pass(0, 1, call);
    job.pass(1, 0, call);
    job.rings[0]->release(1, 0, 0, call);
    job.rings[1]->release(0, 0, 0, call);
    EXPECT_TRUE(job.rings[0]->flush(everybody));
    EXPECT_TRUE(job.rings[1]->flush(everybody));
  }
  EXPECT_EQ(ucx.messages(), 2 * kCalls);
}

TEST(MirroredRings, AnEmptyMessageHasLeftWhenItEnds) {
  FakeUcx ucx({.ends_when_left = true});
  Job job(ucx, 2, 1);
  job.open_all();
  job.rings[0]->publish(
      1, 0, 0, {.position = 0, .word = channel::full_word(0, Job::kPrint), .bytes = 0});
  while (!job.rings[0]->is_sent(1, 0, 0) || !job.rings[0]->flush(everybody)) {
    job.rings[0]->progress();
  }
  job.rings[1]->progress();
  EXPECT_TRUE(job.is_full(1, 0, 0));
}

// It has closed its card after its last call, and has never sent anything here.
TEST(MirroredRings, WhatHasLeftBeforeThePeerClosedItsCardIsNotLost) {
  FakeUcx ucx({.ends_when_left = true});
  Job job(ucx, 2, 1);
  job.open_all();
  job.pass(0, 1, 0);
  ASSERT_TRUE(job.rings[0]->is_sent(1, 0, 0));
  ucx.cut(job.sets[1]->addresses().front());
  job.settle();
  EXPECT_TRUE(job.rings[0]->flush(everybody));
  EXPECT_FALSE(job.rings[0]->failure(everybody).ok());
  job.rings[0]->publish(
      1, 0, 0, {.position = 1, .word = channel::full_word(1, Job::kPrint), .bytes = 8});
  EXPECT_FALSE(job.rings[0]->flush(everybody));
}

TEST(MirroredRings, APeerThatHasLeftIsNotNeeded) {
  for (const bool ends_when_left : {false, true}) {
    FakeUcx ucx({.ends_when_left = ends_when_left});
    Job job(ucx, 2, 1);
    job.open_all();
    job.pass(1, 0, 0);
    job.rings[1]->say_bye();
    // From here on it carries nothing any more.
    for (int round = 0; round < 200; ++round) {
      job.rings[0]->progress();
    }
    job.lose_a_message(ucx);
    EXPECT_TRUE(job.rings[0]->failure(everybody).ok());
    EXPECT_TRUE(job.rings[0]->flush(everybody));
  }
}

TEST(MirroredRings, FramesThatComeBeforeTheRingsAreOpenAreKept) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open(0);
  std::memcpy(job.memories[0]->payload({.peer = 1, .outgoing = true, .port = 0}, 0, 5), "hello", 5);
  job.rings[0]->publish(1, 0, 0, {.position = 0, .word = channel::full_word(0, 77), .bytes = 5});
  job.settle();
  job.open(1);
  const RingName name{.peer = 0, .outgoing = false, .port = 0};
  EXPECT_TRUE(channel::is_full(job.memories[1]->full(name, 0), 0, 77));
  EXPECT_EQ(std::memcmp(job.memories[1]->payload(name, 0, 5), "hello", 5), 0);
}

// A peer that knows the address of a card, and of its token what `forge` leaves.
struct Stranger {
  Stranger(UcxDriver& driver, Job& job)
      : card(*driver.open({.device = "rail0"})),
        secret(job.rings[1]->introduction().secret),
        endpoint(*card->connect(job.sets[1]->addresses().front())) {}

  void send(Frame frame, std::span<const std::byte> payload) {
    MessageState state{};
    frame.bytes = frame.bytes != 0 ? frame.bytes : payload.size();
    card->send(endpoint, std::as_bytes(std::span(&frame, 1)), payload, state);
    while (!card->arm()) {
      card->progress();
    }
  }

  std::unique_ptr<UcxCard> card;
  Secret secret;
  int endpoint;
};

TEST(MirroredRings, FramesThatDoNotFitAreDroppedAndCounted) {
  FakeUcx ucx({.copied_bytes = 1 << 20});
  Job job(ucx, 2, 1);
  job.open_all();
  Stranger stranger(ucx, job);
  const std::uint64_t token = token_of(stranger.secret, 0, 0);
  const auto full = [&](std::uint64_t position) {
    return Frame{.token = token,
                 .kind = FrameKind::kFull,
                 .word = channel::full_word(position, 1),
                 .position = position};
  };
  const std::vector<std::byte> large(kGeometry.slot_bytes + 1);
  const auto before = job.memories[1]->bytes();
  std::uint64_t expected = 0;
  const auto is_dropped = [&] {
    job.settle();
    return job.rings[1]->dropped_frames() == ++expected;
  };
  Frame frame = full(0);
  frame.port = 2;
  stranger.send(frame, {});
  EXPECT_TRUE(is_dropped()) << "port";
  stranger.send(full(0), large);
  EXPECT_TRUE(is_dropped()) << "bytes";
  stranger.send(full(4), {});
  EXPECT_TRUE(is_dropped()) << "a slot that has not been returned";
  stranger.send(full(~std::uint64_t{0}), {});
  EXPECT_TRUE(is_dropped()) << "position";
  frame = full(0);
  frame.word = channel::full_word(1, 1);
  stranger.send(frame, {});
  EXPECT_TRUE(is_dropped()) << "a word of another position";
  frame = full(0);
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): what a stranger may send
  frame.kind = static_cast<FrameKind>(9);
  stranger.send(frame, {});
  EXPECT_TRUE(is_dropped()) << "kind";
  stranger.send({.token = token, .kind = FrameKind::kHello, .word = 2}, {});
  EXPECT_TRUE(is_dropped()) << "a greeting that says nothing known";
  const FreedSlot freed{.port = 0, .position = 0};
  stranger.send({.token = token, .kind = FrameKind::kFree, .position = 1},
                std::as_bytes(std::span(&freed, 1)));
  EXPECT_TRUE(is_dropped()) << "a slot that was not sent";
  stranger.send({.token = token, .kind = FrameKind::kFree, .position = 2},
                std::as_bytes(std::span(&freed, 1)));
  EXPECT_TRUE(is_dropped()) << "a number of slots that are not there";
  stranger.send({.token = token_of(stranger.secret, 1, 0), .word = 1, .position = 0}, {});
  EXPECT_TRUE(is_dropped()) << "of a rank of this node";
  EXPECT_EQ(job.sets[1]->strange_frames(), 0U);
  frame = full(0);
  frame.token ^= 1;
  stranger.send(frame, {});
  frame = full(0);
  frame.bytes = 7;
  stranger.send(frame, {});
  job.settle();
  EXPECT_EQ(job.sets[1]->strange_frames(), 2U) << "token, and bytes that are not there";
  EXPECT_EQ(job.memories[1]->bytes(), before);
}

TEST(MirroredRings, AMessageIsTakenOnce) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  Stranger stranger(ucx, job);
  const Frame frame{
      .token = token_of(stranger.secret, 0, 0), .word = channel::full_word(0, 1), .position = 0};
  stranger.send(frame, {});
  stranger.send(frame, {});
  job.settle();
  EXPECT_EQ(job.rings[1]->dropped_frames(), 1U);
}

TEST(MirroredRings, ACutRailNamesTheRailAndItsPeerAndHoldsNobodyUp) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  job.lose_a_message(ucx);
  const Status failure = job.rings[0]->failure(everybody);
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.detail().blamed_ranks, std::vector<int>{1});
  EXPECT_NE(failure.message().find("rail/0 (rail0) from rank 0 to rank 1"), std::string::npos)
      << failure.message();
  EXPECT_TRUE(job.rings[0]->is_sent(1, 0, 0));
  EXPECT_TRUE(job.rings[0]->flush(nobody));
  EXPECT_FALSE(job.rings[0]->flush(everybody));
  EXPECT_TRUE(job.rings[0]->failure(nobody).ok());
}

TEST(MirroredRings, OnesThatAreMadeAfterAFailureConnectAnew) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  job.lose_a_message(ucx);
  ASSERT_FALSE(job.rings[0]->failure(everybody).ok());
  MirroredRings later(job.sets[0], 0, 2);
  ASSERT_TRUE(later
                  .open(std::make_unique<PlainRings>(2, kGeometry),
                        kGeometry,
                        job.introductions(),
                        job.nodes())
                  .ok());
  later.publish(1, 0, 0, {.position = 0, .word = channel::full_word(0, 1), .bytes = 8});
  EXPECT_TRUE(later.failure(everybody).ok());
}

TEST(MirroredRings, RingsMayGoWhileMessagesAreOnTheirWay) {
  FakeUcx ucx({});
  Job job(ucx, 2, 1);
  job.open_all();
  job.rings[0]->publish(1, 0, 0, {.position = 0, .word = channel::full_word(0, 1), .bytes = 4096});
  EXPECT_FALSE(job.rings[0]->is_sent(1, 0, 0));
  job.rings[0].reset();
  job.sets[0]->progress();
}

// Also on one that does not talk to the other over cards: else it would wait for ranks that failed.
TEST(MirroredRings, EveryRankFindsTheOneWithOtherCards) {
  FakeUcx ucx({});
  const Job one(ucx, 4, 1);
  const Job two(ucx, 4, 2);
  std::vector<std::string> texts = one.introductions();
  texts[3] = two.introductions()[3];
  const std::vector<int> nodes{0, 0, 1, 1};
  for (int rank = 0; rank < 3; ++rank) {
    const Status status = one.rings[static_cast<std::size_t>(rank)]->open(
        std::make_unique<PlainRings>(4, kGeometry), kGeometry, texts, nodes);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("rank 3 has 2 network cards, rank 0 has 1"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("SENNIT_RAILS"), std::string::npos);
  }
}

TEST(Introduction, ComesBackAsItWasAndNoOtherTextDoes) {
  const Introduction introduction{
      .secret = {1, 2, 3}, .card_addresses = {std::string(300, 'a'), "c", "b"}, .nearest = {2, 0}};
  const std::string text = introduction.text();
  const auto parsed = Introduction::parse(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->secret, introduction.secret);
  EXPECT_EQ(parsed->card_addresses, introduction.card_addresses);
  EXPECT_EQ(parsed->nearest, introduction.nearest);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(Introduction::parse(std::string_view(text).substr(0, length))) << length;
  }
  EXPECT_FALSE(Introduction::parse(text + "x"));
  const Introduction of_no_card{.card_addresses = {"a", "b"}, .nearest = {2}};
  EXPECT_FALSE(Introduction::parse(of_no_card.text()));
}

TEST(MirroredRings, MessagesComeOverTheCardsNearestToTheirReaderInTurn) {
  FakeUcx ucx({});
  Job job(ucx, 3, 4);
  job.rings[1] = std::make_unique<MirroredRings>(job.sets[1], 1, 3, CardUse{.nearest = {2, 3}});
  job.rings[2] = std::make_unique<MirroredRings>(job.sets[2], 2, 3, CardUse{.nearest = {1}});
  job.open_all();
  for (const auto& rings : job.rings) {
    std::vector<int> rails;
    for (int reader = 0; reader < 3; ++reader) {
      for (int place = 0; place < 5; ++place) {
        rails.push_back(rings->rail_to(reader, place));
      }
    }
    EXPECT_EQ(rails, (std::vector{0, 1, 2, 3, 0, 2, 3, 2, 3, 2, 1, 1, 1, 1, 1}));
  }
}

TEST(Bundles, NeedCardsThatAllRanksNamedAndNotTooManyConnections) {
  const Introduction named{.card_addresses = {"a", "b"}, .are_named = true};
  const Introduction found{.card_addresses = {"a", "b"}};
  const Introduction one{.card_addresses = {"a"}, .are_named = true};
  EXPECT_EQ(why_no_bundles(std::vector(4, named)), "");
  EXPECT_EQ(why_no_bundles(std::vector{named, found}),
            "SENNIT_RAILS does not name the network cards on all ranks");
  EXPECT_EQ(why_no_bundles(std::vector(2, one)), "each node has one network card");
  EXPECT_EQ(why_no_bundles(std::vector(257, named)), "257 ranks would connect 2 cards each");
  EXPECT_TRUE(Introduction::parse(named.text())->are_named);
  EXPECT_FALSE(Introduction::parse(found.text())->are_named);
}

}  // namespace
}  // namespace sennit::rail
