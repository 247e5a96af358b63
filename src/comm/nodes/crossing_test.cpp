// Calls are divided, and all that becomes of them is done here one after the other, on vectors: so
// every rank must have in the end what the call promises.
#include "comm/nodes/crossing.hpp"

#include "comm/nodes/crossing_parts.hpp"
#include "schedule/problem.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace sennit {
namespace {

using Element = std::uint64_t;
using Vector = std::vector<Element>;

Element* elements(void* memory) { return static_cast<Element*>(memory); }
const Element* elements(const void* memory) { return static_cast<const Element*>(memory); }

ElementRange input_block(const Operation& op, int block) {
  return op.varying ? op.inputs.at(static_cast<std::size_t>(block))
                    : ElementRange{block * op.count, op.count};
}
ElementRange output_block(const Operation& op, int block) {
  return op.varying ? op.outputs.at(static_cast<std::size_t>(block))
                    : ElementRange{block * op.count, op.count};
}

// The same collective of these ranks, each with its buffers. All inputs are read before.
void run_collective(const std::vector<Operation>& ops) {
  const Operation& first = ops.front();
  const auto ranks = static_cast<int>(ops.size());
  const Problem problem{
      .collective = first.collective, .ranks = ranks, .root = first.root, .varying = first.varying};
  std::vector<std::vector<Vector>> inputs(ops.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Operation& op = ops[static_cast<std::size_t>(rank)];
    ASSERT_EQ(op.collective, first.collective);
    ASSERT_EQ(op.root, first.root);
    if (!op.varying) {
      ASSERT_EQ(op.count, first.count);
    }
    for (int block = 0; block < problem.input_blocks(rank); ++block) {
      const auto [begin, length] = input_block(op, block);
      const Element* const from = elements(op.send) + begin;
      inputs[static_cast<std::size_t>(rank)].emplace_back(from, from + length);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const Operation& op = ops[static_cast<std::size_t>(rank)];
    for (int block = 0; block < problem.output_blocks(rank); ++block) {
      const auto [begin, length] = output_block(op, block);
      const Problem::Contributions expected = problem.expected(rank, block);
      Vector sum(static_cast<std::size_t>(length), 0);
      for (const int source : expected.ranks) {
        const Vector& given =
            inputs[static_cast<std::size_t>(source)][static_cast<std::size_t>(expected.index)];
        ASSERT_EQ(given.size(), sum.size());
        std::ranges::transform(given, sum, sum.begin(), std::plus());
      }
      std::ranges::copy(sum, elements(op.recv) + begin);
    }
  }
}

struct Setting {
  std::vector<int> nodes;
  Collective collective = Collective::kAllReduce;
  std::int64_t count = 0;
  int root = 0;
  bool in_place = false;
};

std::string text(const Setting& setting) {
  std::string nodes;
  for (const int node : setting.nodes) {
    nodes += static_cast<char>('a' + node);
  }
  return fmt::format("{} of {} on {}, root {}{}",
                     name(setting.collective),
                     setting.count,
                     nodes,
                     setting.root,
                     setting.in_place ? ", in place" : "");
}

class Job {
 public:
  Job(const Setting& setting, std::size_t part_bytes)
      : ranks_(static_cast<int>(setting.nodes.size())),
        problem_{.collective = setting.collective, .ranks = ranks_, .root = setting.root} {
    for (int rank = 0; rank < ranks_; ++rank) {
      Rank& made = all_.emplace_back();
      made.shape = {.rank = rank, .nodes = setting.nodes};
      const auto inputs = static_cast<std::size_t>(problem_.input_blocks(rank) * setting.count);
      const auto outputs = static_cast<std::size_t>(problem_.output_blocks(rank) * setting.count);
      made.memory.resize(2 * (inputs + outputs), 7);
      made.op = {.collective = setting.collective,
                 .send = made.memory.data(),
                 .recv = made.memory.data() + inputs,
                 .count = setting.count,
                 .dtype = Dtype::kUint64,
                 .root = setting.root,
                 .request = {}};
      if (setting.in_place) {
        place_in_place(made);
      }
      for (std::size_t i = 0; i < inputs; ++i) {
        const_cast<Element*>(elements(made.op.send))[i] =
            (static_cast<Element>(rank) << 32) + i * i + 1;
      }
    }
    expect();
    for (Rank& rank : all_) {
      rank.scratch.resize(scratch_bytes(rank.op, rank.shape, false) / sizeof(Element));
      rank.crossing =
          cross(rank.op, rank.shape, false, reinterpret_cast<std::byte*>(rank.scratch.data()));
      rank.parts = parts_of(rank.crossing, part_bytes);
      EXPECT_EQ(rank.parts.size(), all_.front().parts.size());
    }
  }

  void run() {
    run_in_nodes(&Crossing::before);
    for (std::size_t part = 0; part < all_.front().parts.size(); ++part) {
      for (Rank& rank : all_) {
        copy_in(rank, rank.parts[part]);
      }
      if (part == 0) {
        run_in_nodes(&Crossing::meanwhile);
      }
      run_between_nodes(part);
      for (Rank& rank : all_) {
        copy_out(rank, rank.parts[part]);
      }
    }
    run_in_nodes(&Crossing::after);
  }

  void check() const {
    for (const Rank& rank : all_) {
      const Element* const found = elements(rank.op.recv);
      ASSERT_TRUE(std::equal(rank.expected.begin(), rank.expected.end(), found))
          << "rank " << rank.shape.rank;
    }
  }

  // What all ranks send to other nodes.
  [[nodiscard]] std::int64_t elements_sent() const {
    std::int64_t sum = 0;
    for (const Rank& rank : all_) {
      for (const HostCall& call : rank.crossing.calls) {
        for (const DeviceBlock& block : call.inputs) {
          for (const DeviceRange& range : block) {
            sum += range.elements;
          }
        }
      }
    }
    return sum;
  }

 private:
  struct Rank {
    NodeShape shape;
    Operation op;
    Vector memory;
    Vector scratch;
    Vector expected;
    Crossing crossing;
    std::vector<CrossingPart> parts;
    std::vector<std::byte> slot;
  };

  // The larger of the two buffers is at the beginning of the memory.
  void place_in_place(Rank& rank) const {
    auto* const base = reinterpret_cast<std::byte*>(rank.memory.data());
    const BufferNeeds needs = buffer_needs(rank.op, rank.shape.rank, ranks_);
    const std::int64_t offset = needs.in_place_offset.value_or(0);
    rank.op.recv = base + std::max(-offset, std::int64_t{0});
    rank.op.send = base + std::max(offset, std::int64_t{0});
  }

  // By the collective itself, on copies.
  void expect() {
    std::vector<Operation> ops;
    for (Rank& rank : all_) {
      rank.expected.resize(
          static_cast<std::size_t>(problem_.output_blocks(rank.shape.rank) * rank.op.count));
      ops.push_back(rank.op);
      ops.back().recv = rank.expected.data();
    }
    run_collective(ops);
  }

  void run_in_nodes(std::vector<Operation> Crossing::* calls) {
    for (const Rank& first : all_) {
      const std::vector<int> local = first.shape.local();
      if (local.front() != first.shape.rank) {
        continue;
      }
      for (std::size_t call = 0; call < (first.crossing.*calls).size(); ++call) {
        std::vector<Operation> ops;
        for (const int rank : local) {
          ops.push_back((all_[static_cast<std::size_t>(rank)].crossing.*calls).at(call));
        }
        run_collective(ops);
      }
    }
  }

  static void copy_in(Rank& rank, const CrossingPart& part) {
    rank.slot.assign(part.bytes, std::byte{9});
    for (const CrossingPart::Copy& copy : part.inputs) {
      ASSERT_LE(copy.at + copy.bytes, part.bytes);
      std::memcpy(rank.slot.data() + copy.at, copy.device, copy.bytes);
    }
  }

  static void copy_out(const Rank& rank, const CrossingPart& part) {
    for (const CrossingPart::Copy& copy : part.outputs) {
      ASSERT_LE(copy.at + copy.bytes, part.bytes);
      std::memcpy(copy.device, rank.slot.data() + copy.at, copy.bytes);
    }
  }

  void run_between_nodes(std::size_t part) {
    const CrossingPart::Call& first = all_.front().parts[part].calls.front();
    const int places = first.among_counterparts ? all_.front().shape.ranks_a_node() : 1;
    for (int place = 0; place < places; ++place) {
      std::vector<Operation> ops;
      for (int rank = place; rank < ranks_; rank += places) {
        Rank& member = all_[static_cast<std::size_t>(rank)];
        const CrossingPart::Call& call = member.parts[part].calls.front();
        Operation op = call.operation;
        op.send = member.slot.data() + call.input_at;
        op.recv = member.slot.data() + call.output_at;
        ops.push_back(op);
      }
      run_collective(ops);
    }
  }

  int ranks_;
  Problem problem_;
  std::vector<Rank> all_;
};

std::vector<int> even(int nodes, int ranks_a_node) {
  std::vector<int> result;
  for (int rank = 0; rank < nodes * ranks_a_node; ++rank) {
    result.push_back(rank / ranks_a_node);
  }
  return result;
}

constexpr std::array kCollectives = {Collective::kAllReduce,
                                     Collective::kReduceScatter,
                                     Collective::kAllGather,
                                     Collective::kBroadcast,
                                     Collective::kAllToAll,
                                     Collective::kReduce,
                                     Collective::kGather,
                                     Collective::kScatter};

void run_all(const std::vector<int>& nodes) {
  for (const Collective collective : kCollectives) {
    const auto last = static_cast<int>(nodes.size()) - 1;
    for (const std::int64_t count : {1, 17, 1000, last < 6 ? 9'001 : 2'001}) {
      for (const int root : is_rooted(collective) ? std::set{0, last} : std::set{0}) {
        for (const bool in_place : {false, true}) {
          const Setting setting{nodes, collective, count, root, in_place};
          SCOPED_TRACE(text(setting));
          Job job(setting, 8 * 1024);
          job.run();
          job.check();
        }
      }
    }
  }
}

TEST(Crossing, GivesWhatTheCallPromises) {
  for (int nodes = 1; nodes <= 4; ++nodes) {
    for (int ranks_a_node = 1; ranks_a_node <= 4; ++ranks_a_node) {
      run_all(even(nodes, ranks_a_node));
    }
  }
}

TEST(Crossing, NeedsNoEqualNodesNorNeighbours) {
  run_all({0, 0, 1});
  run_all({0, 1, 0, 1});
  run_all({0, 0, 1, 1, 1});
  run_all({0, 1, 2, 1});
  run_all({0, 0, 1, 1, 2, 2, 1, 1});
}

TEST(Crossing, SendsEachPartOverOneCard) {
  const auto sent = [](Collective collective, int ranks_a_node) {
    const Job job({even(2, ranks_a_node), collective, 40'000}, 16 * 1024);
    return job.elements_sent();
  };
  // The two nodes' sums, whoever carries them.
  EXPECT_EQ(sent(Collective::kAllReduce, 1), 2 * 40'000);
  EXPECT_EQ(sent(Collective::kAllReduce, 4), 2 * 40'000);
  EXPECT_EQ(sent(Collective::kReduceScatter, 4), 8 * 2 * 40'000);
  EXPECT_EQ(sent(Collective::kBroadcast, 4), 40'000);
  EXPECT_EQ(sent(Collective::kAllToAll, 4), 8 * 4 * 40'000);
}

TEST(Crossing, DividesAnAverageOnce) {
  const NodeShape shape{.rank = 1, .nodes = even(2, 2)};
  Vector memory(100);
  const Operation op{.collective = Collective::kAllReduce,
                     .send = memory.data(),
                     .recv = memory.data(),
                     .count = 100,
                     .dtype = Dtype::kFloat64,
                     .op = ReduceOp::kAvg,
                     .request = {}};
  const Crossing crossing = cross(op, shape, false, nullptr);
  EXPECT_EQ(crossing.before.front().op, ReduceOp::kSum);
  EXPECT_EQ(crossing.calls.front().operation.op, ReduceOp::kAvg);
  EXPECT_EQ(crossing.calls.front().operation.averaged_over, 4);
}

TEST(Crossing, KeepsTheOrderOfRanksOrANamedAlgorithm) {
  const NodeShape shape{.rank = 1, .nodes = even(2, 2)};
  Vector memory(100);
  Operation op{.collective = Collective::kAllReduce,
               .send = memory.data(),
               .recv = memory.data(),
               .count = 100,
               .dtype = Dtype::kFloat64,
               .request = {}};
  EXPECT_FALSE(cross(op, shape, true, nullptr).calls.front().among_counterparts);
  op.request.algorithm = "ring";
  const Crossing crossing = cross(op, shape, false, nullptr);
  EXPECT_TRUE(crossing.before.empty());
  EXPECT_FALSE(crossing.calls.front().among_counterparts);
  EXPECT_EQ(crossing.calls.front().operation.request.algorithm, "ring");
}

}  // namespace
}  // namespace sennit
