// The interface of NCCL on host ranks: what its calls compute, and its communicators.
#include "nccl/nccl_ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Their arguments are not looked at.
// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {
ncclResult_t ncclCommGrow();
ncclResult_t ncclCommGetUniqueId();
ncclResult_t ncclCommRevoke();
ncclResult_t ncclCommSuspend();
ncclResult_t ncclCommResume();
ncclResult_t ncclCommMemStats();
}
// NOLINTEND(readability-identifier-naming)

namespace {

using namespace sennit_nccl_test;  // NOLINT(google-build-using-namespace): helpers

constexpr int kRanks = 4;
constexpr std::size_t kCount = 1000;

class HostRanks : public testing::Environment {
 public:
  void SetUp() override { ::setenv("SENNIT_DEVICE", "host", 1); }
};
const testing::Environment* const kHostRanks =
    testing::AddGlobalTestEnvironment(new HostRanks);  // NOLINT: GoogleTest deletes it

TEST(NcclCalls, ComputeWhatTheyAreNamedFor) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const std::vector<float> in = values(rank, kCount * kRanks);
    std::vector<float> out(kCount * kRanks);
    const auto at = [&](int from, std::size_t i) { return values(from, i + 1)[i]; };
    const auto mine = kCount * static_cast<std::size_t>(rank);

    EXPECT_DONE(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclMax, comm, nullptr));
    EXPECT_EQ(out[7], at(kRanks - 1, 7));
    EXPECT_DONE(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclMin, comm, nullptr));
    EXPECT_EQ(out[7], at(0, 7));
    EXPECT_DONE(ncclReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, 1, comm, nullptr));
    EXPECT_TRUE(rank != 1 || out[9] == at(0, 9) + at(1, 9) + at(2, 9) + at(3, 9));
    EXPECT_DONE(ncclBroadcast(in.data(), out.data(), kCount, ncclFloat32, 2, comm, nullptr));
    EXPECT_EQ(out[kCount - 1], at(2, kCount - 1));
    EXPECT_DONE(ncclAllGather(in.data(), out.data(), kCount, ncclFloat32, comm, nullptr));
    EXPECT_EQ(out[3 * kCount + 5], at(3, 5));
    EXPECT_DONE(
        ncclReduceScatter(in.data(), out.data(), kCount, ncclFloat32, ncclAvg, comm, nullptr));
    EXPECT_EQ(out[1], (at(0, mine + 1) + at(3, mine + 1)) / 2);
    EXPECT_DONE(ncclAlltoAll(in.data(), out.data(), kCount, ncclFloat32, comm, nullptr));
    EXPECT_EQ(out[2 * kCount + 4], at(2, mine + 4));
    EXPECT_DONE(ncclGather(in.data(), out.data(), kCount, ncclFloat32, 0, comm, nullptr));
    EXPECT_TRUE(rank != 0 || out[kCount + 6] == at(1, 6));
    EXPECT_DONE(ncclScatter(in.data(), out.data(), kCount, ncclFloat32, 3, comm, nullptr));
    EXPECT_EQ(out[8], at(3, mine + 8));
    out = in;
    EXPECT_DONE(ncclBcast(out.data(), kCount, ncclFloat32, 1, comm, nullptr));
    EXPECT_EQ(out[11], at(1, 11));
  });
}

TEST(NcclCalls, EveryTypeIsTheOneOfItsName) {
  run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
    // 64 in each type: its sum over two ranks tells the types apart, float8 included.
    const std::vector<std::pair<ncclDataType_t, std::vector<unsigned char>>> sixty_four = {
        {ncclInt8, {63}},
        {ncclUint8, {64}},
        {ncclInt32, {64, 0, 0, 0}},
        {ncclUint32, {64, 0, 0, 0}},
        {ncclInt64, {64, 0, 0, 0, 0, 0, 0, 0}},
        {ncclUint64, {64, 0, 0, 0, 0, 0, 0, 0}},
        {ncclFloat16, {0x00, 0x54}},
        {ncclFloat32, {0, 0, 0x80, 0x42}},
        {ncclFloat64, {0, 0, 0, 0, 0, 0, 0x50, 0x40}},
        {ncclBfloat16, {0x80, 0x42}},
        {ncclFloat8e4m3, {0x68}},
        {ncclFloat8e5m2, {0x54}}};
    const std::vector<std::vector<unsigned char>> twice = {{126},
                                                           {128},
                                                           {128, 0, 0, 0},
                                                           {128, 0, 0, 0},
                                                           {128, 0, 0, 0, 0, 0, 0, 0},
                                                           {128, 0, 0, 0, 0, 0, 0, 0},
                                                           {0x00, 0x58},
                                                           {0, 0, 0, 0x43},
                                                           {0, 0, 0, 0, 0, 0, 0x60, 0x40},
                                                           {0x00, 0x43},
                                                           {0x70},
                                                           {0x58}};
    for (std::size_t i = 0; i < sixty_four.size(); ++i) {
      std::vector<unsigned char> x = sixty_four[i].second;
      EXPECT_DONE(
          ncclAllReduce(x.data(), x.data(), 1, sixty_four[i].first, ncclSum, comm, nullptr));
      EXPECT_EQ(x, twice[i]) << sixty_four[i].first;
    }
  });
}

