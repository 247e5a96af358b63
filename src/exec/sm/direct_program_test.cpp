// Programs are run here by a few lines that do with bytes what the kernel does with packets.
#include "exec/sm/direct_program.hpp"

#include "algo/algorithm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace sennit::sm {
namespace {

using Buffer = std::vector<std::uint8_t>;

// All ranks of one call: element i of rank r's input is value(r, i).
class Emulation {
 public:
  Emulation(const Schedule& schedule, std::int64_t count) : problem_(schedule.problem) {
    for (int rank = 0; rank < problem_.ranks; ++rank) {
      auto program = compile_direct(schedule, rank);
      EXPECT_TRUE(program.ok()) << program.status().message();
      inputs_.push_back(make_input(rank, count));
      outputs_.emplace_back(size_of(problem_.output_blocks(rank), count), 0xee);
      DirectCall call;
      call.input = reinterpret_cast<const std::byte*>(inputs_.back().data());
      call.output = reinterpret_cast<std::byte*>(outputs_.back().data());
      if (program.ok()) {
        bind(*program, count, 1, call);
      }
      calls_.push_back(call);
    }
  }

  static std::uint8_t value(int rank, std::size_t i) {
    return static_cast<std::uint8_t>(31 * rank + static_cast<int>(i % 7) + 1);
  }

  void run() {
    std::vector<Buffer> arrived(calls_.size());  // what each rank may pass on
    for (std::size_t r = 0; r < calls_.size(); ++r) {
      arrived[r] = first_hop(static_cast<int>(r));
    }
    for (std::size_t r = 0; r < calls_.size(); ++r) {
      for (int from = 0; from < problem_.ranks; ++from) {
        if (((calls_[r].arrive_from[1] >> from) & 1) != 0) {
          const auto& sender = calls_[static_cast<std::size_t>(from)];
          EXPECT_NE((sender.forward_to >> r) & 1, 0U) << "nobody sends what is waited for";
          store(r,
                calls_[r].arrive[1][static_cast<std::size_t>(from)],
                arrived[static_cast<std::size_t>(from)]);
        }
      }
    }
  }

  const Buffer& output(int rank) const { return outputs_[static_cast<std::size_t>(rank)]; }

 private:
  std::size_t size_of(int blocks, std::int64_t count) const {
    return static_cast<std::size_t>(is_cut(problem_.collective) ? (blocks > 0 ? count : 0)
                                                                : blocks * count);
  }
  Buffer make_input(int rank, std::int64_t count) const {
    Buffer input(size_of(problem_.input_blocks(rank), count));
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = value(rank, i);
    }
    return input;
  }

  Buffer part(std::size_t rank, ByteRange range) const {
    const auto begin = inputs_[rank].begin() + range.begin;
    return {begin, begin + range.length};
  }
  void store(std::size_t rank, ByteRange range, const Buffer& data) {
    ASSERT_EQ(static_cast<std::size_t>(range.length), data.size());
    std::ranges::copy(data, outputs_[rank].begin() + range.begin);
  }

  Buffer first_hop(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const DirectCall& call = calls_[at];
    Buffer result;
    if (call.own) {
      result = part(at, call.own_from);
    }
    for (int from = 0; from < problem_.ranks; ++from) {
      if (((call.arrive_from[0] >> from) & 1) == 0) {
        continue;
      }
      const DirectCall& sender = calls_[static_cast<std::size_t>(from)];
      EXPECT_NE((sender.push_to >> rank) & 1, 0U) << "nobody sends what is waited for";
      const Buffer data = part(static_cast<std::size_t>(from), sender.push[at]);
      if (call.arrival == Arrival::kStore) {
        store(at, call.arrive[0][static_cast<std::size_t>(from)], data);
        result = data;
        continue;
      }
      result.resize(data.size());
      for (std::size_t i = 0; i < data.size(); ++i) {
        result[i] = static_cast<std::uint8_t>(result[i] + data[i]);
      }
    }
    if (call.arrival == Arrival::kReduce || (call.own && call.arrive_from[0] == 0)) {
      EXPECT_EQ(call.stores_sum, problem_.output_blocks(rank) > 0);
      if (call.stores_sum) {
        store(at, call.own_to, result);
      }
    } else if (call.own) {
      store(at, call.own_to, part(at, call.own_from));
    }
    return result;
  }

  Problem problem_;
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
  std::vector<DirectCall> calls_;
};

