#include "exec/stream/message_engine.hpp"

#include "algo/algorithm.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sennit::stream {
namespace {

constexpr std::int64_t kBytes = 5000;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

// Three ranks, which are processes as far as their memory goes, and the two roles of a message.
class MessageEngines : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  struct Rank {
    int rank = 0;
    std::unique_ptr<FakeCuda> cuda;
    std::unique_ptr<MessageEngine> engine;
    void* stream = nullptr;
    std::byte* memory = nullptr;  // sent from the first kBytes, received into those of each rank
    std::vector<std::byte*> of_peers;
  };

  // Afresh. The plans of messages that are put differ in their protocol alone.
  void make(bool one_queue = false) {
    ranks_.clear();
    roles_.clear();
    Schedule schedule = take(make_schedule(*take(find_algorithm(Collective::kSendRecv, "direct")),
                                           {.ranks = 2, .root = 0}));
    const Plan plan{.strands = {bind(std::make_shared<const Schedule>(std::move(schedule)),
                                     PathKind::kNvlink,
                                     Protocol::kDirectGet,
                                     /*slots=*/2,
                                     Engine::kStream)}};
    for (const int role : {0, 1}) {
      roles_.push_back(take(compile_plan(plan, role)));
    }
    words_ = std::make_unique<RankWords[]>(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(make_rank(rank, one_queue));
    }
    for (Rank& reader : ranks_) {
      for (const Rank& owner : ranks_) {
        reader.of_peers.push_back(static_cast<std::byte*>(take(
            reader.cuda->import_memory(take(owner.cuda->export_memory(owner.memory)).handle))));
      }
    }
  }

  Rank make_rank(int rank, bool one_queue) {
    Rank made;
    made.rank = rank;
    made.cuda =
        std::make_unique<FakeCuda>(FakeCuda::Options{.has_peers = false, .one_queue = one_queue});
    auto* const mapped = static_cast<RankWords*>(
        take(made.cuda->map_host(words_.get(), sizeof(RankWords) * kRanks)));
    std::vector<RankWords*> words;
    for (int peer = 0; peer < kRanks; ++peer) {
      words.push_back(mapped + peer);
    }
    made.engine = std::make_unique<MessageEngine>(*made.cuda, std::move(words), rank);
    EXPECT_TRUE(made.engine->open().ok());
    made.stream = take(made.cuda->create_stream());
    made.memory = static_cast<std::byte*>(take(made.cuda->allocate(kBytes * (kRanks + 1))));
    std::memset(made.memory, rank + 1, kBytes);
    return made;
  }

  [[nodiscard]] Message send_to(const Rank& rank, int peer, int slot = 0) const {
    return {.program = roles_.data(),
            .peer = peer,
            .slot = slot,
            .bytes = kBytes,
            .is_put = is_put_(rank.rank, peer),
            .input = rank.memory,
            .output = rank.of_peers[static_cast<std::size_t>(peer)] + (1 + rank.rank) * kBytes,
            .is_met = are_met_};
  }
  [[nodiscard]] Message recv_from(const Rank& rank, int peer, int slot = 0) const {
    return {.program = &roles_[1],
            .peer = peer,
            .slot = slot,
            .bytes = kBytes,
            .is_put = is_put_(peer, rank.rank),
            .input = rank.of_peers[static_cast<std::size_t>(peer)],
            .output = rank.memory + (1 + peer) * kBytes,
            .is_met = are_met_};
  }

  void expect_from(const Rank& rank, int peer) const {
    const std::vector<std::byte> expected(kBytes, static_cast<std::byte>(peer + 1));
    EXPECT_EQ(std::memcmp(rank.memory + (1 + peer) * kBytes, expected.data(), kBytes), 0)
        << "from " << peer;
  }

