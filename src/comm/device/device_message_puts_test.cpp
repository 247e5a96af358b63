// Sends and recvs that kernels store straight in the receiver's buffer, where it is offered.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

// Sizes of messages whose packets, where they have to, are of Ll, Ll128 and Slots.
constexpr std::int64_t kOfLl = 9'001;
constexpr std::int64_t kOfLl128 = 200'003;
constexpr std::int64_t kOfSlots = (std::int64_t{2} << 20) + 5;

class OfferingMessages : public OfferingGpus {
 protected:
  static Calls around(const Rank& rank, std::byte* out, std::byte* in, std::int64_t count) {
    return requested({send(rank, next_of(rank, kRanks), out, count),
                      recv(rank, previous_of(rank, kRanks), in, count)},
                     "direct_put");
  }

  void post_and_meet(const Rank& rank, const Calls& calls) {
    ASSERT_TRUE(post(rank, calls).ok());
    rank.finish();
    meet();
  }
  // After this, receivers know who reaches their memory: the first call announces it, by the second
  // one its senders have mapped it, and the third one reads that.
  void announce(const Rank& rank, const Calls& calls) {
    post_and_meet(rank, calls);
    post_and_meet(rank, calls);
  }
};

TEST_F(OfferingMessages, TheFirstIntoAnAllocationTakesPacketsAndTheThirdIsOffered) {
  run([&](Rank& rank) {
    for (const std::int64_t count : {kOfLl, kOfLl128, kOfSlots}) {
      std::byte* const out = outgoing(rank, 1, kOfSlots + 1);
      std::byte* const in = incoming(rank, 1, kOfSlots + 1);
      const int imports = rank.cuda->calls("import_memory");
      const int before = announced(rank);
      const Calls calls = around(rank, out, in, count);
      for (int i = 0; i < 4; ++i) {
        std::memset(in, 0xa5, kOfSlots + 1);
        post_and_meet(rank, calls);
        ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), count))) << "message " << i;
        ASSERT_EQ(in[count], std::byte{0xa5});
        if (i == 0) {
          EXPECT_EQ(announced(rank), before);
        }
      }
      EXPECT_GE(announced(rank), before + 2);
      EXPECT_EQ(rank.cuda->calls("import_memory") - imports, 1);
    }
  });
}

TEST_F(OfferingMessages, ByThemselvesFromTheirSizeOn) {
  options_.profile->message_puts_from_bytes = kOfLl128;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    announce(rank, around(rank, out, in, kOfLl));
    const int before = announced(rank);
    for (const std::int64_t count : {kOfLl128 - 1, kOfLl128}) {
      post_and_meet(rank, requested(around(rank, out, in, count), ""));
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), count)));
    }
    EXPECT_EQ(announced(rank), before + 1);
  });
}

// A waiting receiver has one block besides those of the sender.
TEST_F(OfferingMessages, ReceiversTakeOneBlock) {
  run([&](Rank& rank) {
    const Calls calls =
        around(rank, outgoing(rank, 1, kOfSlots), incoming(rank, 1, kOfSlots), kOfSlots);
    post_and_meet(rank, calls);
    EXPECT_EQ(rank.cuda->last_shape().blocks, 64U + 64U);
    post_and_meet(rank, calls);
    post_and_meet(rank, calls);
    EXPECT_EQ(rank.cuda->last_shape().blocks, 64U + 1U);
  });
}

TEST_F(OfferingMessages, ToOneselfGoWithTheOthersWhateverTheirSize) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, 2, kOfSlots);
    std::byte* const in = incoming(rank, 2, kOfSlots);
    Calls calls = around(rank, out, in, kOfSlots);
    calls.push_back(send(rank, rank.rank, out, kOfSlots));
    calls.push_back(recv(rank, rank.rank, in + kOfSlots, kOfSlots));
    const int copies = rank.cuda->calls("copy_async");
    for (int i = 1; i <= 3; ++i) {
      std::memset(in, 0xa5, 2 * kOfSlots);
      post_and_meet(rank, calls);
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kOfSlots))) << "message " << i;
      ASSERT_TRUE(holds(in + kOfSlots, contents(rank.rank, kOfSlots))) << "message " << i;
    }
    EXPECT_TRUE(rank.launches() == 3 && rank.cuda->calls("copy_async") == copies);
  });
}

