// Calls that ask for two paths, as users make them: the same bits as on one path, for every
// algorithm that can be carried so and every way of choosing.
#include "algo/algorithm.hpp"
#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sennit {
namespace {

// Several tiles of a slot in every block, and a rest.
constexpr std::size_t kCount = 25'003;
constexpr std::int64_t kSlotBytes = 16 * 1024;

struct CallOnce {
  Collective collective;
  sennit_redop_t op;
  const float* send;
  float* recv;
  sennit_comm_t comm;
};

sennit_status_t run(const CallOnce& call, const sennit_call_options_t& options) {
  constexpr auto kType = SENNIT_FLOAT32;
  const auto& [collective, op, send, recv, comm] = call;
  switch (collective) {
    case Collective::kAllReduce:
      return sennit_all_reduce(send, recv, kCount, kType, op, comm, nullptr, &options);
    case Collective::kReduce:
      return sennit_reduce(send, recv, kCount, kType, op, 0, comm, nullptr, &options);
    case Collective::kBroadcast:
      return sennit_broadcast(send, recv, kCount, kType, 0, comm, nullptr, &options);
    case Collective::kAllGather:
      return sennit_all_gather(send, recv, kCount, kType, comm, nullptr, &options);
    case Collective::kReduceScatter:
      return sennit_reduce_scatter(send, recv, kCount, kType, op, comm, nullptr, &options);
    case Collective::kAllToAll:
      return sennit_all_to_all(send, recv, kCount, kType, comm, nullptr, &options);
    case Collective::kGather:
      return sennit_gather(send, recv, kCount, kType, 0, comm, nullptr, &options);
    case Collective::kScatter:
      return sennit_scatter(send, recv, kCount, kType, 0, comm, nullptr, &options);
    case Collective::kBarrier:
    case Collective::kSendRecv:
      break;
  }
  return SENNIT_INVALID_ARGUMENT;
}

struct Tally {
  int carried = 0;
  int refused = 0;
  std::string defect;
};

bool uses_both_paths(sennit_comm_t comm) {
  char* answer = nullptr;
  const bool has_plan = sennit_tool_last_plan(comm, &answer) == SENNIT_OK;
  const std::string_view text = has_plan ? answer : "";
  const bool both = text.find("\"shm\"") != std::string_view::npos &&
                    text.find("\"cma\"") != std::string_view::npos;
  sennit_tool_free(answer);
  return both;
}

struct Subject {
  const Algorithm* algorithm;
  sennit_redop_t op;
};

// Of a rank for all its calls: with sanitizers, fresh memory takes longer than a call.
struct Buffers {
  Buffers(int rank, int ranks) : input(kCount * static_cast<std::size_t>(ranks)) {
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(rank) * 1013) % 9973) * 0.1F;
    }
  }

  std::vector<float> input;
  std::map<std::string_view, std::vector<float>> outputs{};  // by path
};

void compare_paths(const Subject& subject, Buffers& buffers, sennit_comm_t comm, Tally& tally) {
  const Algorithm& algorithm = *subject.algorithm;
  auto& [input, outputs] = buffers;
  for (const char* path : {"shm", "shm+cma", "cma+shm"}) {
    std::vector<float>& output = outputs[path];
    output.assign(input.size(), -1.0F);
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    const std::string name(algorithm.name);
    options.algorithm = name.c_str();
    options.path = path;
    const sennit_status_t status =
        run({algorithm.collective, subject.op, input.data(), output.data(), comm}, options);
    const bool may_be_refused = std::string_view(path) != "shm";
    if (may_be_refused && (status == SENNIT_NOT_PROVED || status == SENNIT_UNSUPPORTED)) {
      ++tally.refused;
      continue;
    }
    if (status != SENNIT_OK) {
      tally.defect = sennit_last_error_message();
    } else if (may_be_refused && !uses_both_paths(comm)) {
      tally.defect = name + " was not carried over both paths";
    } else if (std::memcmp(output.data(), outputs["shm"].data(), input.size() * sizeof(float)) !=
               0) {
      tally.defect = name + " has other bits over " + path;
    }
    tally.carried += may_be_refused ? 1 : 0;
  }
}

// What is scaled on the way is scaled once, whichever path it takes.
std::vector<sennit_redop_t> operators(Collective collective, sennit_redop_t premul_sum) {
  return is_reduction(collective) ? std::vector{SENNIT_SUM, SENNIT_AVG, premul_sum}
                                  : std::vector{SENNIT_SUM};
}

void compare_paths_of_all(int rank, int ranks, sennit_comm_t comm, Tally& tally) {
  const float scalar = 1.0F / static_cast<float>(rank + 3);
  sennit_redop_t premul_sum = SENNIT_SUM;
  EXPECT_EQ(sennit_redop_create_premulsum(&premul_sum, &scalar, SENNIT_FLOAT32, comm), SENNIT_OK);
  Shape shape;
  shape.ranks = ranks;
  Buffers buffers(rank, ranks);
  for (const Collective collective : kCollectives) {
    if (collective == Collective::kBarrier || collective == Collective::kSendRecv) {
      continue;
    }
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const sennit_redop_t op : operators(collective, premul_sum)) {
        if (algorithm.refuses(shape).empty() && tally.defect.empty()) {
          compare_paths({&algorithm, op}, buffers, comm, tally);
        }
      }
    }
  }
}

class TwoPaths : public testing::TestWithParam<std::string_view> {};

TEST_P(TwoPaths, CarryTheSameBitsAsOne) {
  for (const int ranks : {2, 5}) {
    SCOPED_TRACE(ranks);
    sennit_unique_id_t id;
    ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
    std::vector<Tally> tallies(static_cast<std::size_t>(ranks));
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          const std::string policy(GetParam());
          sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
          config.path_policy = policy.c_str();
          config.ports = 8;
          config.slot_bytes = kSlotBytes;
          sennit_comm_t comm = nullptr;
          ASSERT_EQ(sennit_comm_init_rank(&comm, ranks, &id, rank, &config), SENNIT_OK);
          compare_paths_of_all(rank, ranks, comm, tallies[static_cast<std::size_t>(rank)]);
          EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
        });
      }
    }
    for (const Tally& tally : tallies) {
      EXPECT_EQ(tally.defect, "");
      EXPECT_EQ(tally.carried, tallies.front().carried);
      EXPECT_EQ(tally.refused, tallies.front().refused);
      EXPECT_GT(tally.carried, 20);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies,
    TwoPaths,
    testing::Values("least_loaded", "fixed:1", "round_robin", "random:1", "dynamic", "claimed"));

TEST(TwoPathsAsked, AreRefusedByNameWhereTheyCannotBe) {
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  sennit_comm_t comm = nullptr;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.path_policy = "best";
  EXPECT_EQ(sennit_comm_init_rank(&comm, 1, &id, 0, &config), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string_view(sennit_last_error_message()).find("least_loaded"),
            std::string_view::npos);
  config.path_policy = nullptr;
  config.paths = "shm";
  ASSERT_EQ(sennit_comm_init_rank(&comm, 1, &id, 0, &config), SENNIT_OK);
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  float value = 1.0F;
  options.path = "shm+cma";
  EXPECT_EQ(
      sennit_all_reduce(&value, &value, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options),
      SENNIT_UNSUPPORTED);
  options.path = "shm+shm";
  EXPECT_EQ(
      sennit_all_reduce(&value, &value, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options),
      SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

}  // namespace
}  // namespace sennit
