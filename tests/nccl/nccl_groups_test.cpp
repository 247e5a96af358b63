// The interface of NCCL on host ranks: groups in all their forms.
#include "nccl/nccl_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace sennit_nccl_test;  // NOLINT(google-build-using-namespace): helpers

constexpr int kRanks = 4;
constexpr std::size_t kCount = 1000;

TEST(NcclGroups, OneThreadMakesAllRanksAndTheirCalls) {
  const Comms comms = make_in_group(kRanks);
  std::vector<std::vector<float>> in;
  std::vector<float> out(kRanks);
  EXPECT_DONE(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    in.push_back(values(rank, 1));
    EXPECT_DONE(ncclAllReduce(in[r].data(), &out[r], 1, ncclFloat32, ncclSum, comms[r], nullptr));
  }
  EXPECT_DONE(ncclGroupEnd());
  EXPECT_EQ(out, std::vector<float>(kRanks, 60000));
  destroy(comms);
}

TEST(NcclGroups, InitAllMakesAllRanks) {
  Comms comms(3);
  ASSERT_DONE(ncclCommInitAll(comms.data(), 3, nullptr));
  for (int rank = 0; rank < 3; ++rank) {
    int found = -1;
    EXPECT_DONE(ncclCommUserRank(comms[static_cast<std::size_t>(rank)], &found));
    EXPECT_EQ(found, rank);
    EXPECT_DONE(ncclCommCount(comms[static_cast<std::size_t>(rank)], &found));
    EXPECT_EQ(found, 3);
  }
  destroy(comms);
}

TEST(NcclGroups, OneThreadSplitsAllRanks) {
  const Comms comms = make_in_group(kRanks);
  Comms halves(kRanks);
  EXPECT_DONE(ncclGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const int color = rank == 3 ? -1 : rank % 2;
    EXPECT_DONE(ncclCommSplit(comms[r], color, -rank, &halves[r], nullptr));
  }
  EXPECT_DONE(ncclGroupEnd());
  EXPECT_EQ(halves[3], nullptr);
  int rank = -1;
  EXPECT_DONE(ncclCommUserRank(halves[0], &rank));
  EXPECT_EQ(rank, 1) << "ordered by key";
  EXPECT_DONE(ncclCommCount(halves[1], &rank));
  EXPECT_EQ(rank, 1);
  destroy(halves);
  destroy(comms);
}

// Every rank sends to every other, in an order of its own; among it collectives on two
// communicators, nested groups, and messages of any length.
TEST(NcclGroups, AnyMixInAnyOrderEnds) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    ncclComm_t second = nullptr;
    ASSERT_DONE(ncclCommSplit(comm, 0, rank, &second, nullptr));
    for (unsigned round = 0; round < 20; ++round) {
      std::mt19937 shared(round);
      const std::size_t count = std::uniform_int_distribution<std::size_t>(0, 200'000)(shared);
      std::mt19937 own(round * kRanks + static_cast<unsigned>(rank));
      const std::vector<float> in = values(rank, count);
      std::vector<std::vector<float>> out(kRanks, std::vector<float>(count));
      std::vector<float> sums(2, static_cast<float>(rank));
      std::vector<std::function<ncclResult_t()>> calls;
      for (int peer = 0; peer < kRanks; ++peer) {
        calls.emplace_back(
            [&, peer] { return ncclSend(in.data(), count, ncclFloat32, peer, comm, nullptr); });
        calls.emplace_back([&, peer] {
          return ncclRecv(
              out[static_cast<std::size_t>(peer)].data(), count, ncclFloat32, peer, comm, nullptr);
        });
      }
      for (const bool other : {false, true}) {
        calls.emplace_back([&, other] {
          return ncclAllReduce(
              &sums[other], &sums[other], 1, ncclFloat32, ncclSum, other ? second : comm, nullptr);
        });
      }
      std::ranges::shuffle(calls, own);
      EXPECT_DONE(ncclGroupStart());
      for (const auto& call : calls) {
        EXPECT_DONE(ncclGroupStart());
        EXPECT_DONE(call());
        EXPECT_DONE(ncclGroupEnd());
      }
      EXPECT_DONE(ncclGroupEnd());
      EXPECT_EQ(sums, std::vector<float>(2, 6));
      for (int peer = 0; peer < kRanks; ++peer) {
        EXPECT_EQ(out[static_cast<std::size_t>(peer)], values(peer, count));
      }
    }
    EXPECT_DONE(ncclCommDestroy(second));
  });
}

