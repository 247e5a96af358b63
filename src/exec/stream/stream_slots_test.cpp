// Plans of a strand over NVLink and one through slots in host memory, at every share of the two.
#include "algo/algorithm.hpp"
#include "exec/stream/testing/fake_ranks.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace sennit::stream {
namespace {

constexpr std::size_t kPage = 4096;

struct Case {
  Collective collective = Collective::kAllGather;
  std::string_view direct = "direct";  // over NVLink; empty: nothing goes there
  std::string_view slots = "hub";
  int ranks = 4;
  int root = 0;
  int share = 50;  // percent, through slots
  std::int64_t count = 20001;
  bool in_place = false;
  host::RingShape ring{.slots = 3, .slot_bytes = kPage};
};

std::string describe(const Case& c) {
  return fmt::format("{}, {} % by {}, {} ranks, root {}, {} bytes, {} slots of {}{}",
                     name(c.collective),
                     c.share,
                     c.slots,
                     c.ranks,
                     c.root,
                     c.count,
                     c.ring.slots,
                     c.ring.slot_bytes,
                     c.in_place ? ", in place" : "");
}

std::byte content(int rank, std::int64_t at) {
  return static_cast<std::byte>((at * 7 + at / 251 + std::int64_t{37} * rank + 1) & 0xff);
}

Strand strand_of(const Case& c, std::string_view algorithm, PathKind path, Protocol protocol) {
  Schedule schedule = take(make_schedule(*take(find_algorithm(c.collective, algorithm)),
                                         {.ranks = c.ranks, .root = c.root}));
  return bind(std::make_shared<const Schedule>(std::move(schedule)),
              path,
              protocol,
              c.ring.slots,
              Engine::kStream);
}

Plan plan_of(const Case& c) {
  Plan plan;
  plan.strands = {strand_of(c, c.slots, PathKind::kHost, Protocol::kSlots)};
  if (!c.direct.empty()) {
    plan.strands.insert(plan.strands.begin(),
                        strand_of(c, c.direct, PathKind::kNvlink, Protocol::kDirectPut));
    plan.strands[0].share = 100 - c.share;
    plan.strands[1].share = c.share;
  }
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).status().message();
  return plan;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Host memory with a ring for each rank.
class RingMemory {
 public:
  RingMemory(const Case& c)
      : shape_(c.ring),
        ranks_(c.ranks),
        memory_(std::aligned_alloc(kPage, c.ring.bytes() * static_cast<std::size_t>(c.ranks))) {}

  // As the device of `cuda` sees them.
  [[nodiscard]] host::Rings map(FakeCuda& cuda) const {
    host::Rings rings{.shape = shape_, .bases = {}};
    for (int owner = 0; owner < ranks_; ++owner) {
      std::byte* const ring =
          static_cast<std::byte*>(memory_.get()) + static_cast<std::size_t>(owner) * shape_.bytes();
      rings.bases.push_back(static_cast<std::byte*>(take(cuda.map_host(ring, shape_.bytes()))));
    }
    return rings;
  }

 private:
  host::RingShape shape_;
  int ranks_;
  std::unique_ptr<void, Free> memory_;
};

// Ranks with rings of slots.
class RingRanks {
 public:
  RingRanks(const Case& c, bool one_queue)
      : c_(c),
        plan_(plan_of(c)),
        whole_(plan_.problem()),
        ranks_({.ranks = c.ranks, .one_queue = one_queue}),
        memory_(c) {
    whole_.cut = 1;  // a cut vector is one block for the buffers
    for (int rank = 0; rank < c.ranks; ++rank) {
      EXPECT_TRUE(ranks_[rank].engine->use_rings(memory_.map(ranks_[rank].cuda)).ok());
    }
    ranks_.prepare(whole_, c.count, c.in_place);
    for (int rank = 0; rank < c.ranks; ++rank) {
      fill(ranks_[rank], rank);
    }
  }

  FakeRanks& ranks() { return ranks_; }
  [[nodiscard]] PlanProgram program(int rank) const { return take(compile_plan(plan_, rank)); }
  [[nodiscard]] StreamCall call(const FakeRank& r) const {
    return {.input = r.input,
            .output = r.output,
            .peers = r.peers,
            .count = c_.count,
            .element_bytes = 1,
            .part_bytes = kPage};
  }

  void run(int calls) {
    ranks_.each([&](FakeRank& r, int rank) {
      const PlanProgram mine = program(rank);
      for (int i = 0; i < calls; ++i) {
        const Status status = r.engine->run(mine, call(r), r.stream);
        EXPECT_TRUE(status.ok()) << status.message();
      }
      EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
    });
  }