TEST_F(OfferingMessages, AnyAlignmentAndLength) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    announce(rank, around(rank, out, in, kOfLl));
    const int before = announced(rank);
    int messages = 0;
    for (const std::int64_t from : {0, 1, 2, 4, 7, 8, 15, 16}) {
      for (const std::int64_t to : {0, 1, 3, 4, 8, 12, 16}) {
        for (const std::int64_t count : {std::int64_t{1},
                                         std::int64_t{15},
                                         std::int64_t{16},
                                         std::int64_t{17},
                                         std::int64_t{4000},
                                         kOfLl128}) {
          std::memset(in, 0xa5, static_cast<std::size_t>(count + 64));
          post_and_meet(rank, around(rank, out + from, in + to, count));
          ++messages;
          ASSERT_TRUE(holds(in + to, contents(previous_of(rank, kRanks), count, from)))
              << count << " bytes from " << from << " to " << to;
          ASSERT_TRUE(holds(in + to + count, Bytes(16, std::byte{0xa5})));
          ASSERT_TRUE(holds(in, Bytes(static_cast<std::size_t>(to), std::byte{0xa5})));
        }
      }
    }
    EXPECT_EQ(announced(rank), before + messages);
  });
}

class OfferingInLanes : public OfferingMessages, public ::testing::WithParamInterface<const char*> {
 protected:
  OfferingInLanes() { options_.blocks = 2; }  // a lane

  // Rank 0 sends to each other, or the others receive.
  static Status send_to_all(const Rank& rank, std::byte* memory, double deadline_s) {
    Calls calls;
    if (rank.rank == 0) {
      for (const int peer : {1, 2, 3}) {
        calls.push_back(send(rank, peer, memory, kOfLl128));
      }
    } else {
      calls.push_back(recv(rank, 0, memory, kOfLl128));
    }
    for (DeviceComm::Call& call : calls) {
      call.operation.request.protocol = GetParam();
      call.operation.deadline_s = deadline_s;
    }
    return post(rank, calls);
  }
};

// Its kernel has left at the deadline before the turn of the first message to rank 3 came; that of
// the second one, which is in the stream already, says nothing in its place.
TEST_P(OfferingInLanes, WhoseTurnDidNotComeAreNotReplacedByTheNext) {
  run([&](Rank& rank) {
    std::byte* const memory = rank.rank == 0 ? outgoing(rank, 2) : incoming(rank);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(send_to_all(rank, memory, 20).ok());
      rank.finish();
      meet();
    }
    if (rank.rank == 3) {
      std::memset(memory, 0xa5, kOfLl128);
      ASSERT_TRUE(send_to_all(rank, memory, 5).ok());
      rank.finish();
      EXPECT_FALSE(holds(memory, contents(0, kOfLl128, kOfLl128)));
      EXPECT_FALSE(holds(memory, contents(0, kOfLl128))) << "there was no lane of all";
    } else if (rank.rank == 0) {
      ASSERT_TRUE(send_to_all(rank, memory, 0.3).ok());
      const Calls next{send(rank, 3, memory + kOfLl128, kOfLl128)};
      ASSERT_TRUE(post(rank, requested(next, GetParam())).ok());
      rank.finish();
      EXPECT_EQ(failure_of(rank).code(), Code::kDeadlineExceeded);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Protocols, OfferingInLanes, ::testing::Values("direct_put", "ll128"));

// Every rank with every other and itself, several messages each way, of all sizes and requests, in
// an order of each rank's own.
class OfferingCrowds : public OfferingMessages {
 protected:
  struct Sent {
    std::int64_t at = 0;
    std::int64_t count = 0;
    const char* protocol = "";
  };
  static constexpr std::int64_t kRoom = 300'000;  // for what one rank sends another

  // The same at both ends.
  static std::vector<Sent> between(int from, int to, unsigned round) {
    std::mt19937 random(round * 16 + static_cast<unsigned>(from * 4 + to));
    std::vector<Sent> all;
    const std::size_t messages = 1 + random() % 4;
    for (std::int64_t at = 0; all.size() < messages;) {
      const std::array counts = {1L, 500L, 20'000L, 65'536L};
      const std::array protocols = {"", "direct_put", "direct_put", "ll", "slots"};
      const std::int64_t count =
          counts[random() % counts.size()] + static_cast<std::int64_t>(random() % 3);
      all.push_back({at, count, protocols[random() % protocols.size()]});
      at += count + static_cast<std::int64_t>(random() % 9);
    }
    return all;
  }

  static Calls group(const Rank& rank, std::byte* out, std::byte* in, unsigned round) {
    std::vector<Calls> chains;
    for (int peer = 0; peer < kRanks; ++peer) {
      for (const bool is_send : {true, false}) {
        Calls& chain = chains.emplace_back();
        for (const Sent& sent :
             is_send ? between(rank.rank, peer, round) : between(peer, rank.rank, round)) {
          chain.push_back(is_send ? send(rank, peer, out + peer * kRoom + sent.at, sent.count)
                                  : recv(rank, peer, in + peer * kRoom + sent.at, sent.count));
          chain.back().operation.request.protocol = sent.protocol;
        }
      }
    }
    std::mt19937 random(round + static_cast<unsigned>(rank.rank));
    Calls calls;
    while (!chains.empty()) {
      Calls& chain = chains[random() % chains.size()];
      calls.push_back(chain.front());
      chain.erase(chain.begin());
      std::erase_if(chains, [](const Calls& left) { return left.empty(); });
    }
    return calls;
  }

  static void check(const Rank& rank, const std::byte* in, unsigned round) {
    for (int peer = 0; peer < kRanks; ++peer) {
      for (const Sent& sent : between(peer, rank.rank, round)) {
        ASSERT_TRUE(holds(in + peer * kRoom + sent.at,
                          contents(peer, sent.count, rank.rank * kRoom + sent.at)))
            << sent.count << " bytes from " << peer << " to " << rank.rank << ", round " << round;
      }
    }
  }

  void cross() {
    options_.profile->message_puts_from_bytes = 10'000;
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank, kRanks, kRoom);
      std::byte* const in = incoming(rank, kRanks, kRoom);
      for (unsigned round = 0; round < 12; ++round) {
        std::memset(in, 0, kRanks * kRoom);
        ASSERT_TRUE(post(rank, group(rank, out, in, round)).ok());
        rank.finish();
        check(rank, in, round);
        meet();
      }
      EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
    });
    EXPECT_GT(all_announced(), 80);
  }
};

