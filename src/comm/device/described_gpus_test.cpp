// What is simulated is what runs: the plan of described GPUs has the grid with which GPU ranks
// launch the same call.
#include "comm/described_gpus.hpp"

#include "base/testing/log_file.hpp"
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/context.hpp"
#include "machine/catalogue.hpp"

#include <gtest/gtest.h>

namespace sennit::tests {
namespace {

struct SizedCall {
  Collective collective;
  std::int64_t bytes;  // as DeviceCall takes them
};

class DescribedGpus : public FakeGpus {
 protected:
  DescribedGpus() {
    options_.profile = profile_for({});
    options_.copy_engines = GpuOptions::CopyUse::kOff;
  }

  static Operation operation(const Rank& rank, const SizedCall& call) {
    Operation op;
    op.collective = call.collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = call.bytes;
    return op;
  }
};

TEST_F(DescribedGpus, HaveTheGridsOfGpuRanks) {
  const Topology machine = take(find_machine("h200-x4"));
  DeviceFacts facts = take(facts_of_described_gpus(machine, {.ranks = kRanks}));
  facts.copy_engines = facts.offers = false;  // as these ranks have them
  facts.host_slots = 0;
  run([&](Rank& rank) {
    constexpr std::int64_t kMost = std::int64_t{8} << 20;
    rank.send = rank.allocate(kMost * kRanks);
    rank.recv = rank.allocate(kMost * kRanks);
    for (const Collective collective : {Collective::kAllReduce,
                                        Collective::kAllGather,
                                        Collective::kReduceScatter,
                                        Collective::kAllToAll,
                                        Collective::kBroadcast,
                                        Collective::kReduce}) {
      for (const std::int64_t bytes :
           std::initializer_list<std::int64_t>{8, 1000, 64 << 10, 300 << 10, 1 << 20, kMost}) {
        const SizedCall call{collective, bytes};
        ASSERT_TRUE(rank.call(operation(rank, call)).ok());
        const LaunchShape launched = rank.cuda->last_shape();
        const DevicePlan plan = take(plan_for_devices(
            {.collective = collective, .shape = {.ranks = kRanks}, .bytes = bytes}, facts));
        const Strand& strand = plan.plan.strands.front();
        const auto packets = sm::packets_of(plan.choice.protocol, facts);
        EXPECT_EQ(static_cast<int>(launched.blocks), strand.width)
            << name(collective) << " of " << bytes;
        EXPECT_EQ(launched.threads / 32 * sm::payload_bytes(packets), strand.tile_bytes)
            << name(collective) << " of " << bytes;
        rank.finish();
      }
    }
  });
}

TEST_F(FakeGpus, OfAModelThatWasNotMeasuredSayByWhichProfileTheyChoose) {
  options_.profile.reset();
  const LogFile log;
  run([](const Rank& /*rank*/) {});
  EXPECT_EQ(log.lines_with("by GPU profile h200", "none was measured on Fake GPU"), kRanks);
}

}  // namespace
}  // namespace sennit::tests
