// What is passed on to NCCL, with a library of NCCL's name that writes its calls down. Which
// library that is a process decides once, so each test runs its ranks in a child of its own.
#include "nccl/fallback_child.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace sennit_nccl_test;  // NOLINT(google-build-using-namespace): helpers

constexpr int kRanks = 4;
constexpr std::size_t kBytes = 4096;

class NcclFallback : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// The same line of each rank, and others.
std::vector<std::string> of_all_ranks(const std::vector<std::string>& before_and_after,
                                      std::vector<std::string> others = {}) {
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i + 1 < before_and_after.size(); i += 2) {
      others.push_back(before_and_after[i] + std::to_string(rank) + before_and_after[i + 1]);
    }
  }
  std::ranges::sort(others);
  return others;
}

// Without a companion: a window is a hint, a device communicator is refused, and says why.
void expect_refusal(ncclComm_t comm, const std::string& why) {
  std::array<char, kBytes> buffer{};
  ncclWindow_t window = nullptr;
  EXPECT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
  const int requirements = 7;
  int result = 0;
  EXPECT_EQ(ncclDevCommCreate(comm, &requirements, &result), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(comm)).find(why), std::string::npos)
      << ncclGetLastError(comm);
  void* pointer = nullptr;
  EXPECT_EQ(ncclGetPeerDevicePointer(window, 0, 0, &pointer), ncclInvalidUsage);
  EXPECT_DONE(ncclCommWindowDeregister(comm, window));
  expect_all_reduce(comm, 2);
}

TEST_F(NcclFallback, KeepsWindowsAndDeviceCommunicators) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(kRanks, [](int rank, ncclComm_t comm) {
      std::array<char, kBytes> buffer{};
      ncclWindow_t window = nullptr;
      ASSERT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
      EXPECT_EQ(static_cast<void*>(window), buffer.data() + 1) << "NCCL's own, for its kernels";
      const int requirements = 7;
      int result = 0;
      EXPECT_DONE(ncclDevCommCreate(comm, &requirements, &result));
      EXPECT_EQ(result, 7);
      EXPECT_DONE(ncclDevCommDestroy(comm, &result));
      EXPECT_DONE(ncclCommQueryProperties(comm, &result));
      EXPECT_EQ(result, rank);
      void* pointer = nullptr;
      EXPECT_DONE(ncclGetPeerDevicePointer(window, 5, 2, &pointer));
      EXPECT_EQ(pointer, buffer.data() + 206);
      EXPECT_DONE(ncclSignal(1, 2, 3, 4, comm, nullptr));
      expect_all_reduce(comm, kRanks);
      EXPECT_DONE(ncclCommWindowDeregister(comm, window));
      EXPECT_EQ(ncclGetPeerDevicePointer(window, 5, 2, &pointer), ncclInvalidUsage);
    });
    const std::string registered =
        std::string(" bytes 4096 flags 1 by ") + (kIsSanitized ? "22809" : "23007");
    EXPECT_EQ(calls(),
              of_all_ranks({"ncclCommInitRank rank ",
                            " of 4 id 11",
                            "ncclCommWindowRegister rank ",
                            registered,
                            "ncclDevCommCreate rank ",
                            "",
                            "ncclDevCommDestroy rank ",
                            "",
                            "ncclSignal rank ",
                            " 1234",
                            "ncclCommWindowDeregister rank ",
                            "",
                            "ncclCommDestroy rank ",
                            ""},
                           {"ncclGetUniqueId"}));
  });
}

TEST_F(NcclFallback, MemoryThatItAllocatesItFrees) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    void* memory = nullptr;
    ASSERT_DONE(ncclMemAlloc(&memory, kBytes));
    EXPECT_DONE(ncclMemFree(memory));
    EXPECT_EQ(calls(), (std::vector<std::string>{"ncclMemAlloc 4096", "ncclMemFree"}));
  });
}

