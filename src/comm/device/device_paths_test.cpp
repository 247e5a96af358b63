// Calls over NVLink, host memory, or both.
#include "comm/device/device_comm.hpp"
#include "comm/device/testing/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

namespace sennit::tests {
namespace {

// With rings in host memory of a few small slots.
class FakeGpusWithRings : public FakeGpus {
 protected:
  FakeGpusWithRings() {
    comm_config_.device = "cuda";
    comm_config_.host_slot_bytes = kSlot;
    comm_config_.host_ring_bytes = 4 * *comm_config_.host_slot_bytes;
  }

  static Operation shared_gather(const Rank& rank, std::string path) {
    Operation op = all_gather(rank);
    op.request.path = std::move(path);
    return op;
  }

  static void check_moved(Rank& rank) {
    rank.finish();
    check_gathered(rank);
    EXPECT_EQ(rank.launches(), 0);
  }
};

TEST_F(FakeGpusWithRings, SendAShareOfAMessageThroughTheHost) {
  run([](Rank& rank) {
    fill(rank);
    const int before = rank.cuda->calls("map_host");
    ASSERT_TRUE(rank.call(shared_gather(rank, "nvlink+host:0")).ok());
    check_moved(rank);
    EXPECT_EQ(rank.cuda->calls("map_host"), before) << "pinned only when wanted";
    const int copies = rank.cuda->calls("copy_async");
    for (const char* const path : {"nvlink+host:6", "nvlink+host:50", "nvlink+host:100", "host"}) {
      std::memset(rank.recv, 0, kPart * kRanks);
      ASSERT_TRUE(rank.call(shared_gather(rank, path)).ok()) << path;
      check_moved(rank);
    }
    EXPECT_EQ(rank.cuda->calls("map_host"), before + kRanks);
    // 6 % of a part fill four slots, which leave once and arrive three times; all of it, 65.
    EXPECT_GT(rank.cuda->calls("copy_async") - copies, 2 * (kRanks * 65));
  });
}

TEST_F(FakeGpusWithRings, ShareByTheSettingWhereTheCallSaysNothing) {
  options_.host_share = 30;
  run([](Rank& rank) {
    fill(rank);
    const int before = rank.cuda->calls("map_host");
    Operation op = all_gather(rank);
    op.request.protocol = "copy_engines";
    ASSERT_TRUE(rank.call(op).ok());
    check_moved(rank);
    EXPECT_EQ(rank.cuda->calls("map_host"), before + kRanks);
  });
}

TEST_F(FakeGpusWithRings, TakeNvlinkAloneWhenOneCannotPinItsRing) {
  options_.host_share = 30;
  run([](Rank& rank) {
    fill(rank);
    if (rank.rank == 2) {
      rank.cuda->fail("map_host");
    }
    Operation op = all_gather(rank);
    op.request.protocol = "copy_engines";
    for (int i = 0; i < 2; ++i) {
      std::memset(rank.recv, 0, kPart * kRanks);
      ASSERT_TRUE(rank.call(op).ok());
      check_moved(rank);
    }
    const Status requested = rank.call(shared_gather(rank, "nvlink+host:6"));
    EXPECT_EQ(requested.code(), Code::kUnsupported) << requested.message();
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

TEST_F(FakeGpusWithRings, TryAgainToPinWhatCouldNotBePinned) {
  options_.host_share = 30;
  run([](Rank& rank) {
    fill(rank);
    if (rank.rank == 2) {
      rank.cuda->fail("map_host", 3);  // of four parts; what has been pinned is given back
    }
    const int before = rank.cuda->left_over();
    Operation op = all_gather(rank);
    op.request.protocol = "copy_engines";
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    EXPECT_TRUE(rank.rank != 2 || rank.cuda->left_over() == before + kRanks - 1)
        << "buffers of the others alone";
    for (int i = 0; i < 18; ++i) {
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
    }
    ASSERT_TRUE(rank.call(shared_gather(rank, "nvlink+host:6")).ok());
    check_moved(rank);
  });
}

TEST_F(FakeGpusWithRings, PinNothingWhileAStreamCaptures) {
  run([](Rank& rank) {
    fill(rank);
    const Operation op = shared_gather(rank, "nvlink+host:20");
    ASSERT_TRUE(rank.call(shared_gather(rank, "nvlink+host:0")).ok());
    rank.cuda->begin_capture(rank.stream);
    EXPECT_EQ(rank.call(op).code(), Code::kUnsupported);
    (void)take(rank.cuda->end_capture(rank.stream));
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(rank.call(op).ok());
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    std::memset(rank.recv, 0, kPart * kRanks);
    graph.launch(rank.stream);
    graph.launch(rank.stream);
    check_moved(rank);
  });
}

TEST_F(FakeGpusWithRings, BroadcastFromEveryRootThroughTheHost) {
  run([](Rank& rank) {
    rank.recv = rank.allocate(kPart);
    for (int root = 0; root < kRanks; ++root) {
      const Bytes expected = contents(root, kPart);
      std::memset(rank.recv, 0xa5, kPart);
      if (rank.rank == root) {
        std::memcpy(rank.recv, expected.data(), expected.size());
      }
      Operation op;
      op.collective = Collective::kBroadcast;
      op.send = rank.recv;
      op.recv = rank.recv;
      op.count = kPart;
      op.root = root;
      op.request.path = "nvlink+host:25";
      EXPECT_EQ(rank.call(op).code(), Code::kUnsupported) << "two hops over NVLink";
      op.request.path = "host";
      const Status status = rank.call(op);
      ASSERT_TRUE(status.ok()) << status.message();
      rank.finish();
      ASSERT_TRUE(holds(rank.recv, expected)) << "rank " << rank.rank << ", root " << root;
    }
  });
}

TEST_F(FakeGpusWithRings, LetStreamsGoWhenAPeerIsLate) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "tsan: what a call that was given up reads in rings is undefined";
#endif
  options_.deadline_s = 2;  // enough for the first call, however slow the build
  run([this](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(shared_gather(rank, "host")).ok());
    rank.finish();
    leave_at_the_deadline(rank, shared_gather(rank, "host"));
  });
}

TEST_F(FakeGpusWithRings, GiveThemBack) {
  run([](Rank& rank) {
    fill(rank);
    ASSERT_TRUE(rank.call(shared_gather(rank, "nvlink+host:50")).ok());
    rank.finish();
    EXPECT_TRUE(rank.cuda->destroy_stream(rank.stream).ok());
    EXPECT_TRUE(rank.cuda->release(rank.send).ok());
    EXPECT_TRUE(rank.cuda->release(rank.recv).ok());
    rank.comm.reset();
    EXPECT_EQ(rank.cuda->left_over(), 0);
  });
}

}  // namespace
}  // namespace sennit::tests
