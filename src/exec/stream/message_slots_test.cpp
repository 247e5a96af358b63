// Sends and recvs that go through host memory, in part or wholly.
#include "algo/algorithm.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/lane_operations.hpp"
#include "exec/stream/message_engine.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace sennit::stream {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMemoryBytes = std::size_t{1} << 20;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

Strand strand_of(PathKind path, Protocol protocol, Engine engine, int share) {
  Schedule schedule = take(make_schedule(*take(find_algorithm(Collective::kSendRecv, "direct")),
                                         {.ranks = 2, .root = 0}));
  Strand strand = bind(
      std::make_shared<const Schedule>(std::move(schedule)), path, protocol, /*slots=*/2, engine);
  strand.share = share;
  return strand;
}

// `share` percent go through host memory.
Plan plan_of(int share, Protocol rest = Protocol::kDirectGet, Engine engine = Engine::kStream) {
  Plan plan;
  if (share < 100) {
    plan.strands.push_back(strand_of(PathKind::kNvlink, rest, engine, 100 - share));
  }
  if (share > 0) {
    plan.strands.push_back(strand_of(PathKind::kHost, Protocol::kSlots, Engine::kStream, share));
  }
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).status().message();
  return plan;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// A message from one rank to another. It lies at one place in the memory of both, and its bytes
// name its ends.
struct Letter {
  int from = 0;
  int to = 0;
  int slot = 0;
  std::int64_t bytes = 0;
  std::size_t at = 0;
  int first_slot = 0;
  std::uint64_t group = 0;  // of its sender
  int before = 0;           // as of Message, at its receiver

  [[nodiscard]] std::int64_t name() const { return (std::int64_t{from} * 3 + to) * 41 + slot; }
  [[nodiscard]] std::byte content(std::int64_t i) const {
    return static_cast<std::byte>((i * 7 + i / 251 + name() + 1) & 0xff);
  }
};

struct Rank {
  std::unique_ptr<FakeCuda> cuda;
  std::unique_ptr<MessageEngine> engine;
  void* stream = nullptr;
  std::byte* out = nullptr;
  std::byte* in = nullptr;
  std::array<const std::byte*, kRanks> peers{};  // what they send from
};