  void check() {
    SCOPED_TRACE(describe(c_));
    for (int rank = 0; rank < c_.ranks; ++rank) {
      const FakeRank& r = ranks_[rank];
      for (int b = 0; b < whole_.output_blocks(rank); ++b) {
        const auto from = whole_.expected(rank, b);
        for (std::int64_t i = 0; i < c_.count; ++i) {
          ASSERT_EQ(r.output[b * c_.count + i],
                    content(from.ranks.front(), from.index * c_.count + i))
              << "rank " << rank << ", block " << b << ", byte " << i;
        }
      }
    }
    ranks_.expect_at_rest();
  }

 private:
  void fill(const FakeRank& r, int rank) const {
    if (!c_.in_place) {
      const std::int64_t bytes = c_.count * whole_.output_blocks(rank);
      std::memset(r.output, 0xa5, static_cast<std::size_t>(bytes));
    }
    for (std::int64_t i = 0; i < c_.count * whole_.input_blocks(rank); ++i) {
      r.input[i] = content(rank, i);
    }
  }

  Case c_;
  Plan plan_;
  Problem whole_;
  FakeRanks ranks_;
  RingMemory memory_;
};

void run(const Case& c, int calls = 1, bool one_queue = false) {
  RingRanks ranks(c, one_queue);
  ranks.run(calls);
  ranks.check();
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {{},
                                           {.collective = Collective::kBroadcast, .ranks = 2},
                                           {.collective = Collective::kBroadcast, .direct = ""},
                                           {.collective = Collective::kAllToAll, .slots = "direct"},
                                           {.collective = Collective::kGather, .slots = "direct"},
                                           {.collective = Collective::kScatter, .slots = "direct"}};
  return kCases;
}

TEST(StreamSlots, MovesEveryByteAtEveryShare) {
  for (Case c : cases()) {
    for (const int share : {0, 6, 50, 100}) {
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{130}, std::int64_t{70001}}) {
        c.share = share;
        c.count = count;
        c.root = is_rooted(c.collective) ? c.ranks - 1 : 0;
        run(c);
        ASSERT_FALSE(testing::Test::HasFailure());
      }
    }
  }
}

