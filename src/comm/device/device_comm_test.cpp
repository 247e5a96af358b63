#include "comm/device/device_comm.hpp"

#include "comm/device/testing/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

TEST_F(FakeGpus, LargeMessagesGoByCopyEnginesAndSmallOnesByKernels) {
  run([](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    check_gathered(rank);
    EXPECT_EQ(rank.launches(), 0);
    ASSERT_TRUE(rank.call(all_gather(rank, 1000)).ok());
    EXPECT_EQ(rank.launches(), 1);
  });
}

TEST_F(FakeGpus, TheLastCallCanBeNamed) {
  run([](Rank& rank) {
    EXPECT_EQ(rank.comm->last_plan(), nullptr);
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank, 10)).ok());
    const ProvedPlan* const last = rank.comm->last_plan();
    ASSERT_NE(last, nullptr);
    EXPECT_EQ(last->plan->strands.front().schedule->algorithm, "direct");
    EXPECT_EQ(last->plan->strands.front().channels.front().paths,
              std::vector<Path>{PathKind::kNvlink});
  });
}

TEST_F(FakeGpus, EveryRootBroadcasts) {
  run([](Rank& rank) {
    rank.recv = rank.allocate(kVector);
    for (int root = 0; root < kRanks; ++root) {
      const Bytes expected = contents(root, kVector);
      if (rank.rank == root) {
        std::memcpy(rank.recv, expected.data(), expected.size());
      } else {
        std::memset(rank.recv, 0xa5, kVector);
      }
      Operation op;
      op.collective = Collective::kBroadcast;
      op.request.protocol = "copy_engines";
      op.send = rank.recv;
      op.recv = rank.recv;
      op.count = kVector;
      op.root = root;
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
      ASSERT_TRUE(holds(rank.recv, expected)) << "rank " << rank.rank << ", root " << root;
    }
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(FakeGpus, MapsAnAllocationOnceHoweverOftenItIsUsed) {
  run([](Rank& rank) {
    fill(rank);
    const int fifos = rank.cuda->calls("import_memory");
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(rank.call(all_gather(rank)).ok());
      rank.finish();
    }
    EXPECT_EQ(rank.cuda->calls("import_memory") - fifos, kRanks - 1);
  });
}

// The case that a cache by address gets wrong.
TEST_F(FakeGpus, SeesThatABufferWasFreedAndAllocatedAgain) {
  run([](Rank& rank) {
    for (int i = 0; i < 4; ++i) {
      const int before = rank.cuda->left_over();
      fill(rank, i);
      ASSERT_TRUE(rank.call(all_gather(rank)).ok());
      rank.finish();
      check_gathered(rank, i);
      ASSERT_TRUE(rank.cuda->release(rank.send).ok());
      ASSERT_TRUE(rank.cuda->release(rank.recv).ok());
      // What was mapped of the last buffers is still there, of older ones nothing.
      EXPECT_LE(rank.cuda->left_over() - before, i == 0 ? kRanks - 1 : 0);
    }
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(FakeGpus, AllTakeKernelsWhenTheMemoryOfOneCannotBeReached) {
  run([](Rank& rank) {
    fill(rank);
    if (rank.rank == 2) {
      rank.recv = static_cast<std::byte*>(take(rank.cuda->allocate_private(kPart * kRanks)));
    }
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    EXPECT_EQ(rank.launches(), 1);
  });
}

TEST_F(FakeGpus, AllTakeKernelsWhenOneCannotMapAndTryAgainNextTime) {
  run([](Rank& rank) {
    fill(rank);
    if (rank.rank == 1) {
      rank.cuda->fail("import_memory");
    }
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    EXPECT_EQ(rank.launches(), 1);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    EXPECT_EQ(rank.launches(), 1);
    check_gathered(rank);
  });
}

TEST_F(FakeGpus, AllTakeKernelsWhenOneIsInPlaceWhereItMayNotBe) {
  run([](Rank& rank) {
    rank.send = rank.allocate(kPart * kRanks);
    rank.recv = rank.rank == 3 ? rank.send : rank.allocate(kPart * kRanks);
    Operation op = all_gather(rank);
    op.collective = Collective::kAllToAll;
    ASSERT_TRUE(rank.call(op).ok());
    EXPECT_EQ(rank.launches(), 1);
  });
}

TEST_F(FakeGpus, NothingIsMappedWhileAStreamCaptures) {
  run([](Rank& rank) {
    fill(rank);
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    const FakeGraph kernels = take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(rank.launches(), 1);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    // Now all have mapped it.
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    const FakeGraph copies = take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(rank.launches(), 1);
    std::memset(rank.recv, 0, kPart * kRanks);
    copies.launch(rank.stream);
    copies.launch(rank.stream);
    rank.finish();
    check_gathered(rank);
  });
}

// Kernels of both wait for each other, so rank 0 says what it costs where they cannot run at once.
class SharedGpus : public FakeGpus {
 protected:
  // What the ranks have to say of it.
  std::string warning() {
    devices_ = {0, 1, 2, 2};
    testing::internal::CaptureStderr();
    run([](Rank& rank) {
      fill(rank);
      ASSERT_TRUE(rank.call(all_gather(rank)).ok());
      rank.finish();
      check_gathered(rank);
    });
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(SharedGpus, AreSaidToBeSlowWithoutMps) {
  EXPECT_NE(
      warning().find("rank 2 (device 2) and rank 3 (device 2) are processes that share a GPU"),
      std::string::npos);
}

TEST_F(SharedGpus, AreNotWarnedOfUnderMps) {
  cuda_options_.has_mps = true;
  EXPECT_EQ(warning(), "");
}

TEST_F(SharedGpus, AreSaidToBeSlowWhereOneProcessIsNotUnderMps) {
  cuda_options_.has_mps = true;
  prepare_ = [](Rank& rank) {
    if (rank.rank == 2) {
      rank.cuda = std::make_shared<FakeCuda>(FakeCuda::Options{.devices = kRanks});
    }
  };
  EXPECT_NE(warning().find("which runs their kernels in turn"), std::string::npos);
}

TEST_F(FakeGpus, NoRankUsesCopyEnginesWhenOneCannot) {
  prepare_ = [](Rank& rank) {
    if (rank.rank == 1) {
      rank.cuda->fail("map_host");
    }
  };
  run([](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    EXPECT_EQ(rank.launches(), 1);
    Operation requested = all_gather(rank);
    requested.request.protocol = "copy_engines";
    EXPECT_EQ(rank.call(requested).code(), Code::kUnsupported);
  });
}

TEST_F(FakeGpus, CopyEnginesCanBeRequestedOrLeft) {
  run([](Rank& rank) {
    fill(rank);
    Operation small = all_gather(rank, 100);
    small.request.protocol = "copy_engines";
    ASSERT_TRUE(rank.call(small).ok());
    rank.finish();
    EXPECT_EQ(rank.launches(), 0);
    EXPECT_EQ(rank.recv[399], content(3, 99));
    Operation large = all_gather(rank);
    large.request.protocol = "ll128";
    ASSERT_TRUE(rank.call(large).ok());
    EXPECT_EQ(rank.launches(), 1);
  });
}

// Kernels would wait for each other; a thread of each rank sees it.
TEST_F(FakeGpus, CallsThatDifferAreNamed) {
  run([](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank, 10)).ok());
    ASSERT_TRUE(rank.call(all_gather(rank, rank.rank == 2 ? 501 : 500)).ok());
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{2});
    EXPECT_NE(status.message().find("call 2"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("all_gather of 501 x uint8"), std::string::npos);
    EXPECT_NE(status.message().find("all_gather of 500 x uint8"), std::string::npos);
    EXPECT_EQ(rank.call(all_gather(rank, 10)).code(), Code::kMismatch);
  });
}

// One rank's call is for copy engines, those of the others, which have been made, are not.
TEST_F(FakeGpus, CallsThatDifferInTheirEngineAreNamed) {
  run([this](Rank& rank) {
    fill(rank);
    if (rank.rank != 0) {
      EXPECT_TRUE(rank.call(all_gather(rank, 1000)).ok());
    }
    meet();
    if (rank.rank == 0) {
      EXPECT_FALSE(rank.call(all_gather(rank, kPart)).ok());
    }
    const Status failure = failure_of(rank);
    EXPECT_EQ(failure.code(), Code::kMismatch) << failure.message();
    EXPECT_EQ(failure.detail().blamed_ranks, std::vector{0});
  });
}

TEST_F(FakeGpus, ARankThatNeverCallsIsNamedAtTheDeadline) {
  options_.deadline_s = 1;
  run([this](Rank& rank) {
    fill(rank);
    meet();
    if (rank.rank == 1) {
      return;
    }
    const Status status = rank.call(all_gather(rank));
    // Whoever was not the first hears of the first.
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{1});
    EXPECT_FALSE(rank.comm->failure().ok());
  });
}

// All have agreed, then one stops in the middle: its stream holds work that never comes.
TEST_F(FakeGpus, StreamsLeaveWhenAPeerIsLate) {
  options_.deadline_s = 2;  // enough for the first call, however slow the build
  run([this](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    leave_at_the_deadline(rank, all_gather(rank));
  });
}

TEST_F(FakeGpus, AnAbortEndsStreamsThatWait) {
  std::latch aborted(kRanks - 1);
  run([&](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    const Gate gate(rank);
    if (rank.rank == 3) {
      gate.close(rank.stream);
    }
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    if (rank.rank != 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      rank.comm->abort();
      rank.finish();
      EXPECT_EQ(failure_of(rank).code(), Code::kAborted);
      EXPECT_EQ(rank.call(all_gather(rank)).code(), Code::kAborted);
      aborted.count_down();
    }
    aborted.wait();
    gate.open();
    rank.finish();
  });
}

// Behind the waits that a failure ends there are copies into the memory of others, who may not know
// of it yet.
TEST_F(FakeGpus, AnAbortGivesOthersTimeToHearBeforeAnythingIsPut) {
  std::latch is_there(kRanks);
  std::latch aborted(kRanks - 1);
  std::byte* output = nullptr;
  run([&](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    const Gate gate(rank);
    if (rank.rank == 3) {
      gate.close(rank.stream);
      output = rank.recv;
    }
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    if (rank.rank == 3) {
      std::memset(output, 0xa5, kPart * kRanks);  // of a call that ended well
    }
    is_there.arrive_and_wait();
    if (rank.rank != 3) {
      const auto begin = std::chrono::steady_clock::now();
      rank.comm->abort();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const bool is_untouched = output[rank.rank * kPart] == std::byte{0xa5};
      // Where the machine was busy, that says nothing.
      EXPECT_TRUE(is_untouched ||
                  std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(200));
      rank.finish();
      aborted.count_down();
    }
    aborted.wait();
    gate.open();
    rank.finish();
  });
}

// What one rank could not run, none tries.
TEST_F(FakeGpus, RefuseAlikeWhatCopyEnginesOfOneRankCannotRun) {
  run([](Rank& rank) {
    fill(rank);
    Operation op = all_gather(rank, 1000);
    op.collective = Collective::kBroadcast;
    op.request.protocol = "copy_engines";
    for (const char* const algorithm : {"chain", "scatter_forward"}) {
      op.request.algorithm = algorithm;
      const Status status = rank.call(op);
      EXPECT_EQ(status.code(), Code::kUnsupported);
      EXPECT_NE(status.message().find("which kernels do"), std::string::npos) << status.message();
    }
    EXPECT_TRUE(rank.comm->failure().ok());
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    check_gathered(rank);
  });
}

TEST_F(FakeGpus, AScalarOnTheDeviceIsLeftToTheKernel) {
  run([](Rank& rank) {
    fill(rank);
    const std::byte* seen = nullptr;
    rank.cuda->run_kernels([&](const void* /*kernel*/, const void* parameters) {
      seen = static_cast<const sm::DirectCall*>(parameters)->scalar_on_device;
      return [] {};
    });
    Operation op = all_gather(rank, 16);
    op.request.protocol = "ll128";  // on the kernel that takes a DirectCall
    op.collective = Collective::kAllReduce;
    op.dtype = Dtype::kFloat32;
    op.op = ReduceOp::kPremulSum;
    op.request.protocol = "ll128";  // small calls have another parameter
    ASSERT_TRUE(rank.call(op).ok());
    EXPECT_EQ(seen, nullptr);
    op.scalar_on_device = rank.allocate(16);
    ASSERT_TRUE(rank.call(op).ok());
    EXPECT_EQ(seen, op.scalar_on_device);
  });
}

TEST_F(FakeGpus, CallsInSeveralStreamsRunInTheirOrder) {
  run([](Rank& rank) {
    fill(rank);
    void* const second = take(rank.cuda->create_stream());
    const Gate gate(rank);
    gate.close(rank.stream);
    const DeviceComm::Call calls[] = {{all_gather(rank, 10), rank.stream},
                                      {all_gather(rank, 10), second}};
    ASSERT_TRUE(rank.comm->enqueue({calls, 1}).ok());
    ASSERT_TRUE(rank.comm->enqueue({calls + 1, 1}).ok());
    gate.mark_end(second);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(gate.has_ended());
    gate.open();
    EXPECT_TRUE(rank.cuda->synchronize(second).ok());
    EXPECT_TRUE(gate.has_ended());
    EXPECT_TRUE(rank.cuda->destroy_stream(rank.stream).ok());
    ASSERT_TRUE(rank.comm->enqueue({calls + 1, 1}).ok()) << "the last stream may be gone";
  });
}

TEST_F(FakeGpus, MessagesOfOneGroupRunTogetherAndHoldAllTheirStreams) {
  run([](Rank& rank) {
    fill(rank);
    void* const second = take(rank.cuda->create_stream());
    const Gate gate(rank);
    gate.close(second);
    Operation send;
    send.collective = Collective::kSendRecv;
    send.is_send = true;
    send.peer = (rank.rank + 1) % kRanks;
    send.send = rank.send;
    send.count = 10;
    send.dtype = Dtype::kUint8;
    Operation recv = send;
    recv.is_send = false;
    recv.peer = (rank.rank + 3) % kRanks;
    recv.recv = rank.recv;
    const DeviceComm::Call calls[] = {{send, rank.stream}, {recv, second}};
    ASSERT_TRUE(rank.comm->enqueue(calls).ok());
    EXPECT_EQ(rank.launches(), 1);
    EXPECT_EQ(rank.comm->last_plan(), nullptr) << "of messages";
    gate.mark_end(rank.stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(gate.has_ended()) << "the kernel is in the first stream and waits for the second";
    gate.open();
    rank.finish();
    EXPECT_TRUE(gate.has_ended());
  });
}

TEST_F(FakeGpus, NothingFromOutsideIsTakenIntoACapture) {
  run([](Rank& rank) {
    fill(rank);
    void* const second = take(rank.cuda->create_stream());
    ASSERT_TRUE(rank.call(all_gather(rank, 10)).ok());
    const int waits = rank.cuda->calls("wait_for");
    rank.cuda->begin_capture(second);
    const DeviceComm::Call captured{all_gather(rank, 10), second};
    ASSERT_TRUE(rank.comm->enqueue({&captured, 1}).ok());
    const FakeGraph graph = take(rank.cuda->end_capture(second));
    EXPECT_EQ(rank.cuda->calls("wait_for"), waits);
    ASSERT_TRUE(rank.call(all_gather(rank, 10)).ok());
  });
}

TEST_F(FakeGpus, GiveBackAllThatTheyTook) {
  run([](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    rank.comm->abort();
    expect_nothing_left(rank, {rank.send, rank.recv});
  });
}

// Kernels and streams of the others may still store into what a rank has shared with them.
TEST_F(FakeGpus, ThreadsOfOneProcessKeepTheMemoryOfARankThatEndsEarly) {
  options_.copy_engines = DeviceComm::Options::CopyUse::kOn;
  shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
  std::atomic<std::byte*> fifo = nullptr;  // of rank 0
  shared_cuda_->run_kernels([&](const void* /*kernel*/, const void* parameters) {
    fifo = static_cast<const sm::DirectCall*>(parameters)->fifos[0];
    return [] {};
  });
  run([&](Rank& rank) {
    fill(rank);
    Operation op = all_gather(rank, 100'000);
    op.request.protocol = "ll128";
    ASSERT_TRUE(rank.call(op).ok());
    meet();
    if (rank.rank == 0) {
      rank.comm.reset();
    }
    meet();
    const stream::RankWords* const words = &rank.joined->world().stream_words()[0];
    EXPECT_EQ(take(rank.cuda->facts_of(fifo)).kind, MemoryKind::kDevice);
    EXPECT_EQ(take(rank.cuda->facts_of(words)).kind, MemoryKind::kPinned);
    meet();
  });
  EXPECT_EQ(shared_cuda_->left_over(), 3 * kRanks) << "a stream and two buffers of each";
}

}  // namespace
}  // namespace sennit::tests
