// A sender that has begun a message and then computes keeps nobody waiting.
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

namespace sennit {
namespace {

constexpr int kRanks = 2;

class SenderAway : public ::testing::TestWithParam<std::size_t> {};

// 4 slots of 64 KB hold the first two; for the others there is path cma.
TEST_P(SenderAway, ItsMessageArrives) {
  sennit_unique_id_t id{};
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::latch received(1);
  std::array<std::jthread, kRanks> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.at(static_cast<std::size_t>(rank)) = std::jthread([&, rank] {
      sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
      config.deadline_s = 20;  // that of a recv which waits for its sender's next call
      sennit_comm_t comm = nullptr;
      EXPECT_EQ(sennit_comm_init_rank(&comm, kRanks, &id, rank, &config), SENNIT_OK);
      std::vector<std::uint8_t> data(GetParam(), rank == 0 ? 7 : 0);
      if (rank == 0) {
        sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
        sennit_work_t work = nullptr;
        options.work = &work;
        EXPECT_EQ(sennit_send(data.data(), data.size(), SENNIT_UINT8, 1, comm, nullptr, &options),
                  SENNIT_OK);
        received.wait();
        EXPECT_EQ(sennit_work_destroy(work), SENNIT_OK);
      } else {
        EXPECT_EQ(sennit_recv(data.data(), data.size(), SENNIT_UINT8, 0, comm, nullptr, nullptr),
                  SENNIT_OK);
        received.count_down();
        EXPECT_EQ(data.front() + data.back(), 14);
      }
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes,
                         SenderAway,
                         testing::Values(100'000, 256 << 10, (256 << 10) + 1, 50'000'000));

}  // namespace
}  // namespace sennit
