#include "exec/stream/leader_operations.hpp"

#include "algo/algorithm.hpp"
#include "exec/stream/testing/queue_steps.hpp"
#include "schedule/passes.hpp"
#include "verify/queues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace sennit::stream {
namespace {

std::vector<StreamProgram> programs_of(Collective collective, const Shape& shape) {
  const char* const algorithm = collective == Collective::kAllReduce ? "leader" : "direct";
  const Algorithm* const found = find_algorithm(collective, algorithm).value();
  const Schedule schedule = loosen(make_schedule(*found, shape).value());
  std::vector<StreamProgram> programs;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    programs.push_back(compile_stream(schedule, rank).value());
  }
  return programs;
}

OperationList operations_of(const std::vector<StreamProgram>& programs,
                            int rank,
                            bool are_all_idle = false) {
  static constexpr char kKernel = 0;
  std::vector<Buffers> peers(programs.size());
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    peers[peer].input = reinterpret_cast<std::byte*>((2 * peer + 1) << 40U);
    peers[peer].output = reinterpret_cast<std::byte*>((2 * peer + 2) << 40U);
  }
  const StreamCall call{.input = peers.front().input,
                        .output = peers.front().output,
                        .peers = peers,
                        .count = 1000,
                        .copy = &kKernel,
                        .number = 1,
                        .are_all_idle = are_all_idle};
  OperationList list;
  append_by_leader(programs, rank, call, list);
  return list;
}

template <typename What>
int count(const OperationList& list) {
  return static_cast<int>(std::ranges::count_if(list.operations, [](const Operation& operation) {
    return std::holds_alternative<What>(operation.what);
  }));
}

TEST(LeaderOperations, OneKernelSumsAndMembersOnlyWait) {
  const std::vector<StreamProgram> programs = programs_of(Collective::kAllReduce, {.ranks = 5});
  for (int rank = 0; rank < 5; ++rank) {
    const OperationList list = operations_of(programs, rank);
    EXPECT_EQ(count<ReduceBytes>(list), rank == kLeader ? 1 : 0);
    EXPECT_EQ(count<CopyBytes>(list), 0);
    EXPECT_EQ(count<AwaitFlag>(list), rank == kLeader ? 4 : 1);
  }
}

TEST(LeaderOperations, NobodyWaitsForStreamsThatWereIdle) {
  const std::vector<StreamProgram> programs = programs_of(Collective::kAllReduce, {.ranks = 5});
  for (int rank = 0; rank < 5; ++rank) {
    const OperationList list = operations_of(programs, rank, /*are_all_idle=*/true);
    EXPECT_EQ(count<AwaitFlag>(list), rank == kLeader ? 0 : 1);  // a member for the leader
    const auto fills_ready = [&](const Operation& operation) {
      const auto* const store = std::get_if<StoreFlag>(&operation.what);
      return store != nullptr && store->flag == ready_flag(kLeader, rank, kLeadersChannel, 0);
    };
    EXPECT_EQ(std::ranges::count_if(list.operations, fills_ready), 0);
  }
}

TEST(LeaderOperations, ASumGoesToTheOutputsOfAll) {
  const OperationList list =
      operations_of(programs_of(Collective::kAllReduce, {.ranks = 4}), kLeader);
  std::vector<int> outputs;
  for (const Operation& operation : list.operations) {
    if (const auto* const sum = std::get_if<ReduceBytes>(&operation.what)) {
      outputs.push_back(sum->to.index);
      ASSERT_EQ(static_cast<std::size_t>(sum->count + sum->copies), list.operands.size());
      for (std::size_t i = 4; i < list.operands.size(); ++i) {
        EXPECT_EQ(list.operands[i].place.memory, Memory::kOutput);
        outputs.push_back(list.operands[i].place.index);
      }
    }
  }
  std::ranges::sort(outputs);
  EXPECT_EQ(outputs, (std::vector{0, 1, 2, 3}));
}

// Each part of a reduce_scatter is summed straight into the output of its rank.
TEST(LeaderOperations, SumsGoWhereTheyBelong) {
  const OperationList list =
      operations_of(programs_of(Collective::kReduceScatter, {.ranks = 3}), kLeader);
  std::vector<int> outputs;
  for (const Operation& operation : list.operations) {
    if (const auto* const sum = std::get_if<ReduceBytes>(&operation.what)) {
      EXPECT_EQ(sum->to.memory, Memory::kOutput);
      outputs.push_back(sum->to.index);
    }
  }
  EXPECT_EQ(outputs, (std::vector{0, 1, 2}));
  EXPECT_EQ(count<CopyBytes>(list), 0);
}

template <typename Function>
void for_each_plan(Function function) {
  for (const Collective collective : {Collective::kAllReduce,
                                      Collective::kReduce,
                                      Collective::kBroadcast,
                                      Collective::kAllGather,
                                      Collective::kReduceScatter,
                                      Collective::kAllToAll,
                                      Collective::kGather,
                                      Collective::kScatter}) {
    for (int ranks = 2; ranks <= 8; ++ranks) {
      for (int root = 0; root < (is_rooted(collective) ? ranks : 1); ++root) {
        function(collective, programs_of(collective, {.ranks = ranks, .root = root}));
      }
    }
  }
}

// One launch runs them at once.
TEST(LeaderOperations, NoCopyTouchesWhatAnotherOneWrites) {
  const auto overlap = [](const Place& a, const Place& b, std::int64_t bytes) {
    return a.memory == b.memory && a.index == b.index && a.at < b.at + bytes && b.at < a.at + bytes;
  };
  for_each_plan([&](Collective collective, const std::vector<StreamProgram>& programs) {
    std::vector<CopyBytes> copies;
    for (const Operation& operation : operations_of(programs, kLeader).operations) {
      if (const auto* const copy = std::get_if<CopyBytes>(&operation.what)) {
        EXPECT_TRUE(copy->is_by_kernel);
        copies.push_back(*copy);
      }
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      for (std::size_t j = 0; j < copies.size(); ++j) {
        const std::int64_t bytes = std::max(copies[i].bytes, copies[j].bytes);
        EXPECT_FALSE(overlap(copies[i].to, copies[j].from, bytes) ||
                     (i != j && overlap(copies[i].to, copies[j].to, bytes)))
            << name(collective) << " of " << programs.size();
      }
    }
  });
}

// With one queue for all streams of a process, and calls one after the other.
TEST(LeaderOperations, CallsEndWithOneQueue) {
  for_each_plan([](Collective collective, const std::vector<StreamProgram>& programs) {
    std::vector<IssuedSteps> issued(programs.size());
    for (std::size_t rank = 0; rank < issued.size(); ++rank) {
      issued[rank].device = static_cast<int>(rank);
      issued[rank].process = static_cast<int>(rank);
      for (int call = 0; call < 3; ++call) {
        issued[rank].meetings.push_back(issued[rank].steps.size());
        append_steps(operations_of(programs, static_cast<int>(rank)), issued[rank]);
      }
    }
    const Status status = check_queues(issued, {.queues = Queues::kOne}, flag_name);
    EXPECT_TRUE(status.ok()) << name(collective) << " of " << programs.size() << ": "
                             << status.message();
  });
}

}  // namespace
}  // namespace sennit::stream