  // All ranks exchange messages with all others in one group.
  void put_in_exchange(int round, std::uint32_t partners) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Rank& r = ranks_[static_cast<std::size_t>(rank)];
      std::vector<Message> messages;
      for (const int peer : {(rank + 2) % kRanks, (rank + 1) % kRanks}) {
        messages.push_back(recv_from(r, peer, round));
        messages.back().group = {.number = static_cast<std::uint64_t>(round), .partners = partners};
        messages.push_back(send_to(r, peer, round));
        messages.back().group = messages.front().group;
      }
      ASSERT_TRUE(
          r.engine->run({.messages = messages, .partners = partners, .stream = r.stream}).ok());
    }
  }

  void finish_exchange() {
    for (int rank = 0; rank < kRanks; ++rank) {
      Rank& r = ranks_[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(r.cuda->synchronize(r.stream).ok());
      expect_from(r, (rank + 1) % kRanks);
      expect_from(r, (rank + 2) % kRanks);
    }
    expect_idle();
  }

  void expect_idle() {
    const RankWords fresh;
    for (int rank = 0; rank < kRanks; ++rank) {
      const RankWords& words = words_[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(words.message_ready == fresh.message_ready &&
                  words.message_done == fresh.message_done &&
                  words.message_admitted == fresh.message_admitted &&
                  words.message_arrived == fresh.message_arrived && words.running == kIdle)
          << "rank " << rank;
      EXPECT_EQ(ranks_[static_cast<std::size_t>(rank)].cuda->faults(), "");
    }
  }

  // Whether a message from one rank to another is put.
  std::function<bool(int, int)> is_put_ = [](int, int) { return false; };
  static bool always(int, int) { return true; }
  static bool upwards(int from, int to) { return from < to; }
  // Whether they also meet as if they were fetched.
  bool are_met_ = false;

  std::vector<PlanProgram> roles_;
  std::unique_ptr<RankWords[]> words_;
  std::vector<Rank> ranks_;
};

class MovedMessages : public MessageEngines, public ::testing::WithParamInterface<int> {
 protected:
  MovedMessages() {
    const std::function<bool(int, int)> which[] = {is_put_, always, upwards, always};
    is_put_ = which[GetParam()];
    are_met_ = GetParam() == 3;
  }
};
INSTANTIATE_TEST_SUITE_P(FetchedPutPutUpwardsAndMet, MovedMessages, ::testing::Range(0, 4));

// One thread puts in all groups of all ranks: nothing waits on the host.
TEST_P(MovedMessages, ExchangeInGroupsWithAndWithoutOneQueue) {
  for (const bool one_queue : {false, true}) {
    make(one_queue);
    for (int round = 0; round < 10; ++round) {
      put_in_exchange(round, 0);
    }
    finish_exchange();
  }
}

// All waits before the first copy, no events where all move the same.
TEST_P(MovedMessages, TakeFewCallsOfTheDriverForAnExchangeOfAll) {
  for (const bool one_queue : {false, true}) {
    make(one_queue);
    for (int round = 0; round < 10; ++round) {
      put_in_exchange(round, 0b111);
    }
    int copies = 0;
    for (const Rank& r : ranks_) {
      // Some of it put, some fetched or met.
      const bool is_mixed = (GetParam() == 2 && r.rank < 2) || GetParam() == 3;
      EXPECT_LE(r.cuda->calls("walk_words"), is_mixed ? 60 : 20);
      EXPECT_EQ(r.cuda->calls("record") + r.cuda->calls("wait_for"), is_mixed ? 70 : 0);
      copies += r.cuda->calls("copy_async");
    }
    EXPECT_EQ(copies, 60);
    finish_exchange();
  }
}

// To the ranks of an exchange a rank that has all of it in one group looks the same, whether a peer
// has, too, or not: of such a peer the second group begins after the first has ended.
TEST_P(MovedMessages, AreNotWaitedForAtOnceWhereAPeerHasThemInTwoGroups) {
  for (const bool one_queue : {false, true}) {
    make(one_queue);
    constexpr std::uint32_t kPartners = 0b11;
    std::vector<Message> at_once;
    for (const int i : {0, 1}) {
      const GroupId of_peer{.number = static_cast<std::uint64_t>(i), .partners = kPartners};
      at_once.push_back(send_to(ranks_[0], 1, i));
      at_once.back().group = of_peer;
      at_once.push_back(recv_from(ranks_[0], 1, i));
      at_once.back().group = of_peer;
      std::vector<Message> in_turn = {send_to(ranks_[1], 0, i), recv_from(ranks_[1], 0, i)};
      for (Message& message : in_turn) {
        message.group.partners = kPartners;
      }
      ASSERT_TRUE(
          ranks_[1]
              .engine->run({.messages = in_turn, .partners = kPartners, .stream = ranks_[1].stream})
              .ok());
    }
    ASSERT_TRUE(
        ranks_[0]
            .engine->run({.messages = at_once, .partners = kPartners, .stream = ranks_[0].stream})
            .ok());
    for (const int rank : {0, 1}) {
      const Rank& r = ranks_[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(r.cuda->synchronize(r.stream).ok());
      expect_from(r, 1 - rank);
    }
    expect_idle();
  }
}

// Two messages that the sender sends one after the other, not at once.
TEST_F(MessageEngines, WaitForASendersGroupsOneByOne) {
  make();
  Rank& sender = ranks_[0];
  Rank& reader = ranks_[1];
  std::vector<Message> both = {recv_from(reader, 0, 0), recv_from(reader, 0, 1)};
  both[0].group.number = 7;
  both[1].group.number = 8;
  ASSERT_TRUE(reader.engine->run({.messages = both, .stream = reader.stream}).ok());
  for (const int slot : {0, 1}) {
    const Message message = send_to(sender, 1, slot);
    ASSERT_TRUE(sender.engine->run({.messages = {&message, 1}, .stream = sender.stream}).ok());
  }
  EXPECT_TRUE(reader.cuda->synchronize(reader.stream).ok());
  EXPECT_TRUE(sender.cuda->synchronize(sender.stream).ok());
  expect_from(reader, 0);
  expect_idle();
}

// A group that receives from two ranks, of which the first sends only after a message from the
// second, and that one only when its own message has been taken.
TEST_P(MovedMessages, AMessageDoesNotHoldUpThoseOfOtherRanks) {
  make();
  Rank& r0 = ranks_[0];
  Rank& r1 = ranks_[1];
  Rank& r2 = ranks_[2];
  const std::vector<Message> both = {recv_from(r0, 1), recv_from(r0, 2)};
  ASSERT_TRUE(r0.engine->run({.messages = both, .stream = r0.stream}).ok());
  const Message received = recv_from(r1, 2);
  const Message first = send_to(r1, 0);
  ASSERT_TRUE(r1.engine->run({.messages = {&received, 1}, .stream = r1.stream}).ok());
  ASSERT_TRUE(r1.engine->run({.messages = {&first, 1}, .stream = r1.stream}).ok());
  const Message second = send_to(r2, 0);
  const Message hint = send_to(r2, 1);
  ASSERT_TRUE(r2.engine->run({.messages = {&second, 1}, .stream = r2.stream}).ok());
  ASSERT_TRUE(r2.engine->run({.messages = {&hint, 1}, .stream = r2.stream}).ok());
  EXPECT_TRUE(r0.cuda->synchronize(r0.stream).ok());
  EXPECT_TRUE(r1.cuda->synchronize(r1.stream).ok());
  EXPECT_TRUE(r2.cuda->synchronize(r2.stream).ok());
  expect_from(r0, 1);
  expect_from(r0, 2);
  expect_idle();
}

// A kernel that waits for a message of a later group of a peer, which waits for this group's
// message.
TEST_P(MovedMessages, MessagesComeThroughBesideAKernelThatWaitsForThem) {
  make();
  Rank& r0 = ranks_[0];
  Rank& r1 = ranks_[1];
  const MappedMemory gate = take(r0.cuda->allocate_mapped(64));
  auto* const word = static_cast<std::uint64_t*>(gate.host);
  const Message taken = recv_from(r0, 1);
  const auto kernel = [&] {
    const WordStep wait{WordStep::Kind::kAwait, word, 1};
    return r0.cuda->walk_words({&wait, 1}, r0.stream);
  };
  ASSERT_TRUE(
      r0.engine->run({.messages = {&taken, 1}, .launch = kernel, .stream = r0.stream}).ok());
  const Message sent = send_to(r1, 0);
  ASSERT_TRUE(r1.engine->run({.messages = {&sent, 1}, .stream = r1.stream}).ok());
  const WordStep open{WordStep::Kind::kStore, word, 1};
  ASSERT_TRUE(r1.cuda->walk_words({&open, 1}, r1.stream).ok());
  EXPECT_TRUE(r1.cuda->synchronize(r1.stream).ok());
  EXPECT_TRUE(r0.cuda->synchronize(r0.stream).ok());
  expect_from(r0, 1);
  expect_idle();
  EXPECT_TRUE(r0.cuda->release_mapped(gate).ok());
}

TEST_F(MessageEngines, TakeThreeCallsOfTheDriverForAnExchangeOfTwo) {
  make();
  for (int rank = 0; rank < 2; ++rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    const std::vector<Message> messages = {send_to(r, 1 - rank), recv_from(r, 1 - rank)};
    ASSERT_TRUE(r.engine->run({.messages = messages, .stream = r.stream}).ok());
    EXPECT_EQ(r.cuda->calls("walk_words"), 2);
    EXPECT_EQ(r.cuda->calls("copy_async"), 1);
    EXPECT_EQ(r.cuda->calls("record") + r.cuda->calls("wait_for"), 0);
  }
  for (int rank = 0; rank < 2; ++rank) {
    Rank& r = ranks_[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(r.cuda->synchronize(r.stream).ok());
    expect_from(r, 1 - rank);
  }
}

// From when both ends had begun, also where the receiver was there long before.
TEST_F(MessageEngines, TellTheTimeOfWhatIsPut) {
  is_put_ = always;
  are_met_ = true;
  for (const bool one_queue : {false, true}) {
    make(one_queue);
    const auto words = std::make_shared<FakeWordTimes>();
    for (const Rank& r : ranks_) {
      r.cuda->set_costs(
          {.copy_us = [](bool, std::size_t bytes) { return static_cast<double>(bytes); },
           .words = words});
    }
    Rank& late = ranks_[0];
    ASSERT_TRUE(late.cuda->copy_async(late.memory, late.memory, 777, late.stream).ok());
    Stopwatch watch(*ranks_[1].cuda);
    ASSERT_TRUE(watch.open().ok());
    watch.reset();
    for (const int rank : {1, 0}) {
      Rank& r = ranks_[static_cast<std::size_t>(rank)];
      std::vector<Message> messages = {send_to(r, 1 - rank), recv_from(r, 1 - rank)};
      messages[1].watch = rank == 1 ? &watch : nullptr;
      ASSERT_TRUE(r.engine->run({.messages = messages, .stream = r.stream}).ok());
    }
    for (const int rank : {0, 1}) {
      Rank& r = ranks_[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(r.cuda->synchronize(r.stream).ok());
      expect_from(r, 1 - rank);
    }
    EXPECT_EQ(watch.read().state, Stopwatch::Reading::State::kDone);
    EXPECT_EQ(watch.read().direct_us, kBytes);
    EXPECT_EQ(watch.read().host_us, 0);
    expect_idle();
  }
}

// A peer that never calls: the words end the wait.
TEST_P(MovedMessages, WaitsEndWhenTheWordsAreReleased) {
  make();
  Rank& r = ranks_[0];
  const std::vector<Message> messages = {send_to(r, 1), recv_from(r, 2)};
  ASSERT_TRUE(r.engine->run({.messages = messages, .stream = r.stream}).ok());
  const std::jthread watcher([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      words_[0].release_all();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(r.cuda->synchronize(r.stream).ok());
}

TEST_F(MessageEngines, FailAsTheDriverDoes) {
  for (const char* const call : {"walk_words", "copy_async", "record", "wait_for"}) {
    make();
    Rank& r = ranks_[0];
    const std::vector<Message> messages = {recv_from(r, 1), recv_from(r, 2)};
    r.cuda->fail(call);
    EXPECT_EQ(r.engine->run({.messages = messages, .stream = r.stream}).code(), Code::kSystemError)
        << call;
  }
  for (const char* const call : {"create_stream", "create_event"}) {
    FakeCuda cuda({});
    cuda.fail(call, 2);
    EXPECT_FALSE(MessageEngine(cuda, std::vector<RankWords*>(3), 0).open().ok()) << call;
    EXPECT_EQ(cuda.left_over(), 0) << call;
  }
}

// What was begun in other streams is still at work in the buffers.
TEST_F(MessageEngines, TheUsersStreamWaitsForWhatWasBegunBeforeAFailure) {
  make();
  Rank& reader = ranks_[0];
  reader.cuda->fail("copy_async", 2);
  const std::vector<Message> taken = {recv_from(reader, 1), recv_from(reader, 2)};
  EXPECT_EQ(reader.engine->run({.messages = taken, .stream = reader.stream}).code(),
            Code::kSystemError);
  std::uint64_t ended = 0;
  const WordStep mark{WordStep::Kind::kStore, &ended, 1};
  ASSERT_TRUE(reader.cuda->walk_words({&mark, 1}, reader.stream).ok());
  std::atomic_ref(words_[0].message_ready[2][0][0]).store(kFull);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::atomic_ref(ended).load(), 0) << "rank 1 has sent nothing yet";
  std::atomic_ref(words_[0].message_ready[1][0][0]).store(kFull);
  EXPECT_TRUE(reader.cuda->synchronize(reader.stream).ok());
  EXPECT_EQ(ended, 1);
  expect_from(reader, 1);
}

}  // namespace
}  // namespace sennit::stream
