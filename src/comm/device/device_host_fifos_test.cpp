// Calls of GPUs that do not reach each other's memory: all goes through pinned host memory.
#include "base/testing/log_file.hpp"
#include "comm/device/device_comm.hpp"
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/small_call.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"
#include "schedule/problem.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>

namespace sennit::tests {
namespace {

class FakeGpusWithoutPeers : public FakeGpus {
 protected:
  FakeGpusWithoutPeers() {
    options_.deadline_s = 5;
    comm_config_.device = "cuda";
    comm_config_.host_slot_bytes = 64 * 1024;
    comm_config_.host_ring_bytes = 4 * *comm_config_.host_slot_bytes;
  }

  struct Case {
    Collective collective = Collective::kAllReduce;
    std::int64_t count = 1000;
    int root = 0;
    std::string protocol = "ll";
    std::string path{};
  };

  static Problem problem_of(const Case& c) {
    return {.collective = c.collective, .ranks = kRanks, .root = c.root, .cut = 1};
  }

  // Not on 16-byte boundaries.
  static Operation prepare(const Rank& rank, const Case& c) {
    const Problem problem = problem_of(c);
    const std::int64_t in = problem.input_blocks(rank.rank) * c.count;
    const std::int64_t out = problem.output_blocks(rank.rank) * c.count;
    Operation op;
    op.collective = c.collective;
    std::byte* const send = rank.allocate(in + 64) + 1;
    op.recv = rank.allocate(out + 64) + 1;
    if (in > 0) {
      std::memcpy(send, contents(rank.rank, in).data(), static_cast<std::size_t>(in));
    }
    op.send = send;
    op.count = c.count;
    op.root = c.root;
    op.request.protocol = c.protocol;
    op.request.path = c.path;
    return op;
  }

  static void check(const Rank& rank, const Case& c, const Operation& op) {
    const Problem problem = problem_of(c);
    for (int b = 0; b < problem.output_blocks(rank.rank); ++b) {
      const auto from = problem.expected(rank.rank, b);
      Bytes expected(static_cast<std::size_t>(c.count));
      for (const int source : from.ranks) {
        for (std::int64_t i = 0; i < c.count; ++i) {
          std::byte& byte = expected[static_cast<std::size_t>(i)];
          byte = static_cast<std::byte>(
              std::to_integer<int>(byte) +
              std::to_integer<int>(content(source, from.index * c.count + i)));
        }
      }
      ASSERT_TRUE(holds(static_cast<std::byte*>(op.recv) + b * c.count, expected))
          << name(c.collective) << " of " << c.count << ", root " << c.root << ": rank "
          << rank.rank << ", block " << b;
    }
  }

  static void give_back(const Rank& rank, const Operation& op) {
    EXPECT_TRUE(
        rank.cuda->release(const_cast<std::byte*>(static_cast<const std::byte*>(op.send)) - 1)
            .ok());
    EXPECT_TRUE(rank.cuda->release(static_cast<std::byte*>(op.recv) - 1).ok());
  }

  static void run_case(const Rank& rank, const Case& c) {
    const Operation op = prepare(rank, c);
    const Status status = rank.call(op);
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    check(rank, c, op);
    give_back(rank, op);
  }

  // What must be true wherever no GPU reaches another.
  static void check_calls_of_all_kinds(const Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    run_case(rank, {.collective = Collective::kAllReduce, .count = 5000});
    run_case(rank, {.collective = Collective::kAllGather, .count = 777, .path = "host"});
    const Operation op = prepare(rank, {.path = "nvlink"});
    EXPECT_EQ(rank.call(op).code(), Code::kUnsupported);
    give_back(rank, op);
  }
};

constexpr std::array kCollectives = {Collective::kAllReduce,
                                     Collective::kReduce,
                                     Collective::kReduceScatter,
                                     Collective::kBroadcast,
                                     Collective::kAllGather,
                                     Collective::kAllToAll,
                                     Collective::kGather,
                                     Collective::kScatter};

// Every protocol of kernels, and what suits each size: one after the other they share the rounds of
// the blocks.
constexpr std::array kKernelProtocols = {"ll", "slots", ""};

TEST_F(FakeGpusWithoutPeers, RunEveryCollectiveOfEveryRoot) {
  options_.nvlink = false;
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    for (const Collective collective : kCollectives) {
      for (const std::int64_t count : {1, 1000, 70001}) {
        for (int root = 0; root < (is_rooted(collective) ? kRanks : 1); ++root) {
          for (const char* const protocol : kKernelProtocols) {
            run_case(
                rank,
                {.collective = collective, .count = count, .root = root, .protocol = protocol});
          }
        }
      }
    }
    Operation barrier;
    barrier.collective = Collective::kBarrier;
    rank.cuda->run_kernels({});
    ASSERT_TRUE(rank.call(barrier).ok());
    rank.finish();
    EXPECT_EQ(rank.cuda->calls("import_memory"), 0);
    EXPECT_EQ(rank.cuda->calls("enable_peer"), 0);
  });
}