TEST(NcclGroups, WhatARankSendsItselfItMustReceiveInTheSameGroup) {
  run_ranks(1, [](int /*rank*/, ncclComm_t comm) {
    const std::vector<float> in = values(3, kCount);
    std::vector<float> out(kCount);
    const auto send = [&] { return ncclSend(in.data(), kCount, ncclFloat32, 0, comm, nullptr); };
    const auto receive = [&](std::size_t count) {
      return ncclRecv(out.data(), count, ncclFloat32, 0, comm, nullptr);
    };
    EXPECT_EQ(send(), ncclInvalidArgument) << "outside a group it could only wait for ever";
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(send());
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("has no recv in its group"),
              std::string::npos);
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(receive(kCount - 1));
    EXPECT_DONE(send());
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclRecv(nullptr, 0, ncclFloat32, 0, comm, nullptr));
    EXPECT_DONE(ncclSend(nullptr, 0, ncclFloat32, 0, comm, nullptr));
    EXPECT_DONE(receive(kCount));
    EXPECT_DONE(send());
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_EQ(out, in);
  });
}

// Programs may ask at the end alone.
TEST(NcclGroups, WhatIsRefusedIsToldAtTheEndAndNothingIsMade) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    float x = 1;
    const auto all_reduce = [&](int type, int op, ncclComm_t on) {
      return ncclAllReduce(
          &x, &x, 1, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), on, nullptr);
    };
    const std::vector<std::function<ncclResult_t()>> refused = {
        [&] { return all_reduce(12, ncclSum, comm); },
        [&] { return all_reduce(ncclFloat32, 5, comm); },
        [&] { return all_reduce(ncclFloat32, ncclSum, nullptr); },
    };
    for (const auto& call : refused) {
      EXPECT_DONE(ncclGroupStart());
      EXPECT_DONE(all_reduce(ncclFloat32, ncclSum, comm));
      EXPECT_DONE(ncclGroupStart());
      EXPECT_EQ(call(), ncclInvalidArgument);
      const std::string why = ncclGetLastError(comm);
      EXPECT_DONE(ncclGroupEnd());
      EXPECT_DONE(all_reduce(ncclFloat32, ncclSum, comm));
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
      EXPECT_EQ(ncclGetLastError(comm), why) << rank;
      EXPECT_EQ(x, 1);
    }
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(all_reduce(ncclFloat32, ncclSum, comm));
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_EQ(x, 2);
  });
}

// The other rank never comes.
TEST(NcclGroups, DoNotWaitForWhatJoinsWhereTheyEndWithoutTheirCalls) {
  ::setenv("SENNIT_JOIN_TIMEOUT_S", "2", 1);
  for (const bool simulates : {false, true}) {
    ncclUniqueId id;
    ASSERT_DONE(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclCommInitRank(&comm, 2, id, 0));
    if (simulates) {
      EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage);
    } else {
      ncclComm_t none = nullptr;
      EXPECT_EQ(ncclCommInitRank(&none, 2, id, 2), ncclInvalidArgument);
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    }
    EXPECT_DONE(ncclCommAbort(comm));
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclGroupEnd());
  }
  ::unsetenv("SENNIT_JOIN_TIMEOUT_S");
}

