// Calls of ranks that are processes, with a GPU each or sharing one, every byte of every output
// compared with the host's arithmetic: all collectives and sends at sizes of each engine, in
// graphs, of two communicators at once; and all of it with one hardware queue a device, in which an
// engine that waited for one behind it would stand still.
#include "process_member.hpp"

#include <array>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::array kCollectives = {Collective::kAllReduce,
                                     Collective::kAllGather,
                                     Collective::kReduceScatter,
                                     Collective::kAllToAll,
                                     Collective::kBroadcast,
                                     Collective::kReduce};

// Of the whole buffer, in elements; what a collective takes of it each rank.
std::int64_t count_of(Collective collective, std::int64_t elements, int ranks) {
  const bool has_blocks = collective == Collective::kAllGather ||
                          collective == Collective::kReduceScatter ||
                          collective == Collective::kAllToAll;
  return has_blocks ? std::max<std::int64_t>(elements / ranks, 1) : elements;
}

// 12 MB, from which on all_gather and all_to_all are stored in the outputs of others.
constexpr std::int64_t kLargeElements = 3'000'001;

void run_collectives(const GpuProcess& self, Member& member) {
  for (const std::int64_t elements : {std::int64_t{1},
                                      std::int64_t{1000},
                                      std::int64_t{70'001},
                                      std::int64_t{1'000'003},
                                      kLargeElements}) {
    for (const Collective collective : kCollectives) {
      for (const bool in_place : {false, true}) {
        member.run({.collective = collective,
                    .count = count_of(collective, elements, self.ranks()),
                    .root = is_rooted(collective) ? self.ranks() - 1 : 0,
                    .in_place = in_place});
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

// Which wait on the host for each other, and in streams.
void run_copy_engines(const GpuProcess& self, Member& member) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast}) {
    for (const char* const path : {"nvlink", "nvlink+host:6", "host"}) {
      if (collective == Collective::kBroadcast && self.ranks() > 2 &&
          path == std::string("nvlink+host:6")) {
        continue;  // two hops over NVLink are for kernels
      }
      const std::int64_t count = count_of(collective, kLargeElements, self.ranks());
      member.run({.collective = collective,
                  .count = count,
                  .protocol = path == std::string("nvlink") ? "copy_engines" : nullptr,
                  .path = path});
    }
  }
  // What a kernel reduces: in one piece, and the last contribution in three, of 8 MB and more.
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (const std::int64_t elements : {std::int64_t{1000}, 4 * kLargeElements}) {
      for (const bool in_place : {false, true}) {
        member.run({.collective = collective,
                    .count = count_of(collective, elements, self.ranks()),
                    .root = is_rooted(collective) ? self.ranks() - 1 : 0,
                    .in_place = in_place,
                    .protocol = "copy_engines"});
      }
    }
  }
  // By their size, so that a kernel copies what stays.
  constexpr std::int64_t kHuge = 50'400'004;
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
    member.run({.collective = collective, .count = count_of(collective, kHuge, self.ranks())});
  }
}