// As many programs do, which their libraries end.
TEST_F(NcclFallback, WhatRanIsSaidOfCommunicatorsThatNobodyDestroys) {
  in_child(
      {{"SENNIT_DEBUG", "INFO"}, {"SENNIT_DEBUG_SUBSYS", "nccl"}},
      [] {
        ncclUniqueId id;
        ncclComm_t comm = nullptr;
        ASSERT_DONE(ncclGetUniqueId(&id));
        ASSERT_DONE(ncclCommInitRank(&comm, 1, id, 0));
        expect_all_reduce(comm, 1);
      },
      "when the program ends: 1 calls of [0-9]+ bytes ran on Sennit, 0 were passed on");
}

TEST_F(NcclFallback, IsNotOpenedWhereNothingNeedsIt) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) { expect_all_reduce(comm, 2); });
    EXPECT_EQ(::dlopen(SENNIT_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD), nullptr);
  });
}

// As nccl-tests register: one thread for all ranks, two windows of each in one group.
TEST_F(NcclFallback, OneThreadRegistersTheWindowsOfAllRanksInAGroup) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    const Comms comms = make_in_group(kRanks);
    std::array<std::array<char, kBytes>, 2 * kRanks> buffers{};
    std::array<ncclWindow_t, 2 * kRanks> windows{};
    std::array<int, kRanks> results{};
    const int requirements = 7;
    EXPECT_DONE(ncclGroupStart());
    for (std::size_t i = 0; i < windows.size(); ++i) {
      EXPECT_DONE(
          ncclCommWindowRegister(comms[i / 2], buffers[i].data(), kBytes - i % 2, &windows[i], 1));
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_DONE(ncclDevCommCreate(comms[rank], &requirements, &results[rank]));
    }
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_EQ(results, (std::array{7, 7, 7, 7}));
    for (std::size_t i = 0; i < windows.size(); ++i) {
      EXPECT_EQ(static_cast<void*>(windows[i]), buffers[i].data() + 1);
      EXPECT_DONE(ncclCommWindowDeregister(comms[i / 2], windows[i]));
    }
    destroy(comms);
    const std::vector<std::string> all = calls();
    EXPECT_EQ(
        std::ranges::count_if(all, [](const auto& c) { return c.starts_with("ncclCommInit"); }),
        kRanks)
        << "one companion of a communicator for all that it needs one for";
  });
}

TEST_F(NcclFallback, ADerivedCommunicatorHasACompanionOfItsOwn) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(3, [](int rank, ncclComm_t comm) {
      int excluded = 2;
      ncclComm_t rest = nullptr;
      if (rank != 2) {
        ASSERT_DONE(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, 0));
        const int requirements = 7;
        int result = 0;
        EXPECT_DONE(ncclDevCommCreate(rest, &requirements, &result));
        EXPECT_DONE(ncclCommDestroy(rest));
      }
    });
    const std::vector<std::string> all = calls();
    EXPECT_TRUE(std::ranges::count(all, "ncclCommInitRank rank 1 of 2 id 11") == 1);
  });
}

TEST_F(NcclFallback, IsTheOneThatWouldHaveBeenLoaded) {
  if (kIsSanitized) {
    GTEST_SKIP() << kWhyNotSanitized;
  }
  Variables variables = preloaded();
  variables["SENNIT_DEBUG"] = "INFO";
  in_child(
      variables,
      [] {
        run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
          const int requirements = 7;
          int result = 0;
          EXPECT_DONE(ncclDevCommCreate(comm, &requirements, &result));
        });
      },
      "INFO nccl: communicators.*would be passed on to the NCCL in .*/fake_nccl/libnccl.so.2");
}

// Windows and memory are Sennit's then, which kernels could not use: they are not passed on.
TEST_F(NcclFallback, WithoutItsNameItHasNoWindows) {
  if (kIsSanitized) {
    GTEST_SKIP() << kWhyNotSanitized;
  }
  in_child(preloaded(), [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
      expect_refusal(comm, "memory and windows are Sennit's");
      void* memory = nullptr;
      EXPECT_DONE(ncclMemAlloc(&memory, kBytes));
      EXPECT_DONE(ncclMemFree(memory));
    });
    EXPECT_EQ(calls(), std::vector<std::string>());
  });
}

