// Calls with a codec of ranks that are processes: the bits that codecs of the host give.
#include "process_member.hpp"

#include "codec/codec.hpp"

#include <gtest/gtest.h>

namespace sennit::tests {
namespace {

constexpr Collective kAll[] = {Collective::kAllReduce,
                               Collective::kReduceScatter,
                               Collective::kReduce,
                               Collective::kAllGather,
                               Collective::kAllToAll,
                               Collective::kBroadcast,
                               Collective::kGather,
                               Collective::kScatter};

// Every codec and type, of one tile of a kernel and of many, and of a part of a block at the end.
void run_each_codec(Member& member) {
  for (const Codec codec : kCodecs) {
    for (const Dtype dtype : kDtypes) {
      for (const std::int64_t count : {4096, 300'007}) {
        if (takes(codec, dtype) && !is_lossless(codec) && !testing::Test::HasFailure()) {
          member.run({.collective = Collective::kAllToAll,
                      .count = count,
                      .dtype = dtype,
                      .codec = name(codec).data()});
        }
      }
    }
  }
}

void run_each_collective(const GpuProcess& self, Member& member) {
  for (const char* const codec : {"q8", "zfp:16"}) {
    for (const Collective collective : kAll) {
      for (const std::int64_t count : {0, 1, 31, 1001, 70'004, 1'000'004}) {
        for (const bool in_place : {false, true}) {
          for (const std::size_t offset : {0, 1}) {
            if (!testing::Test::HasFailure()) {
              member.run({.collective = collective,
                          .count = count,
                          .root = is_rooted(collective) ? self.ranks() - 1 : 0,
                          .in_place = in_place,
                          .offset = offset,
                          .codec = codec});
            }
          }
        }
      }
    }
  }
}

// Also of more than is decoded at once.
void run_each_operator(const GpuProcess& self, Member& member) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kAvg, ReduceOp::kPremulSum}) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
      for (const std::int64_t count : {2001, 9'000'001}) {
        if (!testing::Test::HasFailure()) {
          member.run({.collective = collective,
                      .count = count,
                      .op = op,
                      .root = is_rooted(collective) ? self.ranks() - 1 : 0,
                      .codec = "q8"});
        }
      }
    }
  }
}

void replay(Member& member) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllToAll}) {
    const DeviceCase c{.collective = collective, .count = 1'000'003, .codec = "q8"};
    member.run(c);  // allocates what a capture may not
    member.prepare(c);
    const CapturedGraph replay(member.rank().stream, [&] {
      ASSERT_EQ(member.rank().call(c), SENNIT_OK) << sennit_last_error_message();
    });
    replay.launch(10);
    member.check(c);
  }
}

class CodedProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
};

TEST_F(CodedProcesses, HaveTheHostsBits) {
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    Member member(self, "all");
    run_each_codec(member);
    run_each_collective(self, member);
    run_each_operator(self, member);
    replay(member);
  });
}

// Through host memory, where codecs pay.
TEST_F(CodedProcesses, HaveTheHostsBitsWithoutPeerAccess) {
  run_as_processes({.ranks = gpu_ranks(), .environment = {"SENNIT_PATHS=host"}},
                   [](GpuProcess& self) {
                     Member member(self, "all");
                     run_each_collective(self, member);
                     replay(member);
                   });
}

}  // namespace
}  // namespace sennit::tests