TEST(NcclCalls, EveryTypeHasEveryOperator) {
  run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
    for (int i = 0; i < ncclNumTypes; ++i) {
      const auto type = static_cast<ncclDataType_t>(i);
      std::vector<double> x(8);
      ncclRedOp_t scaled = ncclSum;
      double zero = 0;
      ASSERT_DONE(ncclRedOpCreatePreMulSum(&scaled, &zero, type, ncclScalarHostImmediate, comm));
      for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, scaled}) {
        EXPECT_DONE(ncclAllReduce(x.data(), x.data(), 8, type, op, comm, nullptr));
      }
      EXPECT_DONE(ncclRedOpDestroy(scaled, comm));
    }
  });
}

TEST(NcclCalls, AScaledSumIsMadeOfTheScalarsOfTheRanks) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    auto scalar = static_cast<float>(rank);
    ncclRedOp_t op = ncclSum;
    ASSERT_DONE(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, comm));
    EXPECT_GE(op, ncclNumOps);
    float x = 10;
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, op, comm, nullptr));
    EXPECT_EQ(x, 60);
    EXPECT_DONE(ncclRedOpDestroy(op, comm));
    EXPECT_NE(ncclAllReduce(&x, &x, 1, ncclFloat32, op, comm, nullptr), ncclSuccess);
  });
}

TEST(NcclCalls, RefuseWhatIsNoneByName) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    float x = 1;
    const auto all_reduce = [&](int type, int op) {
      return ncclAllReduce(&x,
                           &x,
                           1,
                           static_cast<ncclDataType_t>(type),
                           static_cast<ncclRedOp_t>(op),
                           comm,
                           nullptr);
    };
    EXPECT_EQ(all_reduce(12, ncclSum), ncclInvalidArgument);
    EXPECT_EQ(ncclGetLastError(comm), std::string("data type 12 is none"));
    EXPECT_EQ(all_reduce(ncclFloat32, 5), ncclInvalidArgument);
    EXPECT_EQ(ncclGetLastError(comm), std::string("reduction operator 5 is none"));
    EXPECT_EQ(ncclSend(&x, 1, ncclFloat32, 2, comm, nullptr), ncclInvalidArgument) << rank;
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, nullptr, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_DONE(ncclGroupStart());
    EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage);
    EXPECT_DONE(all_reduce(ncclFloat32, ncclSum));
    EXPECT_EQ(x, 2);
  });
}

// ---- Communicators ----

TEST(NcclCommunicators, ThatDoNotBlockAreAskedUntilTheyAreThere) {
  ncclUniqueId id;
  ASSERT_DONE(ncclGetUniqueId(&id));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclConfig_t config{};
      config.size = sizeof(config);
      config.magic = SENNIT_NCCL_CONFIG_MAGIC;
      config.version = SENNIT_NCCL_VERSION;
      config.blocking = 0;
      config.maxCTAs = SENNIT_NCCL_CONFIG_UNDEFINED;
      ncclComm_t comm = nullptr;
      ncclResult_t state = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
      ASSERT_EQ(state, ncclInProgress);
      while (state == ncclInProgress) {
        ASSERT_DONE(ncclCommGetAsyncError(comm, &state));
      }
      EXPECT_EQ(state, ncclSuccess);
      float x = 1;
      EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
      EXPECT_EQ(x, 2);
      EXPECT_DONE(ncclCommFinalize(comm));
      EXPECT_DONE(ncclCommDestroy(comm));
    });
  }
}

