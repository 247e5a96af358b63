// Ranks of the drop-in in one process, for its tests.
#pragma once

#include "nccl_abi.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#define EXPECT_DONE(call) EXPECT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_DONE(call) ASSERT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)

namespace sennit_nccl_test {

using Comms = std::vector<ncclComm_t>;

// Numbers that tell rank and place.
inline std::vector<float> values(int rank, std::size_t count) {
  std::vector<float> all(count);
  std::iota(all.begin(), all.end(), static_cast<float>(10000 * rank));
  return all;
}

// Ranks as threads, each with its communicator.
inline void run_ranks(int ranks, const std::function<void(int, ncclComm_t)>& body) {
  ncclUniqueId id;
  ASSERT_DONE(ncclGetUniqueId(&id));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_DONE(ncclCommInitRank(&comm, ranks, id, rank));
      body(rank, comm);
      EXPECT_DONE(ncclCommDestroy(comm));
    });
  }
}

// All ranks of a communicator, made by this thread in one group.
inline Comms make_in_group(int ranks) {
  ncclUniqueId id;
  EXPECT_DONE(ncclGetUniqueId(&id));
  Comms comms(static_cast<std::size_t>(ranks));
  EXPECT_DONE(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_DONE(ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], ranks, id, rank));
  }
  EXPECT_DONE(ncclGroupEnd());
  return comms;
}

inline void destroy(const Comms& comms) {
  for (ncclComm_t comm : comms) {
    EXPECT_DONE(ncclCommDestroy(comm));
  }
}

}  // namespace sennit_nccl_test