// More than both generations of the FIFOs hold.
TEST_F(FakeGpusWithoutPeers, RunCallsOfManyRoundsOneAfterTheOther) {
  options_.nvlink = false;
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    for (const std::string protocol : {"ll", "slots"}) {
      const std::int64_t count = protocol == "ll" ? 200'001 : 1'200'001;
      for (const Collective collective : {Collective::kBroadcast,
                                          Collective::kAllReduce,
                                          Collective::kAllGather,
                                          Collective::kReduce,
                                          Collective::kGather}) {
        const Case c{.collective = collective, .count = count, .root = 1, .protocol = protocol};
        const Operation op = prepare(rank, c);
        for (int i = 0; i < 3; ++i) {
          ASSERT_TRUE(rank.call(op).ok());
        }
        rank.finish();
        check(rank, c, op);
        give_back(rank, op);
      }
    }
  });
}

// What is written once must stay until the last has read it: those that come late, and a root that
// runs ahead, which hears of the others in `started` words alone.
TEST_F(FakeGpusWithoutPeers, WriteOnceWhatManyReadAtTheirOwnPace) {
  options_.nvlink = false;
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    for (int turn = 0; turn < 12; ++turn) {
      const Case c{.collective = turn % 3 == 0 ? Collective::kAllReduce : Collective::kBroadcast,
                   .count = 50'001 + turn,
                   .root = turn % kRanks,
                   .protocol = turn % 5 == 4 ? "ll" : "slots"};
      if (rank.rank == (turn / 2) % kRanks) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
      run_case(rank, c);
    }
  });
}

TEST_F(FakeGpusWithoutPeers, RunInPlace) {
  options_.nvlink = false;
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduce}) {
      for (const char* const protocol : kKernelProtocols) {
        const Case c{.collective = collective, .count = 300'001, .protocol = protocol};
        const Operation op = prepare(rank, c);
        Operation in_place = op;
        if (problem_of(c).output_blocks(rank.rank) > 0) {
          std::memcpy(op.recv, op.send, static_cast<std::size_t>(c.count));
          in_place.send = op.recv;
        }
        ASSERT_TRUE(rank.call(in_place).ok());
        rank.finish();
        check(rank, c, op);
        give_back(rank, op);
      }
    }
  });
}

TEST_F(FakeGpusWithoutPeers, SendAndReceive) {
  options_.nvlink = false;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    for (const std::int64_t count : {std::int64_t{1}, kSmall, std::int64_t{700'001}}) {
      std::byte* const out = rank.allocate(2 * count + 1) + 1;
      std::byte* const in = rank.allocate(2 * count + 1) + 1;
      std::memcpy(out, contents(rank.rank, 2 * count).data(), static_cast<std::size_t>(2 * count));
      const int next = next_of(rank, kRanks);
      const int previous = previous_of(rank, kRanks);
      const Status status = post(rank,
                                 {send(rank, next, out, count),
                                  send(rank, next, out + count, count),
                                  recv(rank, previous, in, count),
                                  recv(rank, previous, in + count, count)});
      ASSERT_TRUE(status.ok()) << status.message();
      rank.finish();
      EXPECT_TRUE(holds(in, contents(previous, 2 * count))) << rank.rank << ": " << count;
    }
    // Above the size from which copy engines would run it.
    const DeviceComm::Call message = send(rank, next_of(rank, kRanks), rank.allocate(8), 8);
    EXPECT_EQ(post(rank, requested({message}, "direct_get")).code(), Code::kUnsupported);
  });
}

TEST_F(FakeGpusWithoutPeers, ReplayWhatWasCaptured) {
  options_.nvlink = false;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    // Copy engines would take it, but cannot pin their rings now.
    const Case large{.collective = Collective::kAllGather, .count = 300'001, .protocol = "slots"};
    const Case reduction{.collective = Collective::kAllReduce, .count = 30'000, .protocol = ""};
    const Operation gathers = prepare(rank, large);
    const Operation reduces = prepare(rank, reduction);
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(rank.call(gathers).ok());
    ASSERT_TRUE(rank.call(reduces).ok());
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    for (int i = 0; i < 3; ++i) {
      std::memset(gathers.recv, 0, static_cast<std::size_t>(large.count) * kRanks);
      std::memset(reduces.recv, 0, static_cast<std::size_t>(reduction.count));
      graph.launch(rank.stream);
      rank.finish();
      check(rank, large, gathers);
      check(rank, reduction, reduces);
    }
  });
}

