// Collectives whose blocks are stored in the outputs of other ranks, of ranks with fake GPUs.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 50'000;  // of float, of one block

float value(int rank, std::int64_t i) {
  return static_cast<float>((i * 37 + std::int64_t{rank} * 1001) % 977 - 400) / 7.0F;
}

void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

class PuttingGpus : public OfferingGpus {
 protected:
  static Operation requested(const Rank& rank, Collective collective, std::int64_t count = kCount) {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = count;
    op.root = 2;
    op.dtype = Dtype::kFloat32;
    op.request.protocol = "direct_put";
    return op;
  }

  static void fill(Rank& rank, std::int64_t inputs, std::int64_t outputs) {
    rank.recv = rank.allocate(outputs * 4);
    rank.send = rank.allocate(inputs * 4);
    std::memset(rank.recv, 0xa5, static_cast<std::size_t>(outputs * 4));
    write(rank, rank.send, inputs);
  }
  static void write(const Rank& rank, std::byte* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float v = value(rank.rank, i);
      std::memcpy(to + i * 4, &v, 4);
    }
  }

  // `count` elements of the output from `at` on are those of `source` from `from` on.
  static void check(
      const Rank& rank, std::int64_t at, std::int64_t count, int source, std::int64_t from = 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      float v = 0;
      std::memcpy(&v, rank.recv + (at + i) * 4, 4);
      ASSERT_EQ(v, value(source, from + i)) << "rank " << rank.rank << ", element " << at + i;
    }
  }
  static void check_blocks(const Rank& rank, Collective collective, std::int64_t count) {
    for (int source = 0; source < kRanks; ++source) {
      const bool is_exchange = collective == Collective::kAllToAll;
      check(rank, source * count, count, source, is_exchange ? rank.rank * count : 0);
    }
  }

  void call_and_meet(const Rank& rank, const Operation& op) {
    expect_ok(rank.call(op));
    rank.finish();
    meet();
  }
  // After this, all ranks offer their outputs: see OfferingMessages.
  void announce(const Rank& rank, const Operation& op) {
    call_and_meet(rank, op);
    call_and_meet(rank, op);
  }
};

// Blocks of any length, the last of which begin unaligned to where they belong.
TEST_F(PuttingGpus, StoreEachBlockWhereItBelongs) {
  run([this](Rank& rank) {
    for (const std::int64_t count : {kCount, std::int64_t{1001}, std::int64_t{1}}) {
      for (const Collective collective : {Collective::kAllGather, Collective::kAllToAll}) {
        const bool is_exchange = collective == Collective::kAllToAll;
        fill(rank, is_exchange ? count * kRanks : count, count * kRanks);
        const int before = announced(rank);
        for (int i = 0; i < 3; ++i) {
          std::memset(rank.recv, 0xa5, static_cast<std::size_t>(count * kRanks * 4));
          call_and_meet(rank, requested(rank, collective, count));
          check_blocks(rank, collective, count);
        }
        EXPECT_GE(announced(rank), before + kRanks) << "the third call goes straight";
      }
    }
  });
}

TEST_F(PuttingGpus, StoreWhatARootSendsOrGets) {
  run([this](Rank& rank) {
    for (const Collective collective :
         {Collective::kBroadcast, Collective::kScatter, Collective::kGather}) {
      fill(rank, kCount * kRanks, kCount * kRanks);
      const Operation op = requested(rank, collective);
      announce(rank, op);
      const int before = announced(rank);
      std::memset(rank.recv, 0xa5, static_cast<std::size_t>(kCount * 4));
      call_and_meet(rank, op);
      if (collective != Collective::kGather) {
        check(
            rank, 0, kCount, op.root, collective == Collective::kScatter ? rank.rank * kCount : 0);
        EXPECT_EQ(announced(rank), before + 1);
      } else if (rank.rank == op.root) {
        check_blocks(rank, collective, kCount);
        EXPECT_EQ(announced(rank), before + kRanks);
      }
    }
  });
}

