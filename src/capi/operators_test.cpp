// Operators with a scalar in the C ABI, as far as they need no GPU.
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(Operators, AHostRankHasNoDeviceThatReadsAScalar) {
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  sennit_comm_t comm = nullptr;
  ASSERT_EQ(sennit_comm_init_rank(&comm, 1, &id, 0, nullptr), SENNIT_OK);
  const float scalar = 2;
  sennit_redop_t op = SENNIT_SUM;
  EXPECT_EQ(sennit_redop_create_premulsum_on_device(&op, &scalar, SENNIT_FLOAT32, comm),
            SENNIT_INVALID_USAGE);
  EXPECT_NE(std::string(sennit_last_error_message()).find("pass it in host memory"),
            std::string::npos);
  EXPECT_EQ(op, SENNIT_SUM);
  EXPECT_EQ(sennit_redop_create_premulsum_on_device(&op, nullptr, SENNIT_FLOAT32, comm),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

}  // namespace