TEST_F(OfferingCrowds, OfProcesses) { cross(); }

TEST_F(OfferingCrowds, OfProcessesWithFewBlocks) {
  options_.blocks = 6;
  cross();
}

TEST_F(OfferingCrowds, OfThreads) {
  share_a_process();
  cross();
}

TEST_F(OfferingMessages, ThreadsOfOneProcessOfferAtOnceAndMapNothing) {
  share_a_process();
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int imports = rank.cuda->calls("import_memory");
    for (const std::int64_t shift : {0, 3}) {
      post_and_meet(rank, around(rank, out + shift, in + shift, kOfLl128));
      EXPECT_TRUE(holds(in + shift, contents(previous_of(rank, kRanks), kOfLl128, shift)));
    }
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
  });
  EXPECT_EQ(all_announced(), 2 * kRanks);
}

TEST_F(OfferingMessages, MemoryThatCannotBeMappedStaysWithPackets) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    auto* const pooled = static_cast<std::byte*>(take(rank.cuda->allocate_private(kLarge)));
    std::byte* const in = incoming(rank);
    rank.cuda->fail("import_memory");  // of what the next rank announces
    const int imports = rank.cuda->calls("import_memory");
    for (std::byte* const to : {pooled, in}) {
      for (int i = 0; i < 4; ++i) {
        post_and_meet(rank, around(rank, out, to, kOfLl));
        ASSERT_TRUE(holds(to, contents(previous_of(rank, kRanks), kOfLl)));
      }
    }
    EXPECT_EQ(announced(rank), 0);
    EXPECT_EQ(rank.cuda->calls("import_memory") - imports, 1) << "it is not tried again";
  });
}

TEST_F(OfferingMessages, MemoryThatWasFreedIsLentAnew) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    const int imports = rank.cuda->calls("import_memory");
    const int closed = rank.cuda->calls("close_imported");
    for (int generation = 0; generation < 4; ++generation) {
      std::byte* const in = incoming(rank);
      const Calls calls = around(rank, out + generation, in, kOfLl);
      const int before = announced(rank);
      post_and_meet(rank, calls);
      EXPECT_EQ(announced(rank), before);
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kOfLl, generation)));
      post_and_meet(rank, calls);
      post_and_meet(rank, calls);
      EXPECT_GT(announced(rank), before);
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kOfLl, generation)));
      EXPECT_EQ(rank.cuda->calls("import_memory") - imports, generation + 1);
      EXPECT_EQ(rank.cuda->calls("close_imported") - closed, generation);
      meet();
      ASSERT_TRUE(rank.cuda->release(in).ok());
    }
  });
}

TEST_F(OfferingMessages, AreCapturedAndReplayedAndMapNothingMeanwhile) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const Calls calls = around(rank, out, in, kOfLl128);
    const auto captured = [&] {
      rank.cuda->begin_capture(rank.stream);
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(post(rank, calls).ok());
      }
      return take(rank.cuda->end_capture(rank.stream));
    };
    const int imports = rank.cuda->calls("import_memory");
    const FakeGraph packets = captured();
    meet();
    const FakeGraph still_packets = captured();
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    EXPECT_EQ(announced(rank), 0);
    meet();
    announce(rank, calls);
    const int before = announced(rank);
    const FakeGraph puts = captured();
    EXPECT_EQ(announced(rank), before + 3);
    for (int i = 0; i < 5; ++i) {
      std::memset(in, 0, kOfLl128);
      meet();
      puts.launch(rank.stream);
      packets.launch(rank.stream);
      puts.launch(rank.stream);
      EXPECT_TRUE(post(rank, calls).ok());
      still_packets.launch(rank.stream);
      puts.launch(rank.stream);
      rank.finish();
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kOfLl128)));
    }
  });
}

