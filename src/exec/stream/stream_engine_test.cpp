#include "exec/stream/stream_engine.hpp"

#include "algo/algorithm.hpp"
#include "drivers/cuda/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sennit::stream {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

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

// A process with one GPU and the buffers of a call.
struct Rank {
  explicit Rank(const FakeCuda::Options& options) : cuda(options) {}

  FakeCuda cuda;
  std::unique_ptr<StreamEngine> engine;
  void* stream = nullptr;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<Buffers> peers;
};

// Ranks that are processes as far as their memory goes, and threads of this one.
class FakeRanks {
 public:
  FakeRanks(int ranks, bool one_queue) : words_(std::make_unique<RankWords[]>(kMaxRanks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto& r = *ranks_.emplace_back(
          std::make_unique<Rank>(FakeCuda::Options{.has_peers = false, .one_queue = one_queue}));
      std::vector<RankWords*> words;
      auto* const mapped = static_cast<RankWords*>(
          take(r.cuda.map_host(words_.get(), sizeof(RankWords) * kMaxRanks)));
      for (int peer = 0; peer < ranks; ++peer) {
        words.push_back(mapped + peer);
      }
      r.engine = take(StreamEngine::create(r.cuda, words));
      r.stream = take(r.cuda.create_stream());
    }
  }