// A block that is where it belongs is no message.
TEST_F(PuttingGpus, InPlace) {
  run([this](Rank& rank) {
    rank.recv = rank.allocate(kCount * kRanks * 4);
    rank.send = rank.recv + std::int64_t{rank.rank} * kCount * 4;
    write(rank, rank.send, kCount);
    const Operation op = requested(rank, Collective::kAllGather);
    announce(rank, op);
    const int before = announced(rank);
    call_and_meet(rank, op);
    check_blocks(rank, Collective::kAllGather, kCount);
    EXPECT_EQ(announced(rank), before + kRanks - 1);
  });
}

// Nobody waits on the host for another rank.
TEST_F(PuttingGpus, OfThreadsOfOneProcess) {
  share_a_process();
  run([this](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    call_and_meet(rank, requested(rank, Collective::kAllGather));
    check_blocks(rank, Collective::kAllGather, kCount);
    EXPECT_EQ(all_announced(), kRanks * kRanks) << "the first call goes straight";
  });
}

// Also by packets, as into memory that cannot be offered: else a rank could wait for one whose
// blocks find no room.
TEST_F(PuttingGpus, FitBesideTheOtherRanksOfTheirGpu) {
  constexpr std::int64_t kMany = 300'000;
  share_a_process();
  devices_ = {0, 0, 0, 1};
  std::atomic<int> most = 0;
  shared_cuda_->run_kernels([&most](const void* kernel, const void* parameters) {
    const int blocks = static_cast<const sm::PairCalls*>(parameters)->all_blocks();
    for (int seen = most; seen < blocks && !most.compare_exchange_weak(seen, blocks);) {
    }
    return fake_pairs_kernel(kernel, parameters);
  });
  run([&](Rank& rank) {
    fill(rank, kMany, kMany * kRanks);
    rank.recv = static_cast<std::byte*>(take(rank.cuda->allocate_private(kMany * kRanks * 4)));
    call_and_meet(rank, requested(rank, Collective::kAllGather, kMany));
    check_blocks(rank, Collective::kAllGather, kMany);
    EXPECT_GT(most, kRanks) << "by packets";
    EXPECT_LE(most, take(rank.cuda->describe(0)).sm_count / 3);
  });
}

// As memory that copy engines read slowly: its blocks are stored in place, like those of calls that
// are too small for them. Only what is mapped is looked at.
TEST_F(PuttingGpus, DoWhatCopyEnginesLeave) {
  constexpr std::int64_t kMany = 1'000'000;
  options_.profile->copies_from_bytes = options_.profile->puts_from_bytes = kMany;
  prepare_ = nullptr;
  run([&](Rank& rank) {
    rank.send = rank.allocate_as_said(kMany * 4);
    rank.recv = rank.allocate(kMany * kRanks * 4);
    for (const Collective collective : {Collective::kAllGather, Collective::kAllToAll}) {
      Operation op =
          requested(rank, collective, collective == Collective::kAllToAll ? kMany / 4 : kMany);
      op.request.protocol.clear();
      const int before = rank.cuda->calls("import_memory");
      announce(rank, op);
      const bool is_put = rank.cuda->calls("import_memory") - before == kRanks - 1;
      EXPECT_EQ(is_put, collective == Collective::kAllGather) << "the other may not be in place";
    }
  });
}

// The words of messages count on, whoever uses them.
TEST_F(PuttingGpus, TakeTurnsWithMessages) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    std::byte* const in = incoming(rank);
    std::byte* const out = outgoing(rank);
    for (int i = 0; i < 4; ++i) {
      call_and_meet(rank, requested(rank, Collective::kAllGather));
      check_blocks(rank, Collective::kAllGather, kCount);
      ASSERT_TRUE(post(rank,
                       sennit::tests::requested({send(rank, next_of(rank, kRanks), out, kSmall),
                                                 recv(rank, previous_of(rank, kRanks), in, kSmall),
                                                 send(rank, rank.rank, out, kSmall),
                                                 recv(rank, rank.rank, in + kSmall, kSmall)},
                                                "direct_put"))
                      .ok());
      rank.finish();
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kSmall)));
      ASSERT_TRUE(holds(in + kSmall, contents(rank.rank, kSmall)));
      meet();
    }
  });
}