// Block `index` of the contributions of `ranks`, summed.
void expect_outputs(const Emulation& emulation, const Problem& problem, std::int64_t count) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (int block = 0; block < problem.output_blocks(rank); ++block) {
      const auto expected = problem.expected(rank, block);
      const ElementRange to = block_range(problem, count, 1, block);
      const ElementRange from = block_range(problem, count, 1, expected.index);
      for (std::int64_t i = 0; i < to.length; ++i) {
        std::uint8_t sum = 0;
        for (const int source : expected.ranks) {
          sum = static_cast<std::uint8_t>(
              sum + Emulation::value(source, static_cast<std::size_t>(from.begin + i)));
        }
        ASSERT_EQ(emulation.output(rank)[static_cast<std::size_t>(to.begin + i)], sum)
            << "rank " << rank << " block " << block << " element " << i;
      }
    }
  }
}

bool is_direct(const Schedule& schedule) {
  for (int rank = 0; rank < schedule.problem.ranks; ++rank) {
    if (!compile_direct(schedule, rank).ok()) {
      return false;
    }
  }
  return true;
}

TEST(DirectProgram, EveryDirectScheduleGivesTheRightResult) {
  int programs = 0;
  for (const Collective collective : kCollectives) {
    if (collective == Collective::kBarrier || collective == Collective::kSendRecv) {
      continue;
    }
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int ranks = 1; ranks <= 8; ++ranks) {
        for (int root = 0; root < (is_rooted(collective) ? ranks : 1); ++root) {
          const Shape shape{.ranks = ranks, .root = root};
          const auto schedule = make_schedule(algorithm, shape);
          if (!schedule.ok() || !is_direct(*schedule)) {
            continue;
          }
          SCOPED_TRACE(std::string(name(collective)) + "/" + std::string(algorithm.name) + " on " +
                       std::to_string(ranks) + " ranks, root " + std::to_string(root));
          Emulation emulation(*schedule, 1000);
          emulation.run();
          expect_outputs(emulation, schedule->problem, 1000);
          ++programs;
        }
      }
    }
  }
  EXPECT_GE(programs, 150) << "hardly a schedule was taken";
}

TEST(DirectProgram, TheFamilyIsTaken) {
  const struct {
    Collective collective;
    std::string_view algorithm;
  } family[] = {{Collective::kAllReduce, "one_shot"},
                {Collective::kAllReduce, "two_shot"},
                {Collective::kAllGather, "direct"},
                {Collective::kReduceScatter, "direct"},
                {Collective::kAllToAll, "direct"},
                {Collective::kBroadcast, "direct"},
                {Collective::kBroadcast, "scatter_forward"},
                {Collective::kReduce, "direct"},
                {Collective::kReduce, "scatter_gather"},
                {Collective::kGather, "direct"},
                {Collective::kScatter, "direct"}};
  for (const auto& [collective, algorithm] : family) {
    for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
      const auto schedule =
          make_schedule(**find_algorithm(collective, algorithm), Shape{.ranks = ranks});
      ASSERT_TRUE(schedule.ok());
      for (int rank = 0; rank < ranks; ++rank) {
        const auto program = compile_direct(*schedule, rank);
        EXPECT_TRUE(program.ok()) << program.status().message();
      }
    }
  }
}

// What plain packets are written once by.
TEST(DirectProgram, KnowsOfAllRanksWhetherEachSendsOneRangeAlone) {
  const struct {
    Collective collective;
    const char* algorithm;
    bool once;
  } family[] = {{Collective::kAllReduce, "one_shot", true},
                {Collective::kAllReduce, "two_shot", false},
                {Collective::kAllGather, "direct", true},
                {Collective::kBroadcast, "direct", true},
                {Collective::kBroadcast, "scatter_forward", false},
                {Collective::kAllToAll, "direct", false},
                {Collective::kReduce, "direct", false},  // whose readers change with the root
                {Collective::kReduce, "scatter_gather", false},
                {Collective::kGather, "direct", false},
                {Collective::kScatter, "direct", false}};
  for (const auto& [collective, algorithm, once] : family) {
    const auto schedule = make_schedule(**find_algorithm(collective, algorithm), {.ranks = 4});
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    for (int rank = 0; rank < 4; ++rank) {
      const auto program = compile_direct(*schedule, rank);
      ASSERT_TRUE(program.ok()) << program.status().message();
      EXPECT_EQ(program->pushes_once, once) << name(collective) << " " << algorithm;
    }
  }
}

TEST(DirectProgram, OtherSchedulesAreRefusedByName) {
  const auto ring = make_schedule(**find_algorithm(Collective::kAllReduce, "ring"), {.ranks = 4});
  const auto program = compile_direct(*ring, 0);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), Code::kUnsupported);
  EXPECT_NE(program.status().message().find("all_reduce/ring"), std::string::npos);
}

}  // namespace
}  // namespace sennit::sm
