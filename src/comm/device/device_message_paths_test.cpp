// Sends and recvs over NVLink, host memory, or both.
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace sennit::tests {
namespace {

TEST_F(FakeMessagesWithRings, TheFirstTellsWhoReachesTheRingAndTheNextShares) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int pinned = rank.cuda->calls("map_host");
    const Calls calls = over(around(rank, out, in), "nvlink+host:50", "direct_get");
    EXPECT_EQ(work_of(rank, calls).copies, 1) << "over NVLink alone";
    EXPECT_EQ(rank.cuda->calls("map_host") - pinned, 2) << "to the next, from the previous";
    meet();
    for (int i = 0; i < 3; ++i) {
      std::memset(in, 0, kLarge);
      const Work work = work_of(rank, calls);
      // Half of 1 MB in slots of 16 KB, each into a slot and out of one.
      EXPECT_EQ(work.copies, 1 + 2 * 33);
      EXPECT_EQ(work.launches, 0);
      ASSERT_TRUE(came_from(previous_of(rank, kRanks), in));
    }
    EXPECT_EQ(rank.cuda->calls("map_host") - pinned, 2);
  });
}

TEST_F(FakeMessagesWithRings, EveryPairInOneGroupAtEveryShare) {
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank, kRanks);
      std::byte* const in = incoming(rank, kRanks);
      introduce_paths(rank, out, in);
      for (const char* const path : {"nvlink+host:1", "nvlink+host:40", "nvlink+host:100"}) {
        std::memset(in, 0, static_cast<std::size_t>(kLarge * kRanks));
        for (int i = 0; i < 2; ++i) {
          ASSERT_TRUE(post(rank, over(crossing(rank, out, in), path, "copy_engines")).ok()) << path;
        }
        rank.finish();
        check_crossed(rank, in);
      }
    });
  }
}

// One requests the host and its receiver does not, and the other way about.
TEST_F(FakeMessagesWithRings, TheSendersShareCounts) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    const bool request = rank.rank % 2 == 0;
    Calls calls = requested(around(rank, out, in), "direct_get");
    calls[request ? 0 : 1].operation.request.path = "nvlink+host:50";
    // Even ranks send half of it through slots, odd ones receive that.
    EXPECT_EQ(work_of(rank, calls).copies, 1 + 33);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
    calls = requested(around(rank, out, in), "direct_get");
    calls[1].operation.request.path = "host";
    calls[1].operation.request.protocol.clear();
    EXPECT_EQ(work_of(rank, calls).copies, 1);
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

TEST_F(FakeMessagesWithRings, ShareByTheSettingWhereTheCallSaysNothing) {
  options_.host_share = 25;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    EXPECT_EQ(work_of(rank, requested(around(rank, out, in), "direct_get")).copies, 1 + 2 * 17);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

// Kernels have the rest, and nobody needs to reach a buffer.
TEST_F(FakeMessagesWithRings, AShareBesideKernels) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int imports = rank.cuda->calls("import_memory");
    const Calls calls = over(around(rank, out, in), "nvlink+host:50", "ll128");
    Work work = work_of(rank, calls);
    EXPECT_EQ(work.copies, 0);
    EXPECT_EQ(work.launches, 1);
    meet();
    work = work_of(rank, calls);
    EXPECT_EQ(work.copies, 2 * 33);
    EXPECT_EQ(work.launches, 1);
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    // What the kernel, which does not run here, would have brought comes first.
    const std::int64_t at = kLarge / 2 / 128 * 128 + 128;
    EXPECT_TRUE(holds(in + at, contents(previous_of(rank, kRanks), kLarge - at, at)));
    EXPECT_EQ(in[0], std::byte{0xa5});
  });
}

TEST_F(FakeMessagesWithRings, WhatKernelsAndSlotsCarryMakesAWhole) {
  run([&](Rank& rank) {
    int announced = 0;
    rank.cuda->run_kernels([&announced](const void* kernel, const void* parameters) {
      announced += static_cast<int>(offers_in(kernel, parameters).size());
      return fake_pairs_kernel(kernel, parameters);
    });
    constexpr std::int64_t kBytes = 200'001;
    constexpr int kMessages = 3;
    std::byte* const out = outgoing(rank) + 1;
    std::byte* const in = incoming(rank) + 1;
    for (const auto& [path, protocol] : {std::pair("nvlink+host:50", "ll"),
                                         std::pair("nvlink+host:30", "slots"),
                                         std::pair("nvlink+host:30", "direct_put"),
                                         std::pair("nvlink+host:30", "copy_engines"),
                                         std::pair("nvlink+host:99", "ll")}) {
      Calls calls;
      for (int i = 0; i < kMessages; ++i) {
        const std::int64_t count = i == 1 ? 100 : kBytes;  // too short to be divided
        calls.push_back(send(rank, next_of(rank, kRanks), out + i * kBytes, count));
        calls.push_back(recv(rank, previous_of(rank, kRanks), in + i * kBytes, count));
      }
      for (int round = 0; round < 4; ++round) {  // what is put is offered in the third
        std::memset(in, 0, kMessages * kBytes);
        ASSERT_TRUE(post(rank, over(calls, path, protocol)).ok());
        rank.finish();
        for (int i = 0; i < kMessages; ++i) {
          ASSERT_TRUE(
              holds(in + i * kBytes,
                    contents(previous_of(rank, kRanks), i == 1 ? 100 : kBytes, 1 + i * kBytes)))
              << path << ", message " << i;
        }
        meet();
      }
    }
    EXPECT_GT(announced, 0);
  });
}

