#include "select/device_reason.hpp"

#include "base/integers.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

std::string reason(Collective collective, int ranks, std::int64_t bytes) {
  const DeviceFacts facts{.copy_engines = true, .host_slots = 4, .offers = true};
  const auto choice = choose_for_devices(collective, {.ranks = ranks}, bytes, {}, facts);
  EXPECT_TRUE(choice.ok()) << choice.status().message();
  return reason_for(*choice, ranks, bytes, facts);
}

TEST(DeviceReason, NamesTheRuleThatDecides) {
  EXPECT_EQ(
      reason(Collective::kAllReduce, 2, 64 * kMega),
      "GPU ranks take two_shot by direct_get: 16 thread blocks read what they reduce where it "
      "lies");
  EXPECT_EQ(reason(Collective::kAllReduce, 4, 4096),
            "GPU ranks take one_shot by ll: by the model, as nothing was timed at this size: a "
            "second hop costs as much as 350 KB, and up to 128 KB of a rank in a hop go by ll");
  EXPECT_EQ(reason(Collective::kReduce, 4, 8 * kMega),
            "GPU ranks take scatter_gather by ll128: it was the fastest way timed from 512 "
            "KB of all ranks together on (GPU profile h200)");
  EXPECT_EQ(reason(Collective::kAllGather, 4, 4 * kMega),
            "GPU ranks take direct by direct_put: kernels store it in place from 8 MB of all ranks "
            "together on");
  EXPECT_EQ(
      reason(Collective::kSendRecv, 2, 256 * kMega),
      "GPU ranks take direct by direct_get: copy engines move messages of 128 MB and more; those "
      "whose recv is posted in time, by direct_put");
  EXPECT_EQ(reason(Collective::kBroadcast, 2, 512 * kMega),
            "GPU ranks take direct by direct_put, 10 % of it through host memory: copy engines "
            "run calls of 128 MB and more");
  EXPECT_EQ(reason(Collective::kAllReduce, 4, 256 * kMega),
            "GPU ranks take two_shot by direct_put: copy engines run calls of 192 MB and more");
}

}  // namespace
}  // namespace sennit
