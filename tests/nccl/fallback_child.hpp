// Processes of their own for tests of what is passed on: which library that goes to a process
// decides once.
#pragma once

#include "nccl/nccl_ranks.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sennit_nccl_test {

constexpr const char* kLibrary = "SENNIT_NCCL_FALLBACK_LIB";

// Sanitizers allow neither RTLD_DEEPBIND nor libraries that are loaded before their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
constexpr const char* kWhyNotSanitized = "sanitized: the library has to be preloaded";

using Variables = std::map<std::string, std::string>;

// Runs the body in a fresh process with these variables; its errors are those of the test.
// `says` is a regular expression that the process's standard error must match.
inline void in_child(const Variables& variables,
                     const std::function<void()>& body,
                     const std::string& says = "") {
  for (const auto& [name, value] : variables) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  EXPECT_EXIT(
      {
        body();
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0),
      says);
  for (const auto& [name, value] : variables) {
    ::unsetenv(name.c_str());
  }
}

// Two ranks, each a process with variables of its own; in a child, where no thread runs yet. The
// process that `lost` names ends however it likes.
inline void run_processes(const std::array<Variables, 2>& variables,
                          const std::function<void(int, ncclComm_t)>& body,
                          int lost = -1) {
  ncclUniqueId id;
  ASSERT_DONE(ncclGetUniqueId(&id));
  std::array<pid_t, 2> ranks{};
  for (int rank = 0; rank < 2; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    ranks[at] = ::fork();
    if (ranks[at] == 0) {
      for (const auto& [name, value] : variables[at]) {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
      ncclComm_t comm = nullptr;
      EXPECT_DONE(ncclCommInitRank(&comm, 2, id, rank));
      body(rank, comm);
      EXPECT_DONE(ncclCommDestroy(comm));
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    int status = -1;
    EXPECT_EQ(::waitpid(ranks[static_cast<std::size_t>(rank)], &status, 0),
              ranks[static_cast<std::size_t>(rank)]);
    EXPECT_TRUE(rank == lost || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
  }
}

// What the fake was called with, in an order that does not depend on threads.
inline std::vector<std::string> calls() {
  void* const fake = ::dlopen(SENNIT_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
  if (fake == nullptr) {
    return {};
  }
  using Calls = std::vector<std::string>* (*)();
  std::vector<std::string> all = *reinterpret_cast<Calls>(::dlsym(fake, "fake_nccl_calls"))();
  ::dlclose(fake);
  std::ranges::sort(all);
  return all;
}

// Where the loader finds the fake, with this library before it.
inline Variables preloaded() {
  const std::string fake = SENNIT_FAKE_NCCL;
  return {{"LD_PRELOAD", SENNIT_NCCL}, {"LD_LIBRARY_PATH", fake.substr(0, fake.rfind('/'))}};
}

inline void expect_all_reduce(ncclComm_t comm, float expected) {
  float x = 1;
  EXPECT_DONE(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_EQ(x, expected);
}

}  // namespace sennit_nccl_test
