#include "select/read_choice.hpp"

#include "select/testing/chosen.hpp"

#include <gtest/gtest.h>

namespace sennit::tests {
namespace {

DeviceFacts shared_facts() {
  DeviceFacts facts{.copy_engines = true, .offers = true};
  facts.sharing = DeviceSharing::kAtOnce;
  return facts;
}

TEST(ReadChoice, ProcessesThatShareAGpuReadLargeInputsWithAllBlocks) {
  DeviceFacts facts = shared_facts();
  const auto protocol = [&](Collective collective, int ranks, std::int64_t bytes) {
    return chosen(collective, ranks, bytes, {}, facts).protocol;
  };
  for (const GpuProfile::FewBlocks& row : usual_profile().shared_reads) {
    const int ranks = row.up_to_ranks;
    const std::int64_t from =
        row.collective == Collective::kReduceScatter ? row.from_bytes / ranks : row.from_bytes;
    EXPECT_EQ(protocol(row.collective, ranks, from), Protocol::kDirectGet);
    EXPECT_EQ(protocol(row.collective, ranks, 16 * from), Protocol::kDirectGet);
    EXPECT_NE(protocol(row.collective, ranks, from - 16), Protocol::kDirectGet);
    EXPECT_NE(protocol(Collective::kAllGather, ranks, from), Protocol::kDirectGet);
    EXPECT_GE(reading_blocks(row.collective, ranks, facts), 64);
  }
  facts.offers = false;
  EXPECT_NE(protocol(Collective::kAllReduce, 4, 64 << 20), Protocol::kDirectGet)
      << "buffers cannot be read";
}

// More ranks gain earlier: each has a smaller part to read, and packets go to each of the others.
TEST(ReadChoice, TheFirstRowForTheRanksDecides) {
  const DeviceFacts facts = shared_facts();
  constexpr std::int64_t kBytes = 1 << 20;
  EXPECT_NE(chosen(Collective::kAllReduce, 4, kBytes, {}, facts).protocol, Protocol::kDirectGet);
  EXPECT_EQ(chosen(Collective::kAllReduce, 8, kBytes, {}, facts).protocol, Protocol::kDirectGet);
}

}  // namespace
}  // namespace sennit::tests