// Each block as a message; by choice also of a size for copy engines, which take a message from the
// second one on.
void run_varying(Member& member) {
  const auto call = [&](std::int64_t count, const char* protocol, const char* path) {
    for (int i = 0; i < 2 && !testing::Test::HasFailure(); ++i) {
      member.run_varying({.collective = Collective::kAllToAll,
                          .count = count,
                          .protocol = protocol,
                          .path = path});
    }
  };
  for (const std::int64_t count : {7, 300'001}) {
    call(count, nullptr, nullptr);
    call(count, "copy_engines", nullptr);
    call(count, "direct_get", nullptr);
    call(count, nullptr, "nvlink+host:20");
    call(count, nullptr, "host");
  }
  call(33'600'001, nullptr, nullptr);
}

// By packets, by stores into the receiver, and by copy engines, which take a message from the
// second one on.
void run_rings(Member& member) {
  for (const std::int64_t count : {1, 1000, 300'001, 33'600'001}) {
    const DeviceCase c{.collective = Collective::kAllGather, .count = count};
    member.prepare(c);
    for (int i = 0; i < 4; ++i) {
      member.post_ring(c);
    }
    member.check_ring(c);
  }
}

// Kernels before and behind copy engines, with nothing waited for on the host.
void take_turns(const GpuProcess& self, Member& member) {
  const DeviceCase sum{.count = 50'000};
  const DeviceCase copies{
      .collective = Collective::kAllGather, .count = 1'000'003, .protocol = "copy_engines"};
  Member other(self, "turns");
  other.prepare(copies);
  member.prepare(sum);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(other.rank().call(copies), SENNIT_OK) << sennit_last_error_message();
    ASSERT_EQ(member.rank().call(sum), SENNIT_OK) << sennit_last_error_message();
  }
  other.check(copies);
  member.check(sum);
}

// Two communicators, each captured in a stream of its own at the same time as the other, and
// replayed beside it. Both have blocks on the GPU at once, so their calls are of few.
void replay_two_graphs(const GpuProcess& self) {
  Member first(self, "first");
  Member second(self, "second");
  const DeviceCase sum{.count = 5'000};
  const DeviceCase gather{.collective = Collective::kAllGather, .count = 1'000};
  first.run(sum);
  second.run(gather);
  first.prepare(sum);
  second.prepare(gather);
  const auto [sums, gathers] =
      CapturedGraph::of_two(first.rank().stream, second.rank().stream, [&] {
        for (int i = 0; i < 3; ++i) {
          ASSERT_EQ(first.rank().call(sum), SENNIT_OK) << sennit_last_error_message();
          ASSERT_EQ(second.rank().call(gather), SENNIT_OK) << sennit_last_error_message();
        }
      });
  for (int i = 0; i < 500; ++i) {
    sums.launch();
    gathers.launch();
  }
  first.check(sum);
  second.check(gather);
}

// Each collective at a size of packets and at one of stores into outputs, and a ring.
void replay_each(const GpuProcess& self, Member& member) {
  for (const Collective collective : kCollectives) {
    for (const std::int64_t elements : {std::int64_t{1000}, kLargeElements}) {
      const DeviceCase c{.collective = collective,
                         .count = count_of(collective, elements, self.ranks())};
      member.run(c);  // maps what a capture may not
      member.prepare(c);
      const CapturedGraph replay(member.rank().stream, [&] {
        ASSERT_EQ(member.rank().call(c), SENNIT_OK) << sennit_last_error_message();
        ASSERT_EQ(member.rank().call(c), SENNIT_OK) << sennit_last_error_message();
      });
      replay.launch(10);
      member.check(c);
    }
  }
  const DeviceCase ring{.collective = Collective::kAllGather, .count = 300'001};
  member.prepare(ring);
  for (int i = 0; i < 3; ++i) {
    member.post_ring(ring);
  }
  const CapturedGraph replay(member.rank().stream, [&] { member.post_ring(ring); });
  replay.launch(10);
  member.check_ring(ring);
}

// How many hardware queues a device has: as CUDA comes, and one for all streams.
class ProcessConformance : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
  static void run(const std::function<void(GpuProcess&)>& body) {
    run_as_processes({.ranks = gpu_ranks(),
                      .environment = {std::string("CUDA_DEVICE_MAX_CONNECTIONS=") + GetParam()}},
                     body);
  }
};

TEST_P(ProcessConformance, EveryCollectiveAndSend) {
  run([](GpuProcess& self) {
    Member member(self, "all");
    run_collectives(self, member);
    run_copy_engines(self, member);
    run_rings(member);
    run_varying(member);
  });
}

TEST_P(ProcessConformance, KernelsAndCopyEnginesTakeTurns) {
  run([](GpuProcess& self) {
    Member member(self, "all");
    take_turns(self, member);
  });
}

TEST_P(ProcessConformance, Replays) {
  run([](GpuProcess& self) {
    Member member(self, "all");
    replay_each(self, member);
  });
}

TEST_P(ProcessConformance, TwoGraphsOfTwoCommunicatorsAtOnce) {
  run([](GpuProcess& self) { replay_two_graphs(self); });
}

INSTANTIATE_TEST_SUITE_P(Queues, ProcessConformance, ::testing::Values("8", "1"));

// As many as MPI programs start on a card: small and large calls over path device, and copies into
// a buffer of rank 0 with all, some and none of them through host memory. Under the Multi-Process
// Service, or in turn, as the tests are run.
class RanksOfOneGpu : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
};

void share_copies(Member& member) {
  for (const char* const path : {"device", "device+host:0", "device+host:50", "device+host:100"}) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{70'001}, kLargeElements}) {
      for (const bool in_place : {false, true}) {
        member.run({.count = count,
                    .in_place = in_place,
                    .algorithm = "shared_buffer",
                    .protocol = "copy_engines",
                    .path = path});
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

TEST_P(RanksOfOneGpu, EveryCollectiveAndSharedCopies) {
  run_as_processes({.ranks = GetParam(), .longest_s = 200, .visible = GpuJob::Visible::kFirst},
                   [](GpuProcess& self) {
                     Member member(self, "all");
                     run_collectives(self, member);
                     share_copies(member);
                     const DeviceCase ring{.collective = Collective::kAllGather, .count = 300'001};
                     member.prepare(ring);
                     for (int i = 0; i < 3; ++i) {
                       member.post_ring(ring);
                     }
                     member.check_ring(ring);
                   });
}

INSTANTIATE_TEST_SUITE_P(Ranks, RanksOfOneGpu, ::testing::Values(4, 16));

}  // namespace
}  // namespace sennit::tests
