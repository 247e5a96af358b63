#include "exec/stream/stream_engine.hpp"

#include "algo/algorithm.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/copies.hpp"
#include "exec/stream/testing/fake_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace sennit::stream {
namespace {

// Names rank and place.
std::byte content(int rank, std::int64_t at) {
  return static_cast<std::byte>((at * 7 + at / 251 + std::int64_t{37} * rank + 1) & 0xff);
}

struct Case {
  Collective collective = Collective::kAllGather;
  std::string_view algorithm = "direct";
  int ranks = 4;
  int root = 0;
  std::int64_t count = 1000;
  bool in_place = false;
  std::int64_t part_bytes = 4096;
};

std::string describe(const Case& c) {
  return fmt::format("{}/{} of {} ranks, root {}, {} bytes{}",
                     name(c.collective),
                     c.algorithm,
                     c.ranks,
                     c.root,
                     c.count,
                     c.in_place ? ", in place" : "");
}

// Buffers of the size that the call needs, filled, and mapped into all other ranks.
void prepare(FakeRanks& ranks, const Case& c, const Problem& problem) {
  ranks.prepare(problem, c.count, c.in_place);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const FakeRank& r = ranks[rank];
    if (!c.in_place) {
      std::memset(r.output, 0xa5, static_cast<std::size_t>(c.count * problem.output_blocks(rank)));
    }
    for (std::int64_t i = 0; i < c.count * problem.input_blocks(rank); ++i) {
      r.input[i] = content(rank, i);
    }
  }
}

void check(FakeRanks& ranks, const Case& c, const Problem& problem) {
  SCOPED_TRACE(describe(c));
  for (int rank = 0; rank < c.ranks; ++rank) {
    const FakeRank& r = ranks[rank];
    for (int b = 0; b < problem.output_blocks(rank); ++b) {
      const auto from = problem.expected(rank, b);
      for (std::int64_t i = 0; i < c.count; ++i) {
        ASSERT_EQ(r.output[b * c.count + i], content(from.ranks.front(), from.index * c.count + i))
            << "rank " << rank << ", block " << b << ", byte " << i;
      }
    }
  }
  ranks.expect_at_rest();
}

Schedule schedule_of(const Case& c) {
  return take(make_schedule(*take(find_algorithm(c.collective, c.algorithm)),
                            {.ranks = c.ranks, .root = c.root}));
}

StreamCall call_of(const FakeRank& r, const Case& c) {
  return {.input = r.input,
          .output = r.output,
          .peers = r.peers,
          .count = c.count,
          .element_bytes = 1,
          .part_bytes = c.part_bytes};
}

void run(const Case& c, int calls = 1, bool one_queue = false) {
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks({.ranks = c.ranks, .one_queue = one_queue});
  // A cut vector is one block for the buffers.
  Problem whole = schedule.problem;
  whole.cut = 1;
  prepare(ranks, c, whole);
  ranks.each([&](FakeRank& r, int rank) {
    const StreamProgram program = take(compile_stream(schedule, rank));
    for (int i = 0; i < calls; ++i) {
      const Status status = r.engine->run(program, call_of(r, c), r.stream);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  check(ranks, c, whole);
}

// What is in place where a schedule allows it.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {.collective = Collective::kAllGather},
      {.collective = Collective::kBroadcast},
      {.collective = Collective::kAllToAll},
      {.collective = Collective::kAllToAll, .algorithm = "pairwise"},
      {.collective = Collective::kGather},
      {.collective = Collective::kScatter}};
  return kCases;
}

void run_every_root_and_place(Case c) {
  for (c.root = 0; c.root < (is_rooted(c.collective) ? c.ranks : 1); ++c.root) {
    for (const bool in_place : {false, true}) {
      c.in_place = in_place;
      if (!in_place || take(compile_stream(schedule_of(c), 0)).may_be_in_place) {
        run(c);
        ASSERT_FALSE(testing::Test::HasFailure());
      }
    }
  }
}

TEST(StreamEngine, MovesEveryByteWhereItBelongs) {
  for (Case c : cases()) {
    for (const int ranks : {1, 2, 3, 4}) {
      c.ranks = ranks;
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{4099}, std::int64_t{70001}}) {
        c.count = count;
        ASSERT_NO_FATAL_FAILURE(run_every_root_and_place(c));
      }
    }
  }
}