// A newer program's config is longer, an older one's shorter; what is not known is passed over.
TEST(NcclCommunicators, TakeConfigsOfAnyAge) {
  struct {
    ncclConfig_t known{};
    char unknown[64] = {1, 2, 3};
  } newer;
  newer.known.magic = SENNIT_NCCL_CONFIG_MAGIC;
  newer.known.blocking = 1;
  newer.known.maxCTAs = 8;
  newer.known.commName = "mine";
  for (const std::size_t size :
       {sizeof(newer), sizeof(ncclConfig_t), offsetof(ncclConfig_t, commName)}) {
    newer.known.size = size;
    ncclUniqueId id;
    ASSERT_DONE(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    EXPECT_DONE(ncclCommInitRankConfig(&comm, 1, id, 0, &newer.known));
    EXPECT_DONE(ncclCommDestroy(comm));
  }
  newer.known.magic = 1;
  const ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &newer.known), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

// It becomes device_blocks, in which ranks must not differ.
TEST(NcclCommunicators, TakeTheMostThreadBlocksOfACall) {
  ncclConfig_t config{};
  config.size = sizeof(config);
  config.magic = SENNIT_NCCL_CONFIG_MAGIC;
  config.blocking = 1;
  ncclUniqueId id;
  ASSERT_DONE(ncclGetUniqueId(&id));
  ncclComm_t none = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&none, 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("maxCTAs of the config is 0"),
            std::string::npos);
  std::array<std::string, 2> errors;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank, config]() mutable {
        config.maxCTAs = 8 + rank;
        ncclComm_t comm = nullptr;
        EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInvalidUsage);
        errors.at(static_cast<std::size_t>(rank)) = ncclGetLastError(nullptr);
      });
    }
  }
  EXPECT_NE(errors[1].find("device_blocks"), std::string::npos) << errors[0] << errors[1];
}

TEST(NcclCommunicators, ShrinkWithoutARank) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    int excluded = 1;
    ncclComm_t rest = nullptr;
    if (rank != 1) {
      ASSERT_DONE(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, 0));
      float x = 1;
      EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, rest, nullptr));
      EXPECT_EQ(x, 2);
      EXPECT_DONE(ncclCommDestroy(rest));
    }
  });
}

// Without it the call on the parent would wait for the rank that is left out.
TEST(NcclCommunicators, ShrinkEndsTheCallsOfTheParentWhereItIsAsked) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    ncclComm_t parent = nullptr;
    ASSERT_DONE(ncclCommSplit(comm, 0, rank, &parent, nullptr));
    if (rank != 1) {
      int excluded = 1;
      ncclComm_t rest = nullptr;
      ASSERT_DONE(ncclCommShrink(parent, &excluded, 1, &rest, nullptr, SENNIT_NCCL_SHRINK_ABORT));
      float x = 1;
      EXPECT_NE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, parent, nullptr), ncclSuccess);
      x = 1;
      EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, rest, nullptr));
      EXPECT_EQ(x, 2);
      EXPECT_DONE(ncclCommDestroy(rest));
    }
    float x = 1;
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(x, 3);
    ncclCommDestroy(parent);
  });
}

TEST(NcclCommunicators, OfSeveralIdsMeetAndTellWhoTheyAre) {
  std::array<ncclUniqueId, 2> ids{};
  for (ncclUniqueId& id : ids) {
    ASSERT_DONE(ncclGetUniqueId(&id));
  }
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRankScalable(&comm, 3, rank, 0, ids.data(), nullptr),
                ncclInvalidArgument);
      ASSERT_DONE(ncclCommInitRankScalable(&comm, 3, rank, 2, ids.data(), nullptr));
      int size = 0;
      int own = -1;
      int device = -1;
      EXPECT_DONE(ncclCommCount(comm, &size));
      EXPECT_DONE(ncclCommUserRank(comm, &own));
      EXPECT_DONE(ncclCommCuDevice(comm, &device));
      EXPECT_EQ((std::array{size, own, device}), (std::array{3, rank, 0}))
          << "a rank on the host has no device: 0";
      float x = 1;
      EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
      EXPECT_EQ(x, 3);
      EXPECT_DONE(ncclCommDestroy(comm));
    });
  }
}

TEST(NcclCommunicators, RefuseByNameWhatIsAboutNcclsOwn) {
  const std::vector<std::pair<std::string, ncclResult_t (*)()>> refused = {
      {"ncclCommGrow", ncclCommGrow},
      {"ncclCommGetUniqueId", ncclCommGetUniqueId},
      {"ncclCommRevoke", ncclCommRevoke},
      {"ncclCommSuspend", ncclCommSuspend},
      {"ncclCommResume", ncclCommResume},
      {"ncclCommMemStats", ncclCommMemStats}};
  for (const auto& [name, call] : refused) {
    EXPECT_EQ(call(), ncclInvalidUsage) << name;
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)).rfind(name + " is not among", 0), 0U)
        << ncclGetLastError(nullptr);
  }
}