TEST_F(NcclFallback, WhatRanWhereIsToldAtTheEnd) {
  in_child(
      {{kLibrary, SENNIT_FAKE_NCCL}, {"SENNIT_DEBUG", "INFO"}},
      [] {
        run_ranks(2, [](int rank, ncclComm_t comm) {
          expect_all_reduce(comm, 2);
          const double sent = 5;
          double received = 0;
          EXPECT_DONE(ncclGroupStart());
          EXPECT_DONE(ncclSend(&sent, 1, ncclFloat64, rank, comm, nullptr));
          EXPECT_DONE(ncclRecv(&received, 1, ncclFloat64, rank, comm, nullptr));
          EXPECT_DONE(ncclGroupEnd());
          EXPECT_EQ(received, sent);
          const int requirements = 7;
          int result = 0;
          EXPECT_DONE(ncclDevCommCreate(comm, &requirements, &result));
        });
      },
      "ends: 3 calls of 20 bytes ran on Sennit, 1 were passed on");
}

TEST_F(NcclFallback, IsRefusedWithItsReason) {
  struct Case {
    Variables variables;
    std::string why;
  };
  const std::vector<Case> cases = {
      {{{kLibrary, "none"}}, "SENNIT_NCCL_FALLBACK_LIB is none"},
      {{{kLibrary, "/nowhere/libnccl.so.2"}}, "/nowhere/libnccl.so.2: it cannot be opened"},
      {{{kLibrary, SENNIT_NCCL}}, "it is Sennit itself"},
      {{{kLibrary, "/proc/self/exe"}}, "/proc/self/exe: it"},
      {{{kLibrary, SENNIT_FAKE_NCCL}, {"FAKE_NCCL_VERSION", "22703"}},
       "it is NCCL 2.27.3; this needs 2.28.9"},
      {{{kLibrary, SENNIT_FAKE_NCCL}, {"FAKE_NCCL_VERSION", "30000"}}, "it is NCCL 3.0.0"},
      {{{kLibrary, SENNIT_FAKE_NCCL}, {"FAKE_NCCL_FAILS_AT", "1"}},
       "NCCL's rank 1 answered 2 to ncclCommInitRank"}};
  for (const Case& c : cases) {
    in_child(c.variables, [&] {
      run_ranks(2, [&](int /*rank*/, ncclComm_t comm) { expect_refusal(comm, c.why); });
    });
  }
}

TEST_F(NcclFallback, WhoCouldJoinGivesUpWhereAnotherCouldNot) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}, {"FAKE_NCCL_FAILS_AT", "1"}}, [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) { expect_refusal(comm, "rank 1"); });
    EXPECT_EQ(calls(),
              (std::vector<std::string>{"ncclCommAbort rank 0",
                                        "ncclCommInitRank rank 0 of 2 id 11",
                                        "ncclCommInitRank rank 1 of 2 id 11",
                                        "ncclGetUniqueId"}));
  });
}

TEST_F(NcclFallback, AFunctionThatItHasNotIsNamed) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
      EXPECT_EQ(ncclWaitSignal(0, nullptr, comm, nullptr), ncclInvalidUsage);
      EXPECT_NE(std::string(ncclGetLastError(comm)).find("no window"), std::string::npos);
      std::array<char, kBytes> buffer{};
      ncclWindow_t window = nullptr;
      ASSERT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
      EXPECT_EQ(ncclWaitSignal(0, nullptr, comm, nullptr), ncclInvalidUsage);
      EXPECT_NE(std::string(ncclGetLastError(comm)).find("has it not"), std::string::npos);
      EXPECT_EQ(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 99),
                ncclInvalidArgument);
      EXPECT_NE(std::string(ncclGetLastError(comm)).find("the fake does not like it"),
                std::string::npos)
          << ncclGetLastError(comm);
    });
  });
}

// One rank's environment names no library: none of the ranks may go to NCCL and wait there.
TEST_F(NcclFallback, RanksThatDifferAllRefuse) {
  in_child({{"SENNIT_JOIN_TIMEOUT_S", "20"}}, [] {
    run_processes({Variables{{kLibrary, SENNIT_FAKE_NCCL}}, Variables{{kLibrary, "none"}}},
                  [](int rank, ncclComm_t comm) {
                    expect_refusal(comm, rank == 0 ? "rank 1 has no NCCL" : "is none");
                  });
  });
}

