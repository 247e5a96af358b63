// Programs are run here by what does on the host what the kernel does (fake_put.hpp).
#include "exec/sm/put_program.hpp"

#include "algo/algorithm.hpp"
#include "exec/sm/fake_put.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace sennit::sm {
namespace {

constexpr int kBlocks = 3;

struct Case {
  std::int64_t count = 0;  // of bytes
  bool in_place = false;   // where the schedule says so
};

// All ranks of one call of bytes.
class Ranks {
 public:
  Ranks(const Schedule& schedule, const Case& c) : problem_(schedule.problem), count_(c.count) {
    const auto ranks = static_cast<std::size_t>(problem_.ranks);
    inputs_.resize(ranks);
    outputs_.resize(ranks);
    words_.resize(ranks);
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      prepare(rank, c.in_place);
    }
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      auto program = compile_put(schedule, rank);
      EXPECT_TRUE(program.ok()) << program.status().message();
      PutCall call;
      bind(*program,
           {count_, 1},
           {.input = inputs_at_[static_cast<std::size_t>(rank)], .outputs = outputs_at_},
           call);
      EXPECT_TRUE(lies_alike(*program, {count_, 1}));
      call.blocks = kBlocks;
      call.source_words = kBlocks;
      call.calls =
          words_[static_cast<std::size_t>(rank)].data() + put_words(problem_.ranks, kBlocks);
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        call.words[peer] = words_[peer].data();
      }
      calls_.push_back(call);
    }
  }

  void run(int times) {
    std::vector<std::jthread> threads;
    for (const PutCall& call : calls_) {
      threads.emplace_back([&call, times] {
        for (int i = 0; i < times; ++i) {
          FakePut(call).run();
        }
      });
    }
  }

  void expect_outputs() const {
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      for (int block = 0; block < problem_.output_blocks(rank); ++block) {
        expect_block(rank, block);
      }
    }
  }

 private:
  struct alignas(16) Line {
    std::array<std::byte, 16> bytes{};
  };
  using Buffer = std::vector<Line>;

  static std::byte* begin_of(Buffer& buffer) { return reinterpret_cast<std::byte*>(buffer.data()); }
  static std::uint8_t value(int rank, std::int64_t i) {
    return static_cast<std::uint8_t>(31 * rank + static_cast<int>(i % 11) + 1);
  }
  std::int64_t size_of(int blocks) const {
    return is_cut(problem_.collective) ? (blocks > 0 ? count_ : 0) : blocks * count_;
  }

  void prepare(int rank, bool in_place) {
    const auto at = static_cast<std::size_t>(rank);
    const std::int64_t input = size_of(problem_.input_blocks(rank));
    const std::int64_t output = size_of(problem_.output_blocks(rank));
    words_[at].resize(put_words(problem_.ranks, kBlocks) + kBlocks);
    inputs_[at].resize(static_cast<std::size_t>(input / 16 + 1));
    outputs_[at].resize(static_cast<std::size_t>(output / 16 + 1));
    std::byte* from = begin_of(inputs_[at]);
    std::byte* to = begin_of(outputs_[at]);
    if (in_place && input > output) {
      to = from - input_in_output(rank);
    } else if (in_place) {
      from = to + input_in_output(rank);
    }
    inputs_at_[at] = from;
    outputs_at_[at] = to;
    for (std::int64_t i = 0; i < input; ++i) {
      from[i] = static_cast<std::byte>(value(rank, i));
    }
  }

  // Where the input begins in place, from the begin of the output.
  std::int64_t input_in_output(int rank) const {
    for (int block = 0; block < problem_.output_blocks(rank); ++block) {
      if (const auto input = problem_.aliased_input(rank, block)) {
        return block_range(problem_, count_, 1, block).begin -
               block_range(problem_, count_, 1, *input).begin;
      }
    }
    return 0;
  }

  void expect_block(int rank, int block) const {
    const auto expected = problem_.expected(rank, block);
    const ElementRange to = block_range(problem_, count_, 1, block);
    const ElementRange from = block_range(problem_, count_, 1, expected.index);
    for (std::int64_t i = 0; i < to.length; ++i) {
      const int source = expected.ranks.front();
      ASSERT_EQ(static_cast<int>(outputs_at_[static_cast<std::size_t>(rank)][to.begin + i]),
                value(source, from.begin + i))
          << "rank " << rank << " block " << block << " element " << i;
    }
  }

  Problem problem_;
  std::int64_t count_;
  std::array<const std::byte*, kMaxRanks> inputs_at_{};
  std::array<std::byte*, kMaxRanks> outputs_at_{};
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
  std::vector<std::vector<std::uint64_t>> words_;
  std::vector<PutCall> calls_;
};