// Large ones of copy engines, small ones and puts in one group.
TEST_F(OfferingMessages, BesideCopyEngines) {
  options_.profile->message_copies_from_bytes = kLarge;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, 2);
    std::byte* const in = incoming(rank, 2);
    Calls calls = around(rank, out, in, kOfLl128);
    calls.push_back(send(rank, next_of(rank, kRanks), out + kLarge));
    calls.push_back(recv(rank, previous_of(rank, kRanks), in + kLarge));
    for (int i = 0; i < 4; ++i) {
      std::memset(in, 0, 2 * kLarge);
      post_and_meet(rank, calls);
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kOfLl128)));
      ASSERT_TRUE(came_from(previous_of(rank, kRanks), in + kLarge, 1));
    }
    EXPECT_GE(announced(rank), 2);
  });
}

TEST_F(OfferingMessages, AreRefusedWhereNobodyReachesIntoBuffers) {
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  run([&](Rank& rank) {
    const Status status = post(rank, around(rank, outgoing(rank), incoming(rank), kOfLl));
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("SENNIT_COPY_ENGINES"), std::string::npos) << status.message();
  });
}

// One rank that waits names the other, in either role; and what is posted later moves nothing.
TEST_F(OfferingMessages, AnEndThatNeverCallsIsNamedAtTheDeadline) {
  for (const bool is_send : {true, false}) {
    options_.deadline_s = 2;  // enough for the first messages, however slow the build
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      announce(rank, around(rank, out, in, kOfLl));
      std::memset(in, 0xa5, kOfLl);
      meet();
      const int peer = is_send ? next_of(rank, kRanks) : previous_of(rank, kRanks);
      if (rank.rank == 1) {
        const Calls calls = requested(
            {is_send ? send(rank, peer, out, kOfLl) : recv(rank, peer, in, kOfLl)}, "direct_put");
        ASSERT_TRUE(post(rank, calls).ok());
        ASSERT_TRUE(post(rank, calls).ok());
        const Status status = failure_of(rank);
        EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
        EXPECT_EQ(status.detail().blamed_ranks, std::vector{peer});
        rank.finish();
        EXPECT_FALSE(post(rank, calls).ok());
      }
      meet();
      EXPECT_EQ(in[0], std::byte{0xa5});
    });
  }
}

// One end of a message from rank 0 to rank 1 gives up, and then the other one calls for it.
class OfferingAlone : public OfferingMessages {
 protected:
  void give_up(int first, bool aborts) {
    options_.deadline_s = 2;  // of the rank that hears nothing
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      announce(rank, around(rank, out, in, kOfLl));
      std::memset(in, 0xa5, kOfLl);
      meet();
      const Calls end = requested(
          {rank.rank == 0 ? send(rank, 1, out, kOfLl) : recv(rank, 0, in, kOfLl)}, "direct_put");
      if (rank.rank == first) {
        // Two in the stream: the second one finds the words of the first.
        ASSERT_TRUE(post(rank, end).ok());
        ASSERT_TRUE(post(rank, end).ok());
        if (aborts) {
          rank.comm->abort();
          rank.finish();
        }
        EXPECT_EQ(failure_of(rank).code(), aborts ? Code::kAborted : Code::kDeadlineExceeded);
        rank.finish();
      }
      meet();
      if (rank.rank == 1 - first) {
        (void)post(rank, end);
        EXPECT_FALSE(failure_of(rank).ok());
        rank.finish();
      }
      meet();
      EXPECT_EQ(in[0], std::byte{0xa5});
    });
  }
};

TEST_F(OfferingAlone, ASenderStoresNothing) { give_up(0, /*aborts=*/true); }

TEST_F(OfferingAlone, AReceiverHasWithdrawnItsOffer) { give_up(1, /*aborts=*/false); }

TEST_F(OfferingMessages, EndsThatDifferAreNamed) {
  run([&](Rank& rank) {
    if (rank.rank > 1) {
      return;
    }
    std::byte* const memory = outgoing(rank);
    const Calls calls = requested(
        {rank.rank == 0 ? send(rank, 1, memory, kOfLl) : recv(rank, 0, memory, kOfLl + 1)},
        "direct_put");
    ASSERT_TRUE(post(rank, calls).ok());
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, (std::vector{0, 1}));
    rank.finish();
  });
}

TEST_F(OfferingMessages, GiveBackAllThatTheyTook) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    announce(rank, around(rank, out, in, kOfLl));
    post_and_meet(rank, around(rank, out, in, kOfLl));
    expect_nothing_left(rank, {out, in});
  });
}

}  // namespace
}  // namespace sennit::tests