TEST_F(FakeMessagesWithRings, MemoryThatCannotBeReachedGoesThroughTheHost) {
  run([&](Rank& rank) {
    auto* const out = static_cast<std::byte*>(take(rank.cuda->allocate_private(kLarge)));
    std::memcpy(out, contents(rank.rank, kLarge).data(), kLarge);
    std::byte* const in = incoming(rank);
    const Calls calls = over(around(rank, out, in), "host");
    EXPECT_EQ(work_of(rank, calls).launches, 1);
    meet();
    EXPECT_EQ(work_of(rank, calls).launches, 0);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeMessagesWithRings, TakeNvlinkAloneBetweenRanksOfWhichOneCannotPin) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    if (rank.rank == 2) {
      rank.cuda->fail("map_host");  // of the ring to rank 3
    }
    const Calls calls = over(around(rank, out, in), "nvlink+host:50", "direct_get");
    for (int i = 0; i < 3; ++i) {
      std::memset(in, 0, kLarge);
      const Work work = work_of(rank, calls);
      const int sent = i == 0 || rank.rank == 2 ? 0 : 33;
      const int received = i == 0 || rank.rank == 3 ? 0 : 33;
      EXPECT_EQ(work.copies, 1 + sent + received) << "rank " << rank.rank << ", call " << i;
      EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
      meet();
    }
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

TEST_F(FakeMessagesWithRings, TryAgainToPinWhatCouldNotBePinned) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    if (rank.rank == 2) {
      rank.cuda->fail("map_host");
    }
    const Calls calls = over(around(rank, out, in), "nvlink+host:50", "direct_get");
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(post(rank, calls).ok());
      rank.finish();
      meet();
    }
    EXPECT_EQ(work_of(rank, calls).copies, 1 + 33 + 33) << "rank " << rank.rank;
  });
}

TEST_F(FakeMessagesWithRings, AreCapturedAndReplayedAndPinNothingMeanwhile) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce(rank, out, in);
    const int pinned = rank.cuda->calls("map_host");
    const auto captured = [&] {
      rank.cuda->begin_capture(rank.stream);
      EXPECT_TRUE(post(rank, over(crossing(rank, out, in), "nvlink+host:30", "copy_engines")).ok());
      EXPECT_TRUE(post(rank, over(around(rank, out, in), "nvlink+host:70", "copy_engines")).ok());
      return take(rank.cuda->end_capture(rank.stream));
    };
    captured().launch(rank.stream);
    rank.finish();
    EXPECT_EQ(rank.cuda->calls("map_host"), pinned);
    introduce_paths(rank, out, in);
    const FakeGraph graph = captured();
    std::memset(in, 0, static_cast<std::size_t>(kLarge * kRanks));
    for (int i = 0; i < 3; ++i) {
      graph.launch(rank.stream);
      ASSERT_TRUE(post(rank, over(crossing(rank, out, in), "nvlink+host:10", "copy_engines")).ok());
    }
    rank.finish();
    check_crossed(rank, in);
  });
}

TEST_F(FakeMessagesWithRings, RanksThatAreThreadsPinARingOnce) {
  options_.copy_engines = DeviceComm::Options::CopyUse::kOn;
  shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(post(rank, over(crossing(rank, out, in), "nvlink+host:50", "copy_engines")).ok());
      rank.finish();
      check_crossed(rank, in);
      meet();
    }
  });
  EXPECT_EQ(shared_cuda_->calls("launch"), 0);
}

TEST_F(FakeMessagesWithRings, GoThroughSlotsWhereNvlinkIsNotThere) {
  options_.nvlink = false;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const Calls calls = around(rank, out, in);
    EXPECT_EQ(work_of(rank, calls).launches, 1) << "the first one, by kernels";
    meet();
    EXPECT_EQ(work_of(rank, calls).launches, 0);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
    EXPECT_EQ(work_of(rank, requested(calls, "ll")).launches, 1);
  });
}

TEST_F(FakeMessagesWithRings, LetStreamsGoWhenAPeerIsLate) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "tsan: what a call that was given up reads in rings is undefined";
#endif
  options_.deadline_s = 2;  // enough for the first calls, however slow the build
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    if (rank.rank == 0) {
      ASSERT_TRUE(post(rank, over({send(rank, 1, out)}, "host")).ok());
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
      EXPECT_EQ(status.detail().blamed_ranks, std::vector{1});
      rank.finish();
    }
  });
}

TEST_F(FakeMessagesWithRings, LetStreamsGoAfterAnAbort) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "tsan: what a call that was given up reads in rings is undefined";
#endif
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    if (rank.rank == 2) {
      ASSERT_TRUE(post(rank, over({send(rank, 3, out)}, "nvlink+host:50")).ok());
      rank.comm->abort();
      rank.finish();
      EXPECT_EQ(failure_of(rank).code(), Code::kAborted);
    }
  });
}

// Its waits are more than one in each slot: letting them go once is not enough.
TEST_F(FakeMessagesWithRings, EndWithTheCommunicatorInTheMiddleOfARing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "tsan: what a call that was given up reads in rings is undefined";
#endif
  std::array<Mark, kRanks> marks;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    if (rank.rank % 2 == 0) {
      EXPECT_TRUE(post(rank, over({send(rank, rank.rank + 1, out)}, "nvlink+host:50")).ok());
      marks[static_cast<std::size_t>(rank.rank)].put_into(rank);
    }
    meet();  // before the first abort
    if (rank.rank % 2 == 0) {
      rank.comm->abort();
      rank.comm.reset();
      EXPECT_TRUE(marks[static_cast<std::size_t>(rank.rank)].is_reached());
    }
  });
}

TEST_F(FakeMessagesWithRings, GiveBackAllThatTheyTook) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce_paths(rank, out, in);
    expect_nothing_left(rank, {out, in});
  });
}

}  // namespace
}  // namespace sennit::tests
