// Whose windows are, who agrees on it, and what is undone where a part fails: over a library that
// stands for NCCL, in processes of their own.
#include "nccl/fallback_child.hpp"
#include "nccl/watched_library.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

namespace {

using namespace sennit_nccl_test;  // NOLINT(google-build-using-namespace): helpers

constexpr std::size_t kBytes = 4096;
constexpr int kRequirements = 7;

class NcclWindows : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void make_device_communicator(ncclComm_t comm) {
  int result = 0;
  EXPECT_DONE(ncclDevCommCreate(comm, &kRequirements, &result));
  EXPECT_EQ(result, kRequirements);
}

bool was_called(const std::string& name) {
  const std::vector<std::string> all = calls();
  return std::ranges::any_of(all, [&](const auto& call) { return call.starts_with(name); });
}

// What makes a companion calls the library, whose group is open on the thread that ends NCCL's.
TEST_F(NcclWindows, AGroupOfOneCommunicatorMakesThem) {
  for (const char* library : {SENNIT_FAKE_NCCL, "none"}) {
    in_child({{kLibrary, library}}, [&] {
      run_ranks(2, [&](int /*rank*/, ncclComm_t comm) {
        std::array<char, kBytes> buffer{};
        ncclWindow_t window = nullptr;
        float x = 1;
        EXPECT_DONE(ncclGroupStart());
        EXPECT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
        EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
        EXPECT_DONE(ncclGroupEnd());
        EXPECT_EQ(x, 2);
        const bool is_nvidias = std::string(library) != "none";
        EXPECT_EQ(static_cast<void*>(window), buffer.data() + (is_nvidias ? 1 : 0));
        EXPECT_DONE(ncclCommWindowDeregister(comm, window));
        expect_all_reduce(comm, 2);
      });
    });
  }
}

// A communicator on GPUs may be limited to paths that do not join the host ranks that agree.
TEST_F(NcclWindows, WhoAgreesUsesThePathsOfHostRanks) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}, {"SENNIT_PATHS", "shm"}}, [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) { make_device_communicator(comm); });
    EXPECT_EQ(companion_paths(), std::set<std::string>{"shm,cma"});
  });
}

void expect_a_hint(ncclComm_t comm) {
  make_device_communicator(comm);
  std::array<char, kBytes> buffer{};
  ncclWindow_t window = nullptr;
  EXPECT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
  EXPECT_EQ(static_cast<void*>(window), buffer.data());
  EXPECT_DONE(ncclCommWindowDeregister(comm, window));
}

TEST_F(NcclWindows, StayHintsWithoutTheLibrarysName) {
  if (kIsSanitized) {
    GTEST_SKIP() << kWhyNotSanitized;
  }
  in_child(
      preloaded(),
      [] {
        run_ranks(2, [](int /*rank*/, ncclComm_t comm) { expect_a_hint(comm); });
        EXPECT_TRUE(was_called("ncclDevCommCreate"));
        EXPECT_FALSE(was_called("ncclCommWindowRegister"));
      },
      "WARN nccl: windows are hints, which the kernels");
}

// Else one of the two would wait in NCCL for the other.
TEST_F(NcclWindows, StayHintsWhereOnlyOneRankNamesTheLibrary) {
  if (kIsSanitized) {
    GTEST_SKIP() << kWhyNotSanitized;
  }
  in_child(preloaded(), [] {
    run_processes({Variables{{kLibrary, SENNIT_FAKE_NCCL}}, Variables{}},
                  [](int /*rank*/, ncclComm_t comm) { expect_a_hint(comm); });
  });
}

TEST_F(NcclWindows, EndOnTheirOwnCommunicatorOnly) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) {
      ncclComm_t other = nullptr;
      ASSERT_DONE(ncclCommSplit(comm, 0, 0, &other, nullptr));
      std::array<char, kBytes> buffer{};
      ncclWindow_t window = nullptr;
      ASSERT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
      EXPECT_EQ(ncclCommWindowDeregister(other, window), ncclInvalidArgument);
      EXPECT_NE(std::string(ncclGetLastError(other)).find("another communicator"),
                std::string::npos);
      void* pointer = nullptr;
      EXPECT_DONE(ncclGetPeerDevicePointer(window, 0, 0, &pointer));
      EXPECT_DONE(ncclCommWindowDeregister(comm, window));
      EXPECT_DONE(ncclCommDestroy(other));
    });
  });
}