TEST(NcclCommunicators, AnAbortIsToldToTheOthers) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    if (rank == 0) {
      ncclComm_t doomed = nullptr;
      ASSERT_DONE(ncclCommSplit(comm, 0, 0, &doomed, nullptr));
      EXPECT_DONE(ncclCommAbort(doomed));
    } else {
      ncclComm_t doomed = nullptr;
      ASSERT_DONE(ncclCommSplit(comm, 0, 0, &doomed, nullptr));
      float x = 1;
      EXPECT_NE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, doomed, nullptr), ncclSuccess);
      EXPECT_NE(std::string(ncclGetLastError(doomed)), "");
      EXPECT_DONE(ncclCommDestroy(doomed));
    }
  });
}

// As PyTorch's watchdog does: by another thread than the one that waits, in a group or without.
TEST(NcclCommunicators, AnAbortLetsAThreadOutOfItsCallBeforeItFrees) {
  for (const bool grouped : {false, true}) {
    run_ranks(2, [&](int rank, ncclComm_t comm) {
      ncclComm_t doomed = nullptr;
      ASSERT_DONE(ncclCommSplit(comm, 0, 0, &doomed, nullptr));
      if (rank == 1) {  // never makes the call
        float x = 1;
        EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
        EXPECT_DONE(ncclCommDestroy(doomed));
        return;
      }
      std::atomic<bool> is_at_its_call = false;
      std::jthread waiting([&] {
        float x = 1;
        if (grouped) {
          EXPECT_DONE(ncclGroupStart());
        }
        is_at_its_call = true;
        is_at_its_call.notify_one();
        ncclResult_t result = ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, doomed, nullptr);
        if (grouped) {
          EXPECT_EQ(std::exchange(result, ncclGroupEnd()), ncclSuccess);
        }
        EXPECT_NE(result, ncclSuccess);
      });
      is_at_its_call.wait(false);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      EXPECT_DONE(ncclCommAbort(doomed));
      waiting.join();
      float x = 1;
      EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
    });
  }
}

// What waits for its group's end is a call, too.
TEST(NcclCommunicators, AnAbortFreesNothingThatAGroupWillUse) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    ncclComm_t doomed = nullptr;
    ASSERT_DONE(ncclCommSplit(comm, 0, 0, &doomed, nullptr));
    if (rank == 0) {
      std::array<char, 64> buffer{};
      ncclWindow_t window = nullptr;
      EXPECT_DONE(ncclGroupStart());
      EXPECT_DONE(ncclCommWindowRegister(doomed, buffer.data(), buffer.size(), &window, 1));
      std::atomic<bool> is_freed{false};
      const std::jthread watchdog([&] {
        EXPECT_DONE(ncclCommAbort(doomed));
        is_freed = true;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_FALSE(is_freed);
      EXPECT_NE(ncclGroupEnd(), ncclSuccess);
    }
    float x = 1;
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
    if (rank == 1) {
      EXPECT_DONE(ncclCommDestroy(doomed));
    }
  });
}

// Without one, a program's ranks may wait for each other as long as they like.
TEST(NcclCommunicators, ADeadlineIsKeptWhereOneIsSet) {
  ::setenv("SENNIT_DEADLINE_S", "0.2", 1);
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    float x = 1;
    if (rank == 0) {
      EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr), ncclRemoteError);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
  });
  ::unsetenv("SENNIT_DEADLINE_S");
}

TEST(NcclCommunicators, RegistrationAndWindowsAreTaken) {
  run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
    void* memory = nullptr;
    ASSERT_DONE(ncclMemAlloc(&memory, 4096));
    void* handle = nullptr;
    EXPECT_DONE(ncclCommRegister(comm, memory, 4096, &handle));
    EXPECT_DONE(ncclCommDeregister(comm, handle));
    ncclWindow_t window = nullptr;
    EXPECT_DONE(ncclCommWindowRegister(comm, memory, 4096, &window, 1));
    EXPECT_DONE(ncclCommWindowDeregister(comm, window));
    EXPECT_DONE(ncclMemFree(memory));
  });
}

}  // namespace