TEST(StreamEngine, TakesTurnsOverManyCallsOfEightRanks) {
  for (Case c : cases()) {
    c.ranks = 8;
    c.count = 20001;
    c.root = is_rooted(c.collective) ? 5 : 0;
    run(c, 6);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(StreamEngine, RunsWhereAllStreamsShareOneQueue) {
  for (Case c : cases()) {
    c.count = 50000;
    c.root = is_rooted(c.collective) ? 1 : 0;
    run(c, 3, true);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// A block that stays where it is leaves copy engines to those that go.
TEST(StreamEngine, CopiesItsOwnBlockByAKernelIfThereIsOne) {
  static const auto kKernel = [](const CopiesCall& call) {
    ASSERT_EQ(call.count, 1);
    const CopiesCall::Copy& copy = call.copies.front();
    std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
  };
  const Case c{.collective = Collective::kAllGather, .count = 16 * 1001};
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks({.ranks = c.ranks});
  prepare(ranks, c, schedule.problem);
  ranks.each([&](FakeRank& r, int rank) {
    r.cuda.run_kernels([](const void* kernel, const void* parameters) {
      EXPECT_EQ(kernel, &kKernel);
      return [call = *static_cast<const CopiesCall*>(parameters)] { kKernel(call); };
    });
    StreamCall call = call_of(r, c);
    call.copy = &kKernel;
    EXPECT_TRUE(r.engine->run(take(compile_stream(schedule, rank)), call, r.stream).ok());
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
    EXPECT_EQ(r.cuda.calls("launch"), 1);
  });
  check(ranks, c, schedule.problem);
}

TEST(StreamEngine, SendsToOneRank) {
  for (const std::int64_t count : {1, 5000, 300001}) {
    run({.collective = Collective::kSendRecv, .ranks = 2, .count = count}, 3);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(StreamEngine, IsReplayedFromGraphs) {
  const Case c{.collective = Collective::kBroadcast, .root = 2, .count = 30001};
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks({.ranks = c.ranks});
  Problem whole = schedule.problem;
  whole.cut = 1;
  prepare(ranks, c, whole);
  ranks.each([&](FakeRank& r, int rank) {
    const StreamProgram program = take(compile_stream(schedule, rank));
    StreamCall call = call_of(r, c);
    call.is_captured = true;
    r.cuda.begin_capture(r.stream);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(r.engine->run(program, call, r.stream).ok());
    }
    const FakeGraph graph = take(r.cuda.end_capture(r.stream));
    for (int replay = 0; replay < 20; ++replay) {
      graph.launch(r.stream);
    }
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  check(ranks, c, whole);
}

// A rank that never calls: the words end the waits of the others, whose outputs are then undefined.
TEST(StreamEngine, WaitsEndWhenTheWordsAreReleased) {
  const Case c{.collective = Collective::kAllGather, .ranks = 3, .count = 9000};
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks({.ranks = c.ranks});
  prepare(ranks, c, schedule.problem);
  ranks.each([&](FakeRank& r, int rank) {
    if (rank == 1) {
      return;
    }
    const StreamProgram program = take(compile_stream(schedule, rank));
    EXPECT_TRUE(r.engine->run(program, call_of(r, c), r.stream).ok());
    const std::jthread watcher([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ranks.words(rank).release_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  EXPECT_EQ(ranks[0].cuda.faults(), "");
}

TEST(StreamEngine, FailsAsTheDriverDoes) {
  for (const char* const call : {"walk_words", "record", "wait_for", "copy_async"}) {
    const Case c{.collective = Collective::kAllGather, .ranks = 1, .count = 100};
    const Schedule schedule = schedule_of(c);
    FakeRanks ranks({.ranks = 1});
    prepare(ranks, c, schedule.problem);
    ranks[0].cuda.fail(call);
    const StreamProgram program = take(compile_stream(schedule, 0));
    EXPECT_EQ(ranks[0].engine->run(program, call_of(ranks[0], c), ranks[0].stream).code(),
              Code::kSystemError)
        << call;
  }
  for (const char* const call : {"create_stream", "create_event"}) {
    FakeCuda cuda({});
    cuda.fail(call);
    EXPECT_FALSE(StreamEngine::create(cuda, {}).ok()) << call;
    EXPECT_EQ(cuda.left_over(), 0) << call;
  }
}

// What was begun in other streams is still at work in the buffers.
TEST(StreamEngine, TheUsersStreamWaitsForWhatWasBegunBeforeAFailure) {
  const Case c{.collective = Collective::kAllGather, .ranks = 3, .count = 100};
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks({.ranks = c.ranks});
  prepare(ranks, c, schedule.problem);
  FakeRank& r = ranks[0];
  r.cuda.fail("copy_async", 2);
  const StreamProgram program = take(compile_stream(schedule, 0));
  EXPECT_EQ(r.engine->run(program, call_of(r, c), r.stream).code(), Code::kSystemError);
  std::uint64_t ended = 0;
  const WordStep mark{WordStep::Kind::kStore, &ended, 1};
  ASSERT_TRUE(r.cuda.walk_words({&mark, 1}, r.stream).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::atomic_ref(ended).load(), 0) << "nobody else has called yet";
  ranks.words(0).release_all();
  EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace sennit::stream