// They share FIFOs and words.
TEST_F(PuttingGpus, NameASendThatComesInAnotherOrder) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    const Operation op = requested(rank, Collective::kAllGather);
    std::byte* const memory = outgoing(rank);
    const auto make_message = [&] {
      if (rank.rank < 2) {
        (void)post(rank,
                   {rank.rank == 0 ? send(rank, 1, memory + 1, kSmall)
                                   : recv(rank, 0, memory + 1, kSmall)});
      }
    };
    if (rank.rank == 0) {
      make_message();
    }
    (void)rank.call(op);
    if (rank.rank == 1) {
      make_message();
    }
    if (rank.rank < 2) {
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
      EXPECT_EQ(status.detail().blamed_ranks, (std::vector{0, 1}));
      EXPECT_NE(status.message().find("all_gather of"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("send_recv of"), std::string::npos) << status.message();
    }
    rank.finish();
    // The others may have got their blocks before, as packets from who has not mapped them yet.
    const Code others = rank.comm->failure().code();
    EXPECT_TRUE(rank.rank < 2 || others == Code::kOk || others == Code::kAborted);
  });
}

TEST_F(PuttingGpus, AreReplayedFromGraphs) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    const Operation op = requested(rank, Collective::kAllGather);
    announce(rank, op);
    call_and_meet(rank, op);
    const int imports = rank.cuda->calls("import_memory");
    const int before = announced(rank);
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(op));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(announced(rank), before + kRanks);
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    rank.finish();
    meet();
    for (int replay = 0; replay < 5; ++replay) {
      std::memset(rank.recv, 0xa5, kCount * kRanks * 4);
      meet();
      graph.launch(rank.stream);
      rank.finish();
      check_blocks(rank, Collective::kAllGather, kCount);
      meet();
    }
  });
}

// Of what goes by packets no kernel runs here.
TEST_F(PuttingGpus, ByThemselvesWhereTheyPay) {
  options_.profile->puts_from_bytes = 1;
  prepare_ = nullptr;
  run([](Rank& rank) {
    // Kernels of messages have all their threads, those of packets here fewer.
    const auto is_put = [&](Operation op) {
      op.request = {};
      expect_ok(rank.call(op));
      return rank.cuda->last_shape().threads == sm::kThreads;
    };
    fill(rank, kCount * kRanks, kCount * kRanks);
    EXPECT_TRUE(is_put(requested(rank, Collective::kAllToAll)));
    EXPECT_TRUE(is_put(requested(rank, Collective::kAllGather)));
    EXPECT_FALSE(is_put(requested(rank, Collective::kAllGather, kCount - 1)))
        << "blocks are unaligned";
    EXPECT_FALSE(is_put(requested(rank, Collective::kAllReduce)));
    EXPECT_FALSE(is_put(requested(rank, Collective::kBroadcast))) << "two hops are better";
    rank.send = rank.recv;
    EXPECT_FALSE(is_put(requested(rank, Collective::kAllToAll))) << "in place";
    rank.finish();
  });
}

TEST_F(PuttingGpus, RefuseARequestThatCannotBeMet) {
  run([](Rank& rank) {
    fill(rank, kCount * kRanks, kCount * kRanks);
    const auto expect_refused = [&](const Operation& op, const std::string& why) {
      const Status status = rank.call(op);
      EXPECT_EQ(status.code(), Code::kUnsupported);
      EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    };
    expect_refused(requested(rank, Collective::kAllReduce), "direct_put");
    Operation two_hops = requested(rank, Collective::kBroadcast);
    two_hops.request.algorithm = "scatter_forward";
    expect_refused(two_hops, "scatter_forward passes on what arrives");
    rank.send = rank.recv;
    expect_refused(requested(rank, Collective::kAllToAll), "in place");
    EXPECT_EQ(rank.launches(), 0);
  });
}