// Three ranks, which are processes as far as their memory goes, with a ring for each pair.
class SlotMessages : public ::testing::Test {
 protected:
  void make(int share, bool one_queue, int slots = 2) {
    shape_ = {.slots = slots, .slot_bytes = kPage};
    for (Rank& old : ranks_) {
      old.engine.reset();  // it gives streams back to the fake
      old = {};
    }
    const Plan plan = plan_of(share);
    roles_ = {take(compile_plan(plan, 0)), take(compile_plan(plan, 1))};
    rings_.reset(std::aligned_alloc(kPage, kRanks * kRanks * shape_.bytes()));
    words_ = std::make_unique<RankWords[]>(kRanks);
    used_ = {};
    letters_.clear();
    next_at_ = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_[static_cast<std::size_t>(rank)] = make_rank(rank, one_queue);
    }
    for (Rank& reader : ranks_) {
      for (std::size_t peer = 0; peer < kRanks; ++peer) {
        const Rank& owner = ranks_[peer];
        reader.peers[peer] = static_cast<const std::byte*>(
            take(reader.cuda->import_memory(take(owner.cuda->export_memory(owner.out)).handle)));
      }
    }
  }

  Rank make_rank(int rank, bool one_queue) {
    Rank made;
    made.cuda =
        std::make_unique<FakeCuda>(FakeCuda::Options{.has_peers = false, .one_queue = one_queue});
    auto* const mapped = static_cast<RankWords*>(
        take(made.cuda->map_host(words_.get(), sizeof(RankWords) * kRanks)));
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) {
        EXPECT_TRUE(made.cuda->map_host(ring(rank, peer), shape_.bytes()).ok());
        EXPECT_TRUE(made.cuda->map_host(ring(peer, rank), shape_.bytes()).ok());
      }
    }
    made.engine = std::make_unique<MessageEngine>(
        *made.cuda, std::vector<RankWords*>{mapped, mapped + 1, mapped + 2}, rank);
    EXPECT_TRUE(made.engine->open().ok());
    EXPECT_TRUE(made.engine->use_slots(shape_).ok());
    made.stream = take(made.cuda->create_stream());
    made.out = static_cast<std::byte*>(take(made.cuda->allocate(kMemoryBytes)));
    made.in = static_cast<std::byte*>(take(made.cuda->allocate(kMemoryBytes)));
    std::memset(made.in, 0xa5, kMemoryBytes);
    return made;
  }

  static std::size_t pair_of(int sender, int reader) {
    return static_cast<std::size_t>(sender) * kRanks + static_cast<std::size_t>(reader);
  }
  std::byte* ring(int sender, int reader) {
    return static_cast<std::byte*>(rings_.get()) + pair_of(sender, reader) * shape_.bytes();
  }
  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }

  // Letters of one rank to another are to be sent in the order in which they are written.
  Letter write(int from, int to, std::int64_t bytes) {
    const std::size_t pair = pair_of(from, to);
    Letter letter{.from = from,
                  .to = to,
                  .slot = sent_[pair]++ % kMaxMessages,
                  .bytes = bytes,
                  .at = next_at_,
                  .first_slot = static_cast<int>(used_[pair] % shape_.slots)};
    next_at_ += static_cast<std::size_t>(bytes);
    EXPECT_LE(next_at_, kMemoryBytes);
    used_[pair] += slots_for(roles_[0], bytes, shape_);
    for (std::int64_t i = 0; i < bytes; ++i) {
      rank(from).out[letter.at + static_cast<std::size_t>(i)] = letter.content(i);
    }
    letters_.push_back(letter);
    return letter;
  }

  Message end(const Letter& letter, bool is_send) {
    const Rank& me = rank(is_send ? letter.from : letter.to);
    return {
        .program = &roles_[is_send ? 0 : 1],
        .peer = is_send ? letter.to : letter.from,
        .slot = letter.slot,
        .bytes = letter.bytes,
        .input = (is_send ? me.out : me.peers[static_cast<std::size_t>(letter.from)]) + letter.at,
        .output = me.in + letter.at,
        .group = {.number = letter.group},
        .before = is_send ? 0 : letter.before,
        .ring = ring(letter.from, letter.to),
        .first_slot = letter.first_slot};
  }

  // What of these letters concerns the rank, as one group; captured where its stream captures.
  Status post(int r, const std::vector<Letter>& letters, std::uint32_t partners = 0) {
    std::vector<Message> messages;
    const bool is_captured = take(rank(r).cuda->is_capturing(rank(r).stream));
    for (const Letter& letter : letters) {
      if (letter.from == r || letter.to == r) {
        messages.push_back(end(letter, letter.from == r));
        messages.back().group.partners = partners;
      }
    }
    return rank(r).engine->run({.messages = messages,
                                .partners = partners,
                                .stream = rank(r).stream,
                                .is_captured = is_captured});
  }

  void finish() {
    for (const Rank& r : ranks_) {
      EXPECT_TRUE(r.cuda->synchronize(r.stream).ok());
      EXPECT_EQ(r.cuda->faults(), "");
    }
    for (const Letter& letter : letters_) {
      const std::byte* const came = rank(letter.to).in + letter.at;
      for (std::int64_t i = 0; i < letter.bytes; ++i) {
        ASSERT_EQ(came[i], letter.content(i)) << "byte " << i << " of " << letter.bytes << " from "
                                              << letter.from << " to " << letter.to;
      }
    }
    const RankWords fresh;
    for (int r = 0; r < kRanks; ++r) {
      const RankWords& words = words_[static_cast<std::size_t>(r)];
      EXPECT_TRUE(words.message_ready == fresh.message_ready &&
                  words.message_done == fresh.message_done &&
                  words.message_filled == fresh.message_filled &&
                  words.message_emptied == fresh.message_emptied && words.running == kIdle)
          << "rank " << r;
    }
  }

  // Every rank sends letters of several lengths to every other.
  std::vector<Letter> write_to_all() {
    std::vector<Letter> letters;
    for (const std::int64_t bytes : {1, 5000, 30001, 128}) {
      for (int from = 0; from < kRanks; ++from) {
        for (int to = 0; to < kRanks; ++to) {
          if (from != to) {
            letters.push_back(write(from, to, bytes));
          }
        }
      }
    }
    return letters;
  }

  host::RingShape shape_;
  std::vector<PlanProgram> roles_;
  std::unique_ptr<void, Free> rings_;
  std::unique_ptr<RankWords[]> words_;
  std::array<Rank, kRanks> ranks_;
  std::array<int, kRanks * kRanks> sent_{};
  std::array<std::int64_t, kRanks * kRanks> used_{};  // slots of each ring
  std::vector<Letter> letters_;
  std::size_t next_at_ = 0;
};

