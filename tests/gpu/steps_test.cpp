// Calls that kernels run step by step, whatever the hops of their schedule: every byte of every
// output compared with the host's arithmetic. Sums of these schedules have orders of their own, so
// elements are integers, or the schedule one that sums in the order of ranks. Ranks share a GPU
// where there are fewer GPUs than ranks.
#include "device_ranks.hpp"

#include "algo/algorithm.hpp"
#include "select/device_choice.hpp"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::array kMoving = {Collective::kAllReduce,
                                Collective::kReduce,
                                Collective::kReduceScatter,
                                Collective::kBroadcast,
                                Collective::kAllGather,
                                Collective::kAllToAll,
                                Collective::kGather,
                                Collective::kScatter};

class DeviceSteps : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (device_count() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
  void TearDown() override {
    unsetenv("SENNIT_DEVICE_GROUP");
    unsetenv("SENNIT_MACHINE");
  }

  // The rows that have no other kernel.
  template <typename Function>
  static void for_each_row(int ranks, Function function) {
    for (const Collective collective : kMoving) {
      for (const Algorithm& row : algorithms(collective)) {
        const Shape shape{.ranks = ranks, .root = is_rooted(collective) ? ranks - 1 : 0};
        if (!has_direct_kernel(row.name) && row.refuses(shape).empty()) {
          function(row, shape);
        }
      }
    }
  }

  static void run_every_row(DeviceRanks& ranks) {
    for_each_row(ranks.size(), [&](const Algorithm& row, const Shape& shape) {
      for (const std::int64_t count : {1, 241, 70'001}) {
        for (const std::size_t offset : {0, 1}) {
          if (HasFailure()) {
            return;
          }
          SCOPED_TRACE(row.name);
          ranks.run({.collective = row.collective,
                     .count = count,
                     .dtype = Dtype::kInt32,
                     .root = shape.root,
                     .offset = offset,
                     .algorithm = row.name.data()});
        }
      }
    });
  }
};

TEST_P(DeviceSteps, EveryRowAtEverySizeAndAlignment) {
  DeviceRanks ranks(GetParam());
  run_every_row(ranks);
}

// Kernels use device memory within groups, and host memory between them.
TEST_P(DeviceSteps, EveryRowOverTwoPaths) {
  setenv("SENNIT_DEVICE_GROUP", "2", 1);
  DeviceRanks ranks(GetParam());
  run_every_row(ranks);
}

TEST_P(DeviceSteps, LargeVectorsInManyTiles) {
  DeviceRanks ranks(GetParam());
  for (const char* algorithm : {"ring", "hierarchical", "hierarchical_sliced"}) {
    for (const bool in_place : {false, true}) {
      ranks.run({.count = 5'000'003,
                 .dtype = Dtype::kInt32,
                 .in_place = in_place,
                 .algorithm = algorithm});
      ASSERT_FALSE(HasFailure()) << algorithm;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceSteps, ::testing::Values(2, 3, 4, 8));

class DeviceStepsOfFour : public DeviceSteps {};

// Over two paths, where slots of reductions go step by step whatever the hops.
TEST_P(DeviceStepsOfFour, EveryTypeOfTheTable) {
  setenv("SENNIT_DEVICE_GROUP", "2", 1);
  DeviceRanks ranks(GetParam());
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (has_operator(dtype, op)) {
        ranks.run({.count = 40'003,
                   .dtype = dtype,
                   .op = op,
                   .algorithm = "two_shot",
                   .protocol = has_every_kernel(op) ? "slots" : ""});
        ASSERT_FALSE(HasFailure()) << name(dtype) << " " << name(op);
      }
    }
  }
}

TEST_P(DeviceStepsOfFour, AndPacketsTakeTurnsInFlight) {
  DeviceRanks ranks(GetParam());
  const DeviceCase ring{.count = 50'001, .dtype = Dtype::kInt32, .algorithm = "ring"};
  const DeviceCase tree{.count = 50'001, .dtype = Dtype::kInt32, .algorithm = "hierarchical"};
  const DeviceCase packets{.count = 50'001, .dtype = Dtype::kInt32};
  const std::vector<Bytes> inputs = ranks.start(ring);
  for (int i = 0; i < 50; ++i) {
    for (const DeviceCase& c : {tree, packets, ring}) {
      for (int rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_EQ(ranks[rank].call(c), SENNIT_OK) << sennit_last_error_message();
      }
    }
  }
  ranks.finish(ring, inputs);
}

// A call may be captured the first time it is made.
TEST_P(DeviceStepsOfFour, ReplaysAreCalls) {
  DeviceRanks ranks(GetParam());
  ranks.replay({.count = 50'001, .dtype = Dtype::kInt32, .algorithm = "ring"}, 100);
}

TEST_P(DeviceStepsOfFour, ReplaysOverTwoPathsAreCalls) {
  setenv("SENNIT_DEVICE_GROUP", "2", 1);
  DeviceRanks ranks(GetParam());
  for (const char* algorithm : {"ring", "hierarchical", "hierarchical_sliced"}) {
    ranks.replay({.count = 50'001, .dtype = Dtype::kInt32, .algorithm = algorithm}, 100);
    ASSERT_FALSE(HasFailure()) << algorithm;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceStepsOfFour, ::testing::Values(4));

// A description of this machine in which each GPU has a processor of its own.
std::string machine_of_islands(int gpus) {
  std::string text = "machine islands GPUs far from each other\nsource guess for this test\n";
  for (const char* const kind : {"gpu", "cpu"}) {
    text += fmt::format("{} 0..{}\n", kind, gpus - 1);
  }
  for (int i = 0; i < gpus; ++i) {
    text += fmt::format("link gpu{0} cpu{0} pcie 50 GB/s from guess\n", i);
  }
  return text;
}

// Says so to communicators that are made while it is there.
class DescribedMachine {
 public:
  explicit DescribedMachine(int gpus) {
    std::ofstream(file_) << machine_of_islands(gpus);
    setenv("SENNIT_MACHINE", file_.c_str(), 1);
  }
  ~DescribedMachine() { std::filesystem::remove(file_); }
  DescribedMachine(const DescribedMachine&) = delete;
  DescribedMachine& operator=(const DescribedMachine&) = delete;

 private:
  std::string file_ = fmt::format("/tmp/sennit-islands-{}", getpid());
};

// Ranks that share a GPU are of one island, whatever their numbers.
TEST_P(DeviceStepsOfFour, KeepToTheIslandsOfADescribedMachine) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  const DescribedMachine machine(device_count());
  DeviceRanks ranks(GetParam());
  DeviceCase c{.count = 50'001, .dtype = Dtype::kInt32};
  for (const char* algorithm : {"ring", "hierarchical", "hierarchical_sliced"}) {
    c.algorithm = algorithm;
    ranks.run(c);
    ASSERT_FALSE(HasFailure()) << algorithm;
  }
  c.path = "nvlink";
  for (int rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].call(c), SENNIT_UNSUPPORTED);
    EXPECT_NE(std::string(sennit_last_error_message()).find("SENNIT_MACHINE puts rank"),
              std::string::npos)
        << sennit_last_error_message();
  }
}

TEST_P(DeviceStepsOfFour, RefuseAMachineThatIsNotThisOne) {
  const auto expect_refused = [](const std::string& why) {
    sennit_comm_t comm = nullptr;
    const int device = device_count() - 1;
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.device = "cuda";
    EXPECT_EQ(sennit_comm_init_all(&comm, 1, &device, &config), SENNIT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sennit_last_error_message()).find(why), std::string::npos)
        << sennit_last_error_message();
  };
  {
    const DescribedMachine machine(device_count());
    setenv("SENNIT_DEVICE_GROUP", "2", 1);
    expect_refused("both declare groups");
    unsetenv("SENNIT_DEVICE_GROUP");
  }
  expect_refused("is no file that can be read");
  if (device_count() > 1) {
    const DescribedMachine machine(device_count() - 1);
    expect_refused(fmt::format("islands has {} GPUs", device_count() - 1));
  }
}

}  // namespace
}  // namespace sennit::tests
