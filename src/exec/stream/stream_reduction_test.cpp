// Reductions by StreamEngine. Kernels are launched on fake GPUs, where the host's loops stand for
// them: what is proved here is which bytes are reduced, when, and in which order.
#include "algo/algorithm.hpp"
#include "exec/stream/testing/fake_ranks.hpp"
#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sennit::stream {
namespace {

using Bytes = std::vector<std::byte>;

// Stands for the address of a kernel.
struct HostReduction {
  Dtype dtype = Dtype::kFloat32;
  ReduceOp op = ReduceOp::kSum;

  void operator()(const ReductionCall& call) const {
    const auto elements = call.bytes / static_cast<std::int64_t>(size_bytes(dtype));
    std::vector<Bytes> contributions;
    std::vector<sennit::Operand> operands;
    for (int i = 0; i < call.operand_count; ++i) {
      const ReductionCall::Operand& operand = call.operands[static_cast<std::size_t>(i)];
      contributions.emplace_back(static_cast<std::size_t>(call.bytes));
      const sennit::Operand scaled{operand.data, op == ReduceOp::kPremulSum};
      reduce(dtype,
             op,
             {.scalar = operand.scalar},
             {.out = contributions.back().data(), .operands = {&scaled, 1}, .elements = elements});
    }
    for (const Bytes& contribution : contributions) {
      operands.push_back({contribution.data()});
    }
    reduce(dtype,
           op,
           {.ranks = call.ranks},
           {.out = call.outputs.front(),
            .operands = operands,
            .elements = elements,
            .is_finished = true});
  }
};

struct Case {
  Collective collective = Collective::kAllReduce;
  std::string_view algorithm = "two_shot";
  int ranks = 4;
  int root = 0;
  std::int64_t count = 1000;
  HostReduction host{};
  bool in_place = false;
  std::int64_t part_bytes = 4096;
  std::int64_t staging_bytes = std::int64_t{4} << 20;
  std::int64_t reserved_bytes = 0;  // of these, to begin with; 0: all
  bool one_queue = false;
};

std::string describe(const Case& c) {
  return fmt::format("{}/{} of {} ranks, root {}, {} {} of {}{}",
                     name(c.collective),
                     c.algorithm,
                     c.ranks,
                     c.root,
                     name(c.host.op),
                     c.count,
                     name(c.host.dtype),
                     c.in_place ? ", in place" : "");
}

std::int64_t element_bytes(const Case& c) {
  return static_cast<std::int64_t>(size_bytes(c.host.dtype));
}

// Any bits at all, the same for the same seed.
Bytes noise(std::int64_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes result(static_cast<std::size_t>(bytes));
  for (std::byte& byte : result) {
    byte = static_cast<std::byte>(random() & 0xff);
  }
  return result;
}

class ReducingRanks {
 public:
  explicit ReducingRanks(const Case& c)
      : case_(c),
        schedule_(take(make_schedule(*take(find_algorithm(c.collective, c.algorithm)),
                                     {.ranks = c.ranks, .root = c.root}))),
        whole_(schedule_.problem),
        ranks_({.ranks = c.ranks, .one_queue = c.one_queue, .staging_bytes = c.staging_bytes}) {
    whole_.cut = 1;  // a cut vector is one block for the buffers
    ranks_.prepare(whole_, block_bytes(), c.in_place);
    for (int rank = 0; rank < c.ranks; ++rank) {
      FakeRank& r = ranks_[rank];
      r.cuda.run_kernels([](const void* kernel, const void* parameters) {
        return [host = static_cast<const HostReduction*>(kernel),
                call = *static_cast<const ReductionCall*>(parameters)] { (*host)(call); };
      });
      inputs_.push_back(noise(block_bytes() * whole_.input_blocks(rank), 100 + seed(rank)));
      scalars_.push_back(noise(16, 200 + seed(rank)));
      fill(rank);
    }
    ranks_.prepare_staging(c.reserved_bytes > 0 ? c.reserved_bytes : c.staging_bytes);
    for (int rank = 0; rank < c.ranks; ++rank) {
      for (int peer = 0; peer < c.ranks; ++peer) {
        std::memcpy(ranks_[rank].peers[static_cast<std::size_t>(peer)].scalar.data(),
                    scalar(peer),
                    kLargestElementBytes);
      }
    }
  }

  // What a call begins with. In place, the last one has overwritten the input.
  void fill(int rank) {
    const FakeRank& r = ranks_[rank];
    const Bytes& input = inputs_[static_cast<std::size_t>(rank)];
    if (!case_.in_place) {
      std::memset(
          r.output, 0xa5, static_cast<std::size_t>(block_bytes() * whole_.output_blocks(rank)));
    }
    std::memcpy(r.input, input.data(), input.size());
  }

  StreamProgram program(int rank) const { return take(compile_stream(schedule_, rank)); }