struct Named {
  Collective collective;
  std::string_view algorithm;
};
constexpr Named kFamily[] = {{Collective::kAllGather, "direct"},
                             {Collective::kAllToAll, "direct"},
                             {Collective::kBroadcast, "direct"},
                             {Collective::kBroadcast, "scatter_forward"},
                             {Collective::kGather, "direct"},
                             {Collective::kScatter, "direct"}};

Schedule made(const Named& named, const Shape& shape) {
  auto schedule = make_schedule(**find_algorithm(named.collective, named.algorithm), shape);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return std::move(schedule).value();
}

TEST(PutProgram, GivesTheRightResultOnAllRanks) {
  for (const Named& named : kFamily) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      const int root = is_rooted(named.collective) ? ranks / 2 : 0;
      const Schedule schedule = made(named, {.ranks = ranks, .root = root});
      // Several chunks a block, with parts of units at both ends where the vector is cut.
      const std::int64_t unit = is_cut(named.collective) ? 7 : 16;
      for (const std::int64_t count : {std::int64_t{1} * unit, 10'001 * unit}) {
        SCOPED_TRACE(std::string(name(named.collective)) + "/" + std::string(named.algorithm) +
                     " on " + std::to_string(ranks) + " ranks, " + std::to_string(count));
        Ranks all(schedule, {.count = count});
        all.run(2);
        all.expect_outputs();
        ASSERT_FALSE(::testing::Test::HasFailure());
      }
    }
  }
}

TEST(PutProgram, MayBeInPlaceWhereThatIsProved) {
  for (const Named& named : {Named{Collective::kAllGather, "direct"},
                             Named{Collective::kBroadcast, "scatter_forward"}}) {
    const Schedule schedule = made(named, {.ranks = 4, .root = 0});
    Ranks all(schedule, {.count = 160'016, .in_place = true});
    all.run(1);
    all.expect_outputs();
  }
}

TEST(PutProgram, KnowsWhereUnitsDoNotMatch) {
  const Schedule schedule = made({Collective::kAllGather, "direct"}, {.ranks = 4});
  const auto program = compile_put(schedule, 1);
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(lies_alike(*program, {4, 4}));
  EXPECT_FALSE(lies_alike(*program, {5, 4}));
}

TEST(PutProgram, RefusesReductions) {
  const auto program = compile_put(made({Collective::kReduceScatter, "direct"}, {.ranks = 3}), 0);
  EXPECT_EQ(program.status().code(), Code::kUnsupported);
}

TEST(PutCall, CutsRangesAtMultiplesOfAUnit) {
  EXPECT_EQ(unit_part(0, 5, 100).at, 0);
  EXPECT_EQ(unit_part(0, 5, 100).length, 11);
  EXPECT_EQ(unit_part(1, 5, 100).at, 11);
  EXPECT_EQ(unit_part(1, 5, 100).length, 16);
  EXPECT_EQ(unit_part(6, 5, 100).length, 9);
  EXPECT_LE(unit_part(7, 5, 100).length, 0);
  EXPECT_EQ(unit_part(0, 5, 3).length, 3);
  EXPECT_EQ(chunks_of(0, kChunkBytes), 1);
  EXPECT_EQ(chunks_of(1, kChunkBytes), 2);
  EXPECT_EQ(chunks_of(0, 0), 0);
}

}  // namespace
}  // namespace sennit::sm