  // Buffers of the size that the call needs, filled, and mapped into all other ranks.
  void prepare(const Case& c, const Problem& problem) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      Rank& r = *ranks_[static_cast<std::size_t>(rank)];
      r.input = allocate(r, c.count * problem.input_blocks(rank));
      r.output = allocate(r, c.count * problem.output_blocks(rank));
      for (int b = 0; b < problem.output_blocks(rank) && c.in_place; ++b) {
        if (const auto alias = problem.aliased_input(rank, b)) {
          // The smaller of the two lies within the larger.
          if (problem.input_blocks(rank) > problem.output_blocks(rank)) {
            r.output = r.input + (*alias - b) * c.count;
          } else {
            r.input = r.output + (b - *alias) * c.count;
          }
          break;
        }
      }
      fill(r, rank, c, problem);
    }
    for (auto& reader : ranks_) {
      reader->peers.clear();
      for (const auto& owner : ranks_) {
        reader->peers.push_back(
            {mapped(*reader, *owner, owner->input), mapped(*reader, *owner, owner->output)});
      }
    }
  }

  static void fill(Rank& r, int rank, const Case& c, const Problem& problem) {
    if (!c.in_place) {
      std::memset(r.output, 0xa5, static_cast<std::size_t>(c.count * problem.output_blocks(rank)));
    }
    for (std::int64_t i = 0; i < c.count * problem.input_blocks(rank); ++i) {
      r.input[i] = content(rank, i);
    }
  }

  // Every rank on a thread, as a process would.
  template <typename Function>
  void each(Function function) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] { function(*ranks_[rank], static_cast<int>(rank)); });
    }
  }

  void check(const Case& c, const Problem& problem) {
    for (int rank = 0; rank < c.ranks; ++rank) {
      Rank& r = *ranks_[static_cast<std::size_t>(rank)];
      EXPECT_EQ(r.cuda.faults(), "") << describe(c);
      for (int b = 0; b < problem.output_blocks(rank); ++b) {
        const auto from = problem.expected(rank, b);
        for (std::int64_t i = 0; i < c.count; ++i) {
          ASSERT_EQ(r.output[b * c.count + i],
                    content(from.ranks.front(), from.index * c.count + i))
              << describe(c) << ": rank " << rank << ", block " << b << ", byte " << i;
        }
      }
    }
    // All that was filled has been consumed: the next call begins as this one did.
    for (int rank = 0; rank < c.ranks; ++rank) {
      const RankWords& words = words_[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(words.ready == fresh_.ready && words.done == fresh_.done) << describe(c);
      EXPECT_EQ(words.running, kIdle);
    }
  }

  Rank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  RankWords& words(int rank) { return words_[static_cast<std::size_t>(rank)]; }

 private:
  static std::byte* allocate(Rank& r, std::int64_t bytes) {
    // A pointer of the user may lie anywhere in its allocation.
    constexpr std::size_t kShift = 48;
    return static_cast<std::byte*>(
               take(r.cuda.allocate(static_cast<std::size_t>(bytes) + kShift))) +
           kShift;
  }

  static const std::byte* mapped(Rank& reader, Rank& owner, const std::byte* pointer) {
    const Allocation allocation = take(owner.cuda.allocation_of(pointer - 1));
    const auto handle = take(owner.cuda.export_memory(allocation.base));
    return static_cast<std::byte*>(take(reader.cuda.import_memory(handle))) +
           (pointer - allocation.base);
  }

  std::unique_ptr<RankWords[]> words_;
  RankWords fresh_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

Schedule schedule_of(const Case& c) {
  return take(make_schedule(*take(find_algorithm(c.collective, c.algorithm)),
                            {.ranks = c.ranks, .root = c.root}));
}

StreamCall call_of(const Rank& r, const Case& c) {
  return {.input = r.input,
          .output = r.output,
          .peers = r.peers,
          .count = c.count,
          .element_bytes = 1,
          .part_bytes = c.part_bytes};
}

void run(const Case& c, int calls = 1, bool one_queue = false) {
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks(c.ranks, one_queue);
  // A cut vector is one block for the buffers.
  Problem whole = schedule.problem;
  whole.cut = 1;
  ranks.prepare(c, whole);
  ranks.each([&](Rank& r, int rank) {
    const StreamProgram program = take(compile_stream(schedule, rank));
    for (int i = 0; i < calls; ++i) {
      const Status status = r.engine->run(program, call_of(r, c), r.stream);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  ranks.check(c, whole);
}

// What is in place where a schedule allows it.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {.collective = Collective::kAllGather},
      {.collective = Collective::kBroadcast},
      {.collective = Collective::kBroadcast, .algorithm = "scatter_forward"},
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

TEST(StreamEngine, SendsToOneRank) {
  for (const std::int64_t count : {1, 5000, 300001}) {
    run({.collective = Collective::kSendRecv, .ranks = 2, .count = count}, 3);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(StreamEngine, IsReplayedFromGraphs) {
  const Case c{.collective = Collective::kBroadcast,
               .algorithm = "scatter_forward",
               .root = 2,
               .count = 30001};
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks(c.ranks, false);
  Problem whole = schedule.problem;
  whole.cut = 1;
  ranks.prepare(c, whole);
  ranks.each([&](Rank& r, int rank) {
    const StreamProgram program = take(compile_stream(schedule, rank));
    r.cuda.begin_capture(r.stream);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(r.engine->run(program, call_of(r, c), r.stream).ok());
    }
    const FakeGraph graph = take(r.cuda.end_capture(r.stream));
    for (int replay = 0; replay < 20; ++replay) {
      graph.launch(r.stream);
    }
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  ranks.check(c, whole);
}

// A rank that never calls: the words end the waits of the others, whose outputs are then undefined.
TEST(StreamEngine, WaitsEndWhenTheWordsAreReleased) {
  const Case c{.collective = Collective::kAllGather, .ranks = 3, .count = 9000};
  const Schedule schedule = schedule_of(c);
  FakeRanks ranks(c.ranks, false);
  ranks.prepare(c, schedule.problem);
  ranks.each([&](Rank& r, int rank) {
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
    FakeRanks ranks(1, false);
    ranks.prepare(c, schedule.problem);
    ranks[0].cuda.fail(call);
    const StreamProgram program = take(compile_stream(schedule, 0));
    EXPECT_EQ(ranks[0].engine->run(program, call_of(ranks[0], c), ranks[0].stream).code(),
              Code::kSystemError)
        << call;
  }
  for (const char* const call : {"create_stream", "create_event"}) {
    FakeCuda cuda({});
    cuda.fail(call, 2);
    EXPECT_FALSE(StreamEngine::create(cuda, {}).ok()) << call;
    EXPECT_EQ(cuda.left_over(), 0) << call;
  }
}

}  // namespace
}  // namespace sennit::stream
