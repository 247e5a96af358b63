// Vectors of more elements than 32 bits can count. They need 5 GiB of memory and some time, so they
// run only when asked for:
//   SENNIT_TEST_CASES=all build/release/tests/sennit_conformance_tests
//   --gtest_filter='*LargeCounts*'
#include "base/env.hpp"
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sennit {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kCount = (std::size_t{1} << 31) + 4099;

// Its period is no power of two, so that a part which stands elsewhere is found.
std::uint8_t value(int rank, std::size_t index) {
  return static_cast<std::uint8_t>(index % 251 + static_cast<std::size_t>(rank) * 100);
}

std::string call_in_place(sennit_comm_t comm, int rank, const char* protocol, std::uint8_t* x) {
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = value(rank, i);
  }
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.protocol = protocol;
  options.deadline_s = 300;
  if (sennit_all_reduce(x, x, kCount, SENNIT_UINT8, SENNIT_SUM, comm, nullptr, &options) !=
      SENNIT_OK) {
    return sennit_last_error_message();
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (x[i] != static_cast<std::uint8_t>(value(0, i) + value(1, i))) {
      return "element " + std::to_string(i) + " is wrong";
    }
  }
  return {};
}

class LargeCounts : public testing::TestWithParam<const char*> {};

TEST_P(LargeCounts, EveryElementBeyondTwoToThe31IsReduced) {
  if (env_text("SENNIT_TEST_CASES") != "all") {
    GTEST_SKIP() << "slow: needs 5 GiB of memory; SENNIT_TEST_CASES=all runs it";
  }
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto x = std::make_unique_for_overwrite<std::uint8_t[]>(kCount);
      sennit_comm_t comm = nullptr;
      ASSERT_EQ(sennit_comm_init_rank(&comm, kRanks, &id, rank, nullptr), SENNIT_OK);
      EXPECT_EQ(call_in_place(comm, rank, GetParam(), x.get()), "");
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Protocols, LargeCounts, testing::Values("slots", "direct"));

}  // namespace
}  // namespace sennit