TEST(LaneOperations, HaveSeveralStreamsALaneWhereTheseAreFew) {
  EXPECT_EQ(LaneOperations::streams_per_lane(0, 7), 3);
  EXPECT_EQ(LaneOperations::streams_per_lane(1, 7), 3);
  EXPECT_EQ(LaneOperations::streams_per_lane(2, 7), 3);  // a rank of a ring
  EXPECT_EQ(LaneOperations::streams_per_lane(2, 5), 2);
  EXPECT_EQ(LaneOperations::streams_per_lane(3, 7), 2);
  EXPECT_EQ(LaneOperations::streams_per_lane(4, 7), 1);
  EXPECT_EQ(LaneOperations::streams_per_lane(30, 7), 1);
}

// One thread puts in all groups of all ranks, one rank after the other: nothing waits on the host.
TEST_F(SlotMessages, CrossInGroupsAtEveryShareWithAndWithoutOneQueue) {
  for (const bool one_queue : {false, true}) {
    for (const int share : {1, 30, 99, 100}) {
      for (const std::uint32_t partners : {0U, 0b111U}) {
        SCOPED_TRACE(fmt::format("{} %, one queue: {}, {}", share, one_queue, partners));
        make(share, one_queue, share == 30 ? 3 : 2);
        for (int round = 0; round < 3; ++round) {
          const std::vector<Letter> letters = write_to_all();
          for (int r = 0; r < kRanks; ++r) {
            ASSERT_TRUE(post(r, letters, partners).ok());
          }
        }
        finish();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// Two lanes have several streams each, in one queue as well.
TEST_F(SlotMessages, CrossBetweenTwoInStreamsOfSeveralKinds) {
  for (const bool one_queue : {false, true}) {
    for (const int slots : {2, 3, 5}) {
      for (const std::uint32_t partners : {0U, 0b11U}) {
        SCOPED_TRACE(fmt::format("one queue: {}, {} slots, {}", one_queue, slots, partners));
        make(/*share=*/60, one_queue, slots);
        for (int round = 0; round < 4; ++round) {
          const std::vector<Letter> letters = {write(0, 1, 60'000), write(1, 0, 30'000)};
          ASSERT_TRUE(post(0, letters, partners).ok());
          ASSERT_TRUE(post(1, letters, partners).ok());
        }
        finish();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_F(SlotMessages, MayBeSentAtOnceAndTakenOneByOneAndTheOtherWayAbout) {
  for (const int share : {40, 100}) {
    make(share, false);
    const std::vector<Letter> there = {write(0, 1, 50'000), write(0, 1, 20'000)};
    ASSERT_TRUE(post(0, there).ok());
    ASSERT_TRUE(post(1, {there[0]}).ok());
    ASSERT_TRUE(post(1, {there[1]}).ok());
    std::vector<Letter> back = {write(1, 0, 30'000), write(1, 0, 60'000)};
    back[1].group = 1;
    ASSERT_TRUE(post(0, back).ok());
    ASSERT_TRUE(post(1, {back[0]}).ok());
    ASSERT_TRUE(post(1, {back[1]}).ok());
    finish();
  }
}

// With one queue for all streams what waits for a later group of the other rank has to come behind
// all that the earlier ones need, straight or through slots.
TEST_F(SlotMessages, OfTwoRanksMayBeCutDifferentlyInOneQueue) {
  for (const int share : {40, 100}) {
    make(share, /*one_queue=*/true, /*slots=*/3);
    std::vector<Letter> there = {write(0, 1, 50'000), write(0, 1, 20'000)};
    there[1].group = 1;
    there[1].before = 1;
    ASSERT_TRUE(post(0, {there[0]}).ok());
    ASSERT_TRUE(post(0, {there[1]}).ok());
    ASSERT_TRUE(post(1, there).ok());

    const Letter question = write(0, 1, 60'000);
    Letter answer = write(1, 0, 40'000);
    answer.group = 1;
    answer.before = 1;
    ASSERT_TRUE(post(0, {question, answer}).ok());
    ASSERT_TRUE(post(1, {question}).ok());
    ASSERT_TRUE(post(1, {answer}).ok());
    finish();
  }
}

// A group that sends to two ranks, of which the first receives only after a message from the
// second, and that one only when its own message has come. Each message is longer than a ring.
TEST_F(SlotMessages, DoNotHoldUpThoseToOtherRanks) {
  make(100, false);
  const std::vector<Letter> letters = {write(0, 1, 100'000), write(0, 2, 100'000)};
  const Letter hint = write(2, 1, 100'000);
  ASSERT_TRUE(post(0, letters).ok());
  ASSERT_TRUE(post(1, {hint}).ok());
  ASSERT_TRUE(post(1, letters).ok());
  ASSERT_TRUE(post(2, letters).ok());
  ASSERT_TRUE(post(2, {hint}).ok());
  finish();
}

TEST_F(SlotMessages, AreReplayed) {
  make(50, false);
  const std::vector<Letter> first = write_to_all();
  const std::vector<Letter> second = write_to_all();
  std::vector<FakeGraph> graphs;
  for (int r = 0; r < kRanks; ++r) {
    rank(r).cuda->begin_capture(rank(r).stream);
    ASSERT_TRUE(post(r, first).ok());
    ASSERT_TRUE(post(r, second).ok());
    graphs.push_back(take(rank(r).cuda->end_capture(rank(r).stream)));
  }
  const std::vector<Letter> between = write_to_all();
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < kRanks; ++r) {
      graphs[static_cast<std::size_t>(r)].launch(rank(r).stream);
      ASSERT_TRUE(round != 1 || post(r, between).ok());
    }
  }
  finish();
}

constexpr double kFromHost = 2;  // us a byte; 1 from a device

void set_costs(FakeCuda& cuda) {
  cuda.set_costs({.copy_us = [](bool is_from_host, std::size_t bytes) {
    return static_cast<double>(bytes) * (is_from_host ? kFromHost : 1);
  }});
}

TEST_F(SlotMessages, ArriveWithATimeForEachStrand) {
  make(25, false);
  set_costs(*rank(1).cuda);
  Stopwatch watch(*rank(1).cuda);
  ASSERT_TRUE(watch.open().ok());
  watch.reset();
  const Letter letter = write(0, 1, 4 * 51'200);
  Message taken = end(letter, false);
  taken.watch = &watch;
  ASSERT_TRUE(rank(1).engine->run({.messages = {&taken, 1}, .stream = rank(1).stream}).ok());
  EXPECT_EQ(watch.read().state, Stopwatch::Reading::State::kUnderWay) << "nothing was sent";
  ASSERT_TRUE(post(0, {letter}).ok());
  finish();
  EXPECT_EQ(watch.read().state, Stopwatch::Reading::State::kDone);
  EXPECT_EQ(watch.read().direct_us, 3 * 51'200);
  EXPECT_EQ(watch.read().host_us, kFromHost * 51'200);
}

// In the order of a ring several are taken as one: none of them by itself.
TEST_F(SlotMessages, HaveNoTimesWhereAllExchangeThem) {
  make(25, false);
  set_costs(*rank(1).cuda);
  Stopwatch watch(*rank(1).cuda);
  ASSERT_TRUE(watch.open().ok());
  watch.reset();
  const std::vector<Letter> letters = write_to_all();
  std::vector<Message> messages;
  for (const Letter& letter : letters) {
    if (letter.from == 1 || letter.to == 1) {
      messages.push_back(end(letter, letter.from == 1));
      messages.back().group.partners = 0b111;
      messages.back().watch = letter.to == 1 ? &watch : nullptr;
    }
  }
  ASSERT_TRUE(post(0, letters, 0b111).ok());
  ASSERT_TRUE(rank(1)
                  .engine->run({.messages = messages, .partners = 0b111, .stream = rank(1).stream})
                  .ok());
  ASSERT_TRUE(post(2, letters, 0b111).ok());
  finish();
  EXPECT_EQ(watch.read().state, Stopwatch::Reading::State::kVoid);
}

// Kernels have three quarters of it: their time counts from when the sender has begun, which may be
// later than the receiver's kernel.
TEST_F(SlotMessages, ThatKernelsShareMeetToBeTimed) {
  for (const int share : {0, 25}) {
    make(25, false);
    const Plan plan = plan_of(share, Protocol::kLl128, Engine::kSm);
    roles_ = {take(compile_plan(plan, 0)), take(compile_plan(plan, 1))};
    set_costs(*rank(1).cuda);
    Stopwatch watch(*rank(1).cuda);
    ASSERT_TRUE(watch.open().ok());
    watch.reset();
    const Letter letter = write(0, 1, 4 * 51'200);
    Message taken = end(letter, false);
    taken.watch = &watch;
    taken.is_met = true;
    const auto kernel = [&] {
      return rank(1).cuda->copy_async(rank(1).in + letter.at,
                                      rank(1).peers[0] + letter.at,
                                      static_cast<std::size_t>(letter.bytes * (100 - share) / 100),
                                      rank(1).stream);
    };
    ASSERT_TRUE(
        rank(1)
            .engine->run({.messages = {&taken, 1}, .launch = kernel, .stream = rank(1).stream})
            .ok());
    Message sent = end(letter, true);
    sent.is_met = true;
    const auto nothing = [] { return Status(); };
    ASSERT_TRUE(
        rank(0)
            .engine->run({.messages = {&sent, 1}, .launch = nothing, .stream = rank(0).stream})
            .ok());
    finish();
    EXPECT_EQ(watch.read().state, Stopwatch::Reading::State::kDone);
    EXPECT_EQ(watch.read().direct_us, (100 - share) * 2048);
    EXPECT_EQ(watch.read().host_us, kFromHost * share * 2048);
  }
}

// A peer that never calls: the words end the wait.
TEST_F(SlotMessages, WaitsEndWhenTheWordsAreReleased) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "tsan: what a call that was given up reads in rings is undefined";
#endif
  make(100, false);
  ASSERT_TRUE(post(0, {write(0, 1, 50'000), write(2, 0, 50'000)}).ok());
  const std::jthread watcher([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      words_[0].release_all();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(rank(0).cuda->synchronize(rank(0).stream).ok());
}

TEST_F(SlotMessages, FailAsTheDriverDoes) {
  for (const char* const call : {"walk_words", "copy_async", "record", "wait_for"}) {
    make(50, false);
    rank(0).cuda->fail(call);
    EXPECT_EQ(post(0, {write(1, 0, 50'000)}).code(), Code::kSystemError) << call;
    words_[0].release_all();  // streams end that wait already
  }
}

// What kernels carry comes first in the message, and what is behind it goes through slots.
TEST(MessagePlans, LeaveTheStrandOfKernelsToThem) {
  const Plan plan = plan_of(25, Protocol::kLl128, Engine::kSm);
  const PlanProgram sender = take(compile_plan(plan, 0));
  ASSERT_TRUE(sender.of_kernels.has_value());
  const ElementRange theirs = sender.of_kernels->of(102'400, 1);
  EXPECT_EQ(theirs.begin, 0);
  EXPECT_EQ(theirs.length, 76'800);
  ASSERT_EQ(sender.strands.size(), 1);
  const Message message{.program = &sender, .bytes = 102'400};
  const ByteRange ours = message.range_of(sender.strands.front(), input_block(0));
  EXPECT_EQ(ours.begin, 76'800);
  EXPECT_EQ(ours.length, 25'600);
}

}  // namespace
}  // namespace sennit::stream