// It has been handed out when its group waits for the others, so another thread may end that.
TEST(NcclGroups, AnAbortEndsTheWaitForRanksAndFreesAfterIt) {
  ::setenv("SENNIT_JOIN_TIMEOUT_S", "60", 1);
  ncclUniqueId id;
  ASSERT_DONE(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  EXPECT_DONE(ncclGroupStart());
  EXPECT_DONE(ncclCommInitRank(&comm, 2, id, 0));
  std::atomic<bool> is_freed{false};
  const std::jthread watchdog([&] {
    EXPECT_DONE(ncclCommAbort(comm));
    is_freed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_FALSE(is_freed);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(ncclGetLastError(comm),
            std::string("the communicator was aborted before all ranks had come"));
  ::unsetenv("SENNIT_JOIN_TIMEOUT_S");
}

TEST(NcclGroups, WhatIsDestroyedInAGroupThatUsesItEndsAfterIt) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    ncclComm_t doomed = nullptr;
    ncclComm_t unused = nullptr;
    ASSERT_DONE(ncclCommSplit(comm, 0, 0, &doomed, nullptr));
    ASSERT_DONE(ncclCommSplit(comm, 0, 0, &unused, nullptr));
    float x = 1;
    const float own = 5;
    float echo = 0;
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, doomed, nullptr));
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclCommDestroy(doomed));
    EXPECT_DONE(ncclCommDestroy(unused));
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_DONE(ncclSend(&own, 1, ncclFloat32, rank, doomed, nullptr));
    EXPECT_DONE(ncclRecv(&echo, 1, ncclFloat32, rank, doomed, nullptr));
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_EQ(x, 2);
    EXPECT_EQ(echo, own);
  });
}

// One thread has all ranks, so that what one of them has called needs the calls of the others.
TEST(NcclGroups, WhatIsFinalizedInAGroupTakesItsCallsFirst) {
  for (const bool is_destroyed_too : {false, true}) {
    const Comms comms = make_in_group(kRanks);
    std::vector<float> sums(kRanks, 1);
    std::vector<float> echoes(kRanks);
    const float own = 5;
    EXPECT_DONE(ncclGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      ncclComm_t comm = comms[r];
      EXPECT_DONE(ncclAllReduce(&sums[r], &sums[r], 1, ncclFloat32, ncclSum, comm, nullptr));
      EXPECT_DONE(ncclSend(&own, 1, ncclFloat32, rank, comm, nullptr));
      EXPECT_DONE(ncclRecv(&echoes[r], 1, ncclFloat32, rank, comm, nullptr));
      EXPECT_DONE(ncclGroupStart());
      EXPECT_DONE(ncclCommFinalize(comm));
      EXPECT_DONE(ncclGroupEnd());
      if (is_destroyed_too) {
        EXPECT_DONE(ncclCommDestroy(comm));
      }
    }
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_EQ(sums, std::vector<float>(kRanks, kRanks));
    EXPECT_EQ(echoes, std::vector<float>(kRanks, own));
    for (ncclComm_t comm : is_destroyed_too ? Comms() : comms) {
      float x = 1;
      EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr), ncclInvalidUsage);
      EXPECT_DONE(ncclCommDestroy(comm));
    }
  }
}

TEST(NcclGroups, NothingIsFinalizedWhereTheyEndWithoutTheirCalls) {
  run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclCommFinalize(comm));
    EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage);
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclCommFinalize(comm));
    EXPECT_EQ(ncclCommFinalize(nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclGroupEnd());
    float x = 1;
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(x, 2);
  });
}

// Also where the group ends without its calls.
TEST(NcclGroups, WhatIsAbortedInAGroupThatUsesItIsFreedAfterIt) {
  run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
    ncclComm_t doomed = nullptr;
    ASSERT_DONE(ncclCommSplit(comm, 0, 0, &doomed, nullptr));
    float x = 1;
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, doomed, nullptr));
    EXPECT_DONE(ncclCommAbort(doomed));
    EXPECT_NE(ncclGroupEnd(), ncclSuccess);
    EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(x, 2);
  });
}

}  // namespace