// Two processes, each on a virtual node of its own; the second has these variables, too.
void run_on_two_nodes(const Variables& others, const std::function<void(int, ncclComm_t)>& body) {
  const Variables first = {{"SENNIT_NODE", "a"},
                           {"SENNIT_ROOT", "127.0.0.1"},
                           {"SENNIT_RAILS", "lo"},
                           {"UCX_MEM_EVENTS", "n"}};
  Variables second = first;
  second["SENNIT_NODE"] = "b";
  second.insert(others.begin(), others.end());
  run_processes({first, second}, body);
}

// Whether ranks on two nodes can call each other here. Not in this process, where UCX would leave
// memory behind.
bool has_ucx() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::dlopen("libucp.so.0", RTLD_LAZY) != nullptr ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(NcclFallback, HasTheCallsOfRanksOnSeveralNodes) {
  if (!has_ucx()) {
    GTEST_SKIP() << "ucx: there is no libucp.so.0";
  }
  in_child({{kLibrary, SENNIT_FAKE_NCCL}, {"SENNIT_NCCL_NODES", "nvidia"}}, [] {
    run_on_two_nodes({}, [](int rank, ncclComm_t comm) {
      float x = 1;
      EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
      EXPECT_EQ(x, 1) << "the fake moves nothing";
      EXPECT_EQ(ncclAllReduce(&x, &x, 99, ncclFloat32, ncclSum, comm, nullptr),
                ncclInvalidArgument);
      EXPECT_NE(std::string(ncclGetLastError(comm)).find("the fake does not like it"),
                std::string::npos);
      EXPECT_DONE(ncclGroupStart());
      EXPECT_DONE(ncclSend(&x, 1, ncclFloat32, 1 - rank, comm, nullptr));
      EXPECT_DONE(ncclSend(&x, 2, ncclFloat32, 1 - rank, comm, nullptr));
      EXPECT_DONE(ncclGroupEnd());
      ncclResult_t state = ncclSystemError;
      EXPECT_DONE(ncclCommGetAsyncError(comm, &state));
      EXPECT_EQ(state, ncclSuccess);
      // Of one node, so it is Sennit's.
      ncclComm_t own = nullptr;
      EXPECT_DONE(ncclCommSplit(comm, rank, 0, &own, nullptr));
      expect_all_reduce(own, 1);
      EXPECT_DONE(ncclCommDestroy(own));
      EXPECT_DONE(ncclCommFinalize(comm));
      const std::string self = " rank " + std::to_string(rank);
      const std::string to = " to " + std::to_string(1 - rank);
      std::vector<std::string> expected = {
          "ncclAllReduce" + self + " count 1",
          "ncclAllReduce" + self + " count 99",
          "ncclCommFinalize" + self,
          "ncclCommGetAsyncError" + self,
          "ncclCommInitRank" + self + " of 2 id 11",
          "ncclGroupEnd",
          "ncclGroupStart",
          "ncclSend" + self + " count 1" + to,
          "ncclSend" + self + " count 2" + to,
      };
      if (rank == 0) {
        expected.emplace_back("ncclGetUniqueId");
        std::ranges::sort(expected);
      }
      EXPECT_EQ(calls(), expected);
    });
  });
}

TEST_F(NcclFallback, LeavesRanksOnSeveralNodesToSennitWhereOneRequestsIt) {
  if (!has_ucx()) {
    GTEST_SKIP() << "ucx: there is no libucp.so.0";
  }
  in_child({{kLibrary, SENNIT_FAKE_NCCL}, {"SENNIT_NCCL_NODES", "nvidia"}}, [] {
    run_on_two_nodes({{"SENNIT_NCCL_NODES", "sennit"}}, [](int /*rank*/, ncclComm_t comm) {
      expect_all_reduce(comm, 2);
      EXPECT_EQ(std::ranges::count_if(calls(),
                                      [](const std::string& call) {
                                        return call.starts_with("ncclCommInitRank") ||
                                               call.starts_with("ncclAllReduce");
                                      }),
                0);
    });
  });
}

}  // namespace
