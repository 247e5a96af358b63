#include "select/read_choice.hpp"

#include "select/testing/chosen.hpp"

#include <gtest/gtest.h>

namespace sennit::tests {
namespace {

TEST(ReadChoice, ProcessesThatShareAGpuReadLargeInputsWithAllBlocks) {
  DeviceFacts facts{.copy_engines = true, .offers = true};
  facts.sharing = DeviceSharing::kAtOnce;
  const std::int64_t from = usual_profile().shared_reads_from_bytes;
  for (const int ranks : {2, 4, 16}) {
    for (const std::int64_t bytes : {from, 16 * from}) {
      EXPECT_EQ(chosen(Collective::kAllReduce, ranks, bytes, {}, facts).protocol,
                Protocol::kDirectGet);
      EXPECT_EQ(chosen(Collective::kReduceScatter, ranks, bytes, {}, facts).protocol,
                Protocol::kDirectGet);
    }
    EXPECT_NE(chosen(Collective::kAllReduce, ranks, from - 16, {}, facts).protocol,
              Protocol::kDirectGet);
    EXPECT_NE(chosen(Collective::kAllGather, ranks, from, {}, facts).protocol,
              Protocol::kDirectGet);
    EXPECT_GE(reading_blocks(Collective::kAllReduce, ranks, facts), 64);
  }
  facts.offers = false;
  EXPECT_NE(chosen(Collective::kAllReduce, 4, from, {}, facts).protocol, Protocol::kDirectGet)
      << "buffers cannot be read";
}

}  // namespace
}  // namespace sennit::tests