TEST_F(FakeGpusWithoutPeers, LeaveLargeMovesToCopyEngines) {
  options_.nvlink = false;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    const GpuProfile::HostCopies& by_size = profile_for({}).host_copies.front();
    run_case(rank, {.collective = by_size.collective, .count = by_size.from_bytes, .protocol = ""});
    for (const Collective collective :
         {Collective::kBroadcast, Collective::kAllGather, Collective::kAllToAll}) {
      run_case(rank, {.collective = collective, .count = 1'100'001, .protocol = "slots"});
    }
    EXPECT_EQ(rank.launches(), 0);
    run_case(rank, {.collective = Collective::kScatter, .count = 9, .protocol = "slots"});
    EXPECT_EQ(rank.launches(), 0);
  });
}

// The kernel of small calls is given addresses, and they lie in the memory that all share.
TEST_F(FakeGpusWithoutPeers, GiveSmallCallsAddressesInHostMemory) {
  options_.nvlink = false;
  cuda_options_.has_peers = false;
  run([](Rank& rank) {
    const std::span<std::byte> fifos = rank.joined->world().gpu_staging().fifos;
    const auto is_inside = [&](const void* pointer) {
      return pointer >= fifos.data() && pointer < fifos.data() + fifos.size();
    };
    int seen = 0;
    rank.cuda->run_kernels([&](const void* /*kernel*/, const void* parameters) {
      const auto& call = *static_cast<const sm::SmallCall*>(parameters);
      seen += is_inside(call.push.front().slot) ? call.pushes : 0;
      for (int i = 0; i < call.arrivals; ++i) {
        seen += is_inside(call.arrival[static_cast<std::size_t>(i)].slot) ? 1 : 0;
      }
      seen += is_inside(call.told) ? 1 : 0;
      return [] {};
    });
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank, 64)).ok());
    EXPECT_EQ(seen, 1 + (kRanks - 1) + 1);  // the block is written once
  });
}

TEST_F(FakeGpusWithoutPeers, AreFoundThoughOnlyTwoOfThemAreNotJoined) {
  cuda_options_.unjoined = {{1, 2}};
  const LogFile log;
  run(check_calls_of_all_kinds);
  EXPECT_EQ(log.lines_with("rank 1 (device 1) to rank 2 (device 2)", "no P2P"), 1);
}

TEST_F(FakeGpusWithoutPeers, AreNamedWherePathHostMayNotBeUsed) {
  cuda_options_.unjoined = {{0, 3}};
  comm_config_.paths = "nvlink";
  refusal_ = [](Rank& /*rank*/, const Status& status) {
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("rank 0 (device 0) to rank 3 (device 3)"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("SENNIT_PATHS=device,nvlink,host"), std::string::npos);
  };
  run({});
}

// Paths nvlink and device may be allowed without each other.
TEST_F(FakeGpusWithoutPeers, ThatShareAGpuUseTheHostWithoutPathDevice) {
  devices_ = {0, 1, 1, 2};
  options_.device = false;
  const LogFile log;
  run(check_calls_of_all_kinds);
  EXPECT_EQ(log.lines_with("kernels use path host",
                           "leaves out path device, which would join rank 1 (device 1) and rank 2"),
            1);
}

TEST_F(FakeGpusWithoutPeers, ThatShareOneNeedPathDeviceAlone) {
  devices_ = {3, 3, 3, 3};
  options_.nvlink = false;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    fill(rank);
    Operation op = all_gather(rank, 64);
    op.request.protocol = "ll";
    op.request.path = "device";
    const Status status = rank.call(op);
    EXPECT_TRUE(status.ok()) << status.message();
    op.request.path = "nvlink";
    EXPECT_EQ(rank.call(op).code(), Code::kUnsupported);
    rank.finish();
  });
}

TEST_F(FakeGpusWithoutPeers, AreFoundByAPatternThatDoesNotArrive) {
  cuda_options_.corrupting = {{2, 0}};
  const LogFile log;
  run(check_calls_of_all_kinds);
  EXPECT_EQ(log.lines_with("rank 2 (device 2) to rank 0 (device 0)", "WARN"), 1);
  EXPECT_EQ(log.lines_with("kernels use path host", "corrupted"), 1);
}

