#include "drivers/cuda/mps_errors.hpp"

#include <gtest/gtest.h>

namespace sennit::cuda {
namespace {

TEST(MpsErrors, SayWhatToDo) {
  for (int error = 805; error <= 810; ++error) {
    EXPECT_TRUE(mps_advice(error).starts_with(". Next: ")) << error;
    EXPECT_NE(mps_advice(error).find("Multi-Process Service"), std::string::npos) << error;
  }
  for (const int other : {0, 2, 700, 804, 811}) {
    EXPECT_EQ(mps_advice(other), "") << other;
  }
}

}  // namespace
}  // namespace sennit::cuda