  Status call(int rank, bool is_captured = false) {
    const StreamProgram program = this->program(rank);
    const FakeRank& r = ranks_[rank];
    return r.engine->run(program,
                         {.input = r.input,
                          .output = r.output,
                          .peers = r.peers,
                          .count = case_.count,
                          .element_bytes = element_bytes(case_),
                          .part_bytes = case_.part_bytes,
                          .reduction = &case_.host,
                          .is_captured = is_captured},
                         r.stream);
  }

  // Calls of every rank behind each other. In place only the first one's input is known.
  void run(int calls = 1) {
    ranks_.each([&](FakeRank& r, int rank) {
      for (int i = 0; i < calls; ++i) {
        const Status status = call(rank);
        EXPECT_TRUE(status.ok()) << status.message();
      }
      EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
    });
  }

  void check() {
    SCOPED_TRACE(describe(case_));
    for (int rank = 0; rank < case_.ranks; ++rank) {
      for (int b = 0; b < whole_.output_blocks(rank); ++b) {
        const Bytes expected = expected_block(whole_.expected(rank, b).index);
        ASSERT_EQ(
            std::memcmp(ranks_[rank].output + b * block_bytes(), expected.data(), expected.size()),
            0)
            << "rank " << rank << ", block " << b;
      }
    }
    ranks_.expect_at_rest();
  }

  FakeRanks& ranks() { return ranks_; }

 private:
  [[nodiscard]] std::int64_t block_bytes() const { return case_.count * element_bytes(case_); }
  static std::uint64_t seed(int rank) { return static_cast<std::uint64_t>(rank); }
  const std::byte* scalar(int rank) const {
    return scalars_[static_cast<std::size_t>(rank)].data();
  }

  // In the order of ranks, all of it at once.
  Bytes expected_block(int index) const {
    ReductionCall all{.bytes = block_bytes(), .operand_count = case_.ranks, .ranks = case_.ranks};
    for (int rank = 0; rank < case_.ranks; ++rank) {
      auto& operand = all.operands[static_cast<std::size_t>(rank)];
      operand.data = inputs_[static_cast<std::size_t>(rank)].data() + index * block_bytes();
      std::memcpy(operand.scalar.data(), scalar(rank), kLargestElementBytes);
    }
    Bytes result(static_cast<std::size_t>(block_bytes()));
    all.outputs.front() = result.data();
    case_.host(all);
    return result;
  }

  Case case_;
  Schedule schedule_;
  Problem whole_;
  FakeRanks ranks_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> scalars_;
};

void run(const Case& c) {
  ReducingRanks reduction(c);
  reduction.run();
  reduction.check();
}

std::vector<Case> collectives() {
  return {{.collective = Collective::kAllReduce, .algorithm = "two_shot"},
          {.collective = Collective::kReduceScatter, .algorithm = "direct"},
          {.collective = Collective::kReduce, .algorithm = "direct"}};
}

TEST(StreamReduction, AddsUpEveryElementInPlaceAndNot) {
  for (Case c : collectives()) {
    for (const int ranks : {1, 2, 3, 4}) {
      c.ranks = ranks;
      c.root = is_rooted(c.collective) ? ranks - 1 : 0;
      for (const std::int64_t count : {1, 1031, 20011}) {
        c.count = count;
        for (const bool in_place : {false, true}) {
          c.in_place = in_place;
          run(c);
          ASSERT_FALSE(testing::Test::HasFailure());
        }
      }
    }
  }
}

TEST(StreamReduction, KnowsEveryPairOfTypeAndOperator) {
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (has_reduction(dtype, op)) {
        run({.ranks = 3, .count = 1501, .host = {dtype, op}, .in_place = true});
        ASSERT_FALSE(testing::Test::HasFailure());
      }
    }
  }
}

// How often the root launched its kernel, in place and not.
std::vector<int> launches_of(Case c) {
  std::vector<int> launches;
  for (const bool in_place : {false, true}) {
    c.in_place = in_place;
    ReducingRanks reduction(c);
    reduction.run();
    reduction.check();
    launches.push_back(reduction.ranks()[c.root].cuda.calls("launch"));
  }
  return launches;
}