TEST(StreamSlots, GoesRoundTheRingOverManyCalls) {
  for (Case c : cases()) {
    for (const int slots : {2, 3, host::kMaxSlots}) {
      c.share = 100;
      c.count = 100003;  // 25 parts of a block that is not cut
      c.ring.slots = slots;
      run(c, 3);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(StreamSlots, WorksInPlace) {
  for (Case c : cases()) {
    if (c.collective != Collective::kAllToAll) {
      c.in_place = true;
      c.root = is_rooted(c.collective) ? 1 : 0;
      run(c, 2);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(StreamSlots, JoinsAsManyRanksAsThereAre) {
  for (Case c : cases()) {
    for (const int ranks : {1, 2, 3, 8}) {
      if (ranks > 2 && c.collective == Collective::kBroadcast && !c.direct.empty()) {
        continue;  // not cut equally over both paths
      }
      c.ranks = ranks;
      run(c, 2);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// With two slots the least of them is enough; all the waits stand in one row.
TEST(StreamSlots, RunsWhereAllStreamsShareOneQueue) {
  for (Case c : cases()) {
    for (const int share : {50, 100}) {
      c.share = share;
      c.ring.slots = 2;
      c.count = 60001;
      c.ranks = c.ranks == 2 ? 2 : 6;
      c.root = is_rooted(c.collective) ? 1 : 0;
      run(c, 3, true);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(StreamSlots, SendsToOneRank) {
  run({.collective = Collective::kSendRecv, .slots = "direct", .ranks = 2, .count = 300001}, 3);
}

TEST(StreamSlots, IsReplayedFromGraphs) {
  const Case c{.collective = Collective::kBroadcast, .direct = "", .root = 2};
  RingRanks ranks(c, false);
  ranks.ranks().each([&](FakeRank& r, int rank) {
    const PlanProgram program = ranks.program(rank);
    StreamCall call = ranks.call(r);
    call.is_captured = true;
    r.cuda.begin_capture(r.stream);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(r.engine->run(program, call, r.stream).ok());
    }
    const FakeGraph graph = take(r.cuda.end_capture(r.stream));
    for (int replay = 0; replay < 10; ++replay) {
      graph.launch(r.stream);
    }
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  ranks.check();
}

// Two engines of each rank, at once, with words and rings of their own.
TEST(StreamSlots, KeepsCommunicatorsApart) {
  const Case c{.share = 100, .count = 50001};
  RingRanks ranks(c, false);
  const auto words = std::make_unique<RankWords[]>(kMaxRanks);
  const RingMemory rings(c);
  ranks.ranks().each([&](FakeRank& r, int rank) {
    auto* const mapped =
        static_cast<RankWords*>(take(r.cuda.map_host(words.get(), sizeof(RankWords) * kMaxRanks)));
    const auto other =
        take(StreamEngine::create(r.cuda, {mapped, mapped + 1, mapped + 2, mapped + 3}));
    EXPECT_TRUE(other->use_rings(rings.map(r.cuda)).ok());
    StreamCall second = ranks.call(r);
    second.output =
        static_cast<std::byte*>(take(r.cuda.allocate(static_cast<std::size_t>(c.count) * 4)));
    void* const stream = take(r.cuda.create_stream());
    const PlanProgram program = ranks.program(rank);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(r.engine->run(program, ranks.call(r), r.stream).ok());
      EXPECT_TRUE(other->run(program, second, stream).ok());
    }
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
    EXPECT_TRUE(r.cuda.synchronize(stream).ok());
    EXPECT_EQ(std::memcmp(second.output, r.output, static_cast<std::size_t>(c.count) * 4), 0);
  });
  ranks.check();
}

// A rank that never calls: the words end the waits of the other, which writes nothing but its own
// output and ring. (Of three, one would read what another one is writing.)
TEST(StreamSlots, WaitsEndWhenTheWordsAreReleased) {
  const Case c{.ranks = 2, .share = 100};
  RingRanks ranks(c, false);
  ranks.ranks().each([&](FakeRank& r, int rank) {
    if (rank == 1) {
      return;
    }
    EXPECT_TRUE(r.engine->run(ranks.program(rank), ranks.call(r), r.stream).ok());
    const std::jthread watcher([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ranks.ranks().words(rank).release_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  EXPECT_EQ(ranks.ranks()[0].cuda.faults(), "");
  const FakeRank& absent = ranks.ranks()[1];
  EXPECT_EQ(absent.output[0], std::byte{0xa5}) << "nobody writes into the memory of others";
}

TEST(StreamSlots, FailsAsTheDriverDoes) {
  for (const char* const call : {"walk_words", "record", "wait_for", "copy_async"}) {
    RingRanks ranks({.ranks = 1, .share = 100, .count = 100}, false);
    FakeRank& r = ranks.ranks()[0];
    r.cuda.fail(call);
    EXPECT_EQ(r.engine->run(ranks.program(0), ranks.call(r), r.stream).code(), Code::kSystemError)
        << call;
  }
}

TEST(StreamSlots, NeedsRings) {
  FakeRanks ranks({.ranks = 2});
  const PlanProgram program = take(compile_plan(plan_of({.ranks = 2}), 0));
  EXPECT_EQ(ranks[0].engine->run(program, StreamCall{.peers = {}}, ranks[0].stream).code(),
            Code::kInternalError);
}

TEST(PlanProgram, KnowsWhereOthersWriteOnARank) {
  const PlanProgram all = take(compile_plan(plan_of({.share = 100}), 0));
  EXPECT_TRUE(all.exposes_output()) << "strand 0 carries nothing, but its words are walked";
  EXPECT_FALSE(all.exposes_staging());
  EXPECT_EQ(all.alone(), nullptr);
  Plan alone = plan_of({.share = 100});
  alone.strands.erase(alone.strands.begin());
  EXPECT_FALSE(take(compile_plan(alone, 0)).exposes_output());
  const Plan broadcast = plan_of({.collective = Collective::kBroadcast, .ranks = 2});
  EXPECT_FALSE(take(compile_plan(broadcast, broadcast.problem().root)).exposes_output());
  EXPECT_TRUE(take(compile_plan(broadcast, broadcast.problem().root + 1)).exposes_output());
  EXPECT_FALSE(
      take(compile_plan(plan_of({.collective = Collective::kAllToAll, .slots = "direct"}), 0))
          .may_be_in_place());
}

TEST(PlanProgram, RefusesPathsThatStreamsDoNotRun) {
  Plan plan = plan_of({});
  plan.strands[1].channels[0].paths = {PathKind::kShm};
  EXPECT_EQ(compile_plan(plan, 0).status().code(), Code::kUnsupported);
  plan = plan_of({});
  plan.division = Division::kClaimed;
  EXPECT_EQ(compile_plan(plan, 0).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace sennit::stream