// What is sound is not suspected, and the FIFOs are as zeroed as before.
TEST_F(FakeGpusWithoutPeers, AreNoneOfThoseThatPassThePatternTest) {
  const LogFile log;
  run([this](Rank& rank) {
    rank.cuda->run_kernels([](const void* /*kernel*/, const void* parameters) {
      const auto& call = *static_cast<const sm::DirectCall*>(parameters);
      for (const std::byte* const fifo : call.fifos) {
        for (int i = 0; fifo != nullptr && i < 64 * 1024; ++i) {
          EXPECT_EQ(fifo[i], std::byte{0});
        }
      }
      return [] {};
    });
    meet();
    const Operation op = prepare(rank, {.protocol = "ll128"});
    ASSERT_TRUE(rank.call(op).ok());
    meet();
  });
  EXPECT_EQ(log.lines_with("WARN"), 0);
  EXPECT_EQ(log.lines_with("path host:"), 0);
}

TEST_F(FakeGpusWithoutPeers, AreFoundWhereMemoryCannotBeMapped) {
  prepare_ = [](Rank& rank) {
    if (rank.rank == 3) {
      rank.cuda->fail("import_memory", 2);  // that of rank 1
    }
  };
  const LogFile log;
  run(check_calls_of_all_kinds);
  EXPECT_EQ(log.lines_with("rank 3 (device 3) to rank 1 (device 1)", "WARN"), 1);
}

TEST_F(FakeGpusWithoutPeers, AreFoundWhereMemoryCannotBeExported) {
  prepare_ = [](Rank& rank) {
    if (rank.rank == 0) {
      rank.cuda->fail("export_memory");
    }
  };
  const LogFile log;
  run(check_calls_of_all_kinds);
  EXPECT_EQ(log.lines_with("rank 3 (device 3) to rank 0 (device 0)", "WARN"), 1);
}

TEST_F(FakeGpusWithoutPeers, MayBeThreadsOfOneProcess) {
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  cuda_options_.unjoined = {{0, 1}};
  shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
  shared_cuda_->run_kernels(fake_direct_kernel);
  run([](Rank& rank) {
    run_case(rank, {.collective = Collective::kAllReduce, .count = 5000});
    run_case(rank, {.collective = Collective::kScatter, .count = 5000, .root = 2});
  });
  EXPECT_EQ(shared_cuda_->calls("map_host"), 1) << "a page is pinned once in a process";
}

TEST_F(FakeGpusWithoutPeers, SayWhichOfThemCannotPin) {
  options_.nvlink = false;
  prepare_ = [](Rank& rank) {
    if (rank.rank == 1) {
      rank.cuda->fail("map_host");
    }
  };
  refusal_ = [](Rank& rank, const Status& status) {
    const std::string& text = status.message();
    EXPECT_EQ(status.code(), Code::kSystemError);
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
    EXPECT_EQ(text.find("ulimit -l") != std::string::npos, rank.rank == 1) << text;
    EXPECT_EQ(rank.cuda->left_over(), 0) << rank.rank;
  };
  run({});
}

TEST_F(FakeGpusWithoutPeers, FallBackOnceNothingIsLeftOfDeviceMemory) {
  cuda_options_.corrupting = {{0, 1}, {1, 0}};
  run([](Rank& rank) {
    EXPECT_TRUE(rank.cuda->destroy_stream(rank.stream).ok());
    EXPECT_EQ(rank.cuda->calls("close_imported"), kRanks - 1);
    rank.comm.reset();
    EXPECT_EQ(rank.cuda->left_over(), 0);
  });
}

TEST_F(FakeGpusWithoutPeers, LeaveAtTheDeadline) {
  options_.nvlink = false;
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  options_.deadline_s = 0.2;
  for (const char* const protocol : {"ll", "slots"}) {
    run([&](Rank& rank) {
      rank.cuda->run_kernels(fake_direct_kernel);
      if (rank.rank == 3) {
        return;  // it never calls
      }
      const Operation op =
          prepare(rank, {.collective = Collective::kAllGather, .protocol = protocol});
      ASSERT_TRUE(rank.call(op).ok());
      EXPECT_EQ(failure_of(rank).code(), Code::kDeadlineExceeded);
      rank.finish();
    });
  }
}

TEST_F(FakeGpusWithoutPeers, LeaveWhenCallsDiffer) {
  options_.nvlink = false;
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  for (const char* const protocol : {"ll", "slots"}) {
    run([&](Rank& rank) {
      rank.cuda->run_kernels(fake_direct_kernel);
      const Operation op = prepare(rank,
                                   {.collective = Collective::kAllGather,
                                    .count = rank.rank == 2 ? 900 : 1000,
                                    .protocol = protocol});
      ASSERT_TRUE(rank.call(op).ok());
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
      rank.finish();
    });
  }
}

}  // namespace
}  // namespace sennit::tests