// Whoever is not in place has begun, and hears of it.
TEST_F(PuttingGpus, HearOfARankThatIsInPlaceAlone) {
  for (const std::string protocol : {"", "direct_put"}) {
    options_.profile->puts_from_bytes = 1;
    prepare_ = nullptr;
    run([&](Rank& rank) {
      fill(rank, kCount * kRanks, kCount * kRanks);
      if (rank.rank == 2) {
        rank.send = rank.recv;
      }
      Operation op = requested(rank, Collective::kAllToAll);
      op.request.protocol = protocol;
      const Status called = call_last(rank, 2, op);
      EXPECT_EQ(called.code(), rank.rank == 2 && !protocol.empty() ? Code::kUnsupported : Code::kOk)
          << called.message();
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
      EXPECT_EQ(status.detail().blamed_ranks, std::vector{2});
      rank.finish();
    });
  }
}

// After it has been announced, so that others' kernels wait for it.
TEST_F(PuttingGpus, AreGivenUpWhereTheStreamCannotBeAsked) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    if (rank.rank == 1) {
      // Before, it is asked for the order of calls, and whether it may map what the others have
      // announced by then, and does not.
      rank.cuda->fail("is_capturing", 3);
    }
    const Status status = call_last(rank, 1, requested(rank, Collective::kAllGather));
    EXPECT_EQ(status.code(), rank.rank == 1 ? Code::kSystemError : Code::kOk) << status.message();
    EXPECT_EQ(failure_of(rank).code(), rank.rank == 1 ? Code::kSystemError : Code::kAborted);
    rank.finish();
  });
}

TEST_F(PuttingGpus, LeaveAtTheDeadline) {
  options_.deadline_s = 2;
  run([this](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    leave_at_the_deadline(rank, requested(rank, Collective::kAllGather));
  });
}

bool is_withdrawn(const sm::MessagePut& put) {
  for (std::int64_t block = 0; block < put.most_blocks; ++block) {
    if (std::atomic_ref(put.addresses[block * sm::kAddressWords]).load() != 0) {
      return false;
    }
  }
  return true;
}

// One lane has made all offers of rank 0 before it waits for the first message: when it leaves,
// those behind that one are withdrawn, too.
TEST_F(PuttingGpus, WithdrawAllOffersAtTheDeadline) {
  options_.deadline_s = 2;
  std::vector<sm::MessagePut> offered;  // by rank 0 in its last launch
  prepare_ = [&](Rank& rank) {
    rank.cuda->run_kernels(
        [&, is_first = rank.rank == 0](const void* kernel, const void* launched) {
          if (is_first) {
            EXPECT_EQ(static_cast<const sm::PairCalls*>(launched)->recvs.lanes, 1);
            offered = offers_in(kernel, launched);
          }
          return fake_pairs_kernel(kernel, launched);
        });
  };
  run([&](Rank& rank) {
    fill(rank, kCount, kCount * kRanks);
    // After two messages rank 1 reaches the output of rank 0; the other ranks do not.
    const Calls calls = {rank.rank == 1 ? send(rank, 0, rank.send, kCount)
                                        : recv(rank, 1, rank.recv, kCount)};
    for (int i = 0; i < 2; ++i) {
      expect_ok(rank.rank < 2 ? post(rank, sennit::tests::requested(calls, "direct_put"))
                              : Status());
      rank.finish();
      meet();
    }
    leave_at_the_deadline(rank, requested(rank, Collective::kAllGather));
    if (rank.rank == 0) {
      EXPECT_EQ(offered.size(), 2) << "to itself and to rank 1";
      EXPECT_TRUE(std::ranges::all_of(offered, is_withdrawn));
    }
  });
}

}  // namespace
}  // namespace sennit::tests