TEST_F(NcclWindows, StayWhereNcclDoesNotEndThem) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(1, [](int /*rank*/, ncclComm_t comm) {
      std::array<char, kBytes> buffer{};
      ncclWindow_t window = nullptr;
      ASSERT_DONE(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1));
      ::setenv("FAKE_NCCL_KEEPS_WINDOWS", "1", 1);
      EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclInvalidUsage);
      ::unsetenv("FAKE_NCCL_KEEPS_WINDOWS");
      void* pointer = nullptr;
      EXPECT_DONE(ncclGetPeerDevicePointer(window, 0, 0, &pointer));
      EXPECT_DONE(ncclCommWindowDeregister(comm, window));
      EXPECT_EQ(ncclGetPeerDevicePointer(window, 0, 0, &pointer), ncclInvalidUsage);
    });
  });
}

TEST_F(NcclWindows, AreUndoneWhereTheLibraryDoesNotTakeTheMemory) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    run_ranks(1, [](int /*rank*/, ncclComm_t comm) {
      std::array<char, kBytes> buffer{};
      ncclWindow_t window = nullptr;
      fail_registration_of(buffer.data());
      EXPECT_EQ(ncclCommWindowRegister(comm, buffer.data(), kBytes, &window, 1), ncclSystemError);
      EXPECT_EQ(window, nullptr);
      EXPECT_TRUE(was_called("ncclCommWindowDeregister rank 0"));
    });
  });
}

TEST_F(NcclWindows, ALibraryThatIsNamedAndRefusedIsWarnedOf) {
  in_child(
      {{kLibrary, "/nowhere/libnccl.so.2"}, {"SENNIT_DEBUG", "WARN"}},
      [] {
        void* memory = nullptr;
        EXPECT_DONE(ncclMemAlloc(&memory, kBytes));
        EXPECT_DONE(ncclMemFree(memory));
      },
      "WARN nccl: SENNIT_NCCL_FALLBACK_LIB is of no use: /nowhere/libnccl.so.2: it cannot be");
}

TEST_F(NcclWindows, WhatNcclSaysAtTheEndIsTold) {
  in_child(
      {{kLibrary, SENNIT_FAKE_NCCL}, {"SENNIT_DEBUG", "INFO"}, {"FAKE_NCCL_FAILS_TO_END", "1"}},
      [] { run_ranks(1, [](int /*rank*/, ncclComm_t comm) { make_device_communicator(comm); }); },
      "INFO nccl: ncclCommDestroy of a companion answered 2");
}

TEST_F(NcclWindows, WhoWasLeftWhileJoiningKnowsWhy) {
  in_child({{kLibrary, SENNIT_FAKE_NCCL}}, [] {
    const Variables dies{{"FAKE_NCCL_DIES", "1"}};
    run_processes(
        {Variables{}, dies},
        [](int /*rank*/, ncclComm_t comm) {
          int result = 0;
          EXPECT_EQ(ncclDevCommCreate(comm, &kRequirements, &result), ncclRemoteError);
          EXPECT_EQ(ncclCommQueryProperties(comm, &result), ncclInvalidUsage);
          EXPECT_NE(std::string(ncclGetLastError(comm)).find("could not exchange how"),
                    std::string::npos)
              << ncclGetLastError(comm);
        },
        1);
  });
}

// A copy of this library where the loader looks first is not NCCL: the next is taken.
TEST_F(NcclWindows, TheSearchGoesOnBehindOtherBuildsOfSennit) {
  if (kIsSanitized) {
    GTEST_SKIP() << kWhyNotSanitized;
  }
  std::string name = testing::TempDir() + "sennit-other-build-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  std::filesystem::copy_file(SENNIT_NCCL, name + "/libnccl.so.2");
  Variables variables = preloaded();
  variables["LD_LIBRARY_PATH"].insert(0, name + ":");
  in_child(variables, [] {
    run_ranks(2, [](int /*rank*/, ncclComm_t comm) { make_device_communicator(comm); });
    EXPECT_TRUE(was_called("ncclDevCommCreate"));
  });
  std::filesystem::remove_all(name);
}

}  // namespace