TEST(StreamReduction, CutsWhatComesLastIntoThreePieces) {
  for (Case c : collectives()) {
    c.part_bytes = 4'096;
    for (const std::int64_t count : {32'768, 60'001}) {
      c.count = count;
      EXPECT_EQ(launches_of(c), (std::vector{3, 3}));
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

// Blocks of a round may be a little longer than their share.
TEST(StreamReduction, TakesRoundsWhereItsStagingMemoryIsSmall) {
  for (Case c : collectives()) {
    c.staging_bytes = std::int64_t{3} * 20'480;
    for (const std::int64_t count : {60'000, 60'011}) {
      c.count = count;
      for (const int launches : launches_of(c)) {
        EXPECT_GT(launches, 3);
      }
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(StreamReduction, SaysHowMuchStagingMemoryItTakes) {
  ReducingRanks reduction({.count = 60'000});
  const StreamEngine& engine = *reduction.ranks()[0].engine;
  const StreamProgram program = reduction.program(0);
  EXPECT_EQ(engine.staging_needs(program, {60'000, 4}), 3 * 61'440) << "whole pages for each";
  EXPECT_LE(engine.staging_needs(program, {100'000'000, 4}), engine.staging().most_bytes());
}

TEST(StreamReduction, TakesTurnsOverManyCallsOfEightRanks) {
  for (Case c : collectives()) {
    c.ranks = 8;
    c.count = 20'001;
    c.root = is_rooted(c.collective) ? 5 : 0;
    ReducingRanks reduction(c);
    reduction.run(5);
    reduction.check();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(StreamReduction, RunsWhereAllStreamsShareOneQueue) {
  for (Case c : collectives()) {
    c.count = 50'000;
    c.part_bytes = 12'288;
    c.one_queue = true;
    ReducingRanks reduction(c);
    reduction.run(3);
    reduction.check();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(StreamReduction, IsReplayedFromGraphs) {
  ReducingRanks reduction({.ranks = 3, .count = 30'001, .in_place = true});
  std::vector<FakeGraph> graphs(3);
  reduction.ranks().each([&](FakeRank& r, int rank) {
    r.cuda.begin_capture(r.stream);
    EXPECT_TRUE(reduction.call(rank, /*is_captured=*/true).ok());
    graphs[static_cast<std::size_t>(rank)] = take(r.cuda.end_capture(r.stream));
  });
  for (int replay = 0; replay < 5; ++replay) {
    for (int rank = 0; rank < 3; ++rank) {
      reduction.fill(rank);
    }
    reduction.ranks().each([&](FakeRank& r, int rank) {
      graphs[static_cast<std::size_t>(rank)].launch(r.stream);
      EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
    });
    reduction.check();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// The graph goes on with the memory that it was captured with.
TEST(StreamReduction, IsReplayedFromGraphsAfterItsStagingMemoryHasGrown) {
  ReducingRanks reduction({.ranks = 3, .count = 3'001, .in_place = true, .reserved_bytes = 32'768});
  std::vector<FakeGraph> graphs(3);
  reduction.ranks().each([&](FakeRank& r, int rank) {
    r.cuda.begin_capture(r.stream);
    EXPECT_TRUE(reduction.call(rank, /*is_captured=*/true).ok());
    graphs[static_cast<std::size_t>(rank)] = take(r.cuda.end_capture(r.stream));
  });
  const std::byte* const first = reduction.ranks()[0].engine->staging().memory();
  reduction.ranks().prepare_staging(std::int64_t{2} << 20);
  EXPECT_NE(reduction.ranks()[0].engine->staging().memory(), first);
  for (int turn = 0; turn < 4; ++turn) {
    for (int rank = 0; rank < 3; ++rank) {
      reduction.fill(rank);
    }
    reduction.ranks().each([&](FakeRank& r, int rank) {
      if (turn % 2 == 0) {
        EXPECT_TRUE(reduction.call(rank).ok());
      } else {
        graphs[static_cast<std::size_t>(rank)].launch(r.stream);
      }
      EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
    });
    reduction.check();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// A rank that never calls: the words end the waits of the others, whose outputs are then undefined.
TEST(StreamReduction, WaitsEndWhenTheWordsAreReleased) {
  ReducingRanks reduction({.ranks = 3, .count = 30'001});
  reduction.ranks().each([&](FakeRank& r, int rank) {
    if (rank == 1) {
      return;
    }
    EXPECT_TRUE(reduction.call(rank).ok());
    const std::jthread watcher([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        reduction.ranks().words(rank).release_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_TRUE(r.cuda.synchronize(r.stream).ok());
  });
  EXPECT_EQ(reduction.ranks()[0].cuda.faults(), "");
}

TEST(StreamReduction, FailsAsTheDriverDoes) {
  for (const char* const call : {"launch", "walk_words", "record", "wait_for"}) {
    ReducingRanks reduction({.ranks = 1});
    reduction.ranks()[0].cuda.fail(call);
    EXPECT_EQ(reduction.call(0).code(), Code::kSystemError) << call;
  }
}

// What was captured in a graph is used as long as the graph is.
TEST(Staging, GrowsInStepsAndKeepsWhatItHad) {
  FakeCuda cuda({});
  {
    Staging staging(cuda, 16 * 8192);
    EXPECT_EQ(staging.memory(), nullptr);
    cuda.fail("allocate");
    EXPECT_FALSE(staging.reserve(1).ok());
    EXPECT_EQ(staging.memory(), nullptr);
    ASSERT_TRUE(staging.reserve(1).ok());
    EXPECT_EQ(staging.bytes(), 8192);
    ASSERT_TRUE(staging.reserve(8192).ok());
    EXPECT_EQ(cuda.left_over(), 1);
    ASSERT_TRUE(staging.reserve(4 * 8192 + 1).ok());
    EXPECT_EQ(staging.bytes(), 16 * 8192);
    EXPECT_EQ(cuda.left_over(), 2);
    EXPECT_EQ(staging.reserve(16 * 8192 + 1).code(), Code::kInternalError);
  }
  EXPECT_EQ(cuda.left_over(), 0);
}

}  // namespace
}  // namespace sennit::stream
