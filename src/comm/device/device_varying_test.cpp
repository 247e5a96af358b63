// The v-forms on GPU memory, of ranks with fake GPUs.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kUnit = 8'001;  // bytes; blocks begin anywhere, so that none is a small call
constexpr std::int64_t kGap = 5;       // between blocks

// Of what rank `from` sends to rank `to`: none, or up to ten units.
std::int64_t length(int from, int to) { return kUnit * ((from * 3 + to * 6) % 4) * (from + 1) / 2; }

struct Lengths {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> expected;
};

class VaryingGpus : public OfferingGpus {
 protected:
  // What the ranks mean in a call of this collective, by peer.
  static Lengths lengths_of(Collective collective, int rank, int root) {
    const auto pair = [&](int from, int to) -> std::int64_t {
      switch (collective) {
        case Collective::kAllGather:
          return length(from, from);
        case Collective::kGather:
          return to == root ? length(from, to) : 0;
        case Collective::kScatter:
          return from == root ? length(from, to) : 0;
        default:
          return length(from, to);
      }
    };
    Lengths lengths;
    for (int peer = 0; peer < kRanks; ++peer) {
      lengths.sent.push_back(pair(rank, peer));
      lengths.expected.push_back(pair(peer, rank));
    }
    return lengths;
  }

  static std::vector<ElementRange> lay_out(const std::vector<std::int64_t>& lengths) {
    std::vector<ElementRange> blocks;
    std::int64_t at = kGap;
    for (const std::int64_t count : lengths) {
      blocks.push_back({.begin = at, .length = count});
      at += count + kGap;
    }
    return blocks;
  }
  static std::int64_t extent(const std::vector<ElementRange>& blocks) {
    return blocks.back().begin + blocks.back().length + kGap;
  }

  // With buffers of its own; an input of one block for all but all_to_all_v and a root's scatter_v.
  static Operation make(const Rank& rank, Collective collective, int root = 1) {
    const Lengths lengths = lengths_of(collective, rank.rank, root);
    Operation op;
    op.collective = collective;
    op.root = root;
    op.varying = true;
    op.inputs = lay_out(collective == Collective::kAllGather || collective == Collective::kGather
                            ? std::vector{lengths.sent[static_cast<std::size_t>(
                                  collective == Collective::kGather ? root : 0)]}
                            : lengths.sent);
    op.outputs = lay_out(collective == Collective::kScatter
                             ? std::vector{lengths.expected[static_cast<std::size_t>(root)]}
                             : lengths.expected);
    op.count = std::max(extent(op.inputs), extent(op.outputs));
    if (rank.rank != root && collective == Collective::kGather) {
      op.outputs.clear();
    }
    if (rank.rank != root && collective == Collective::kScatter) {
      op.inputs.clear();
    }
    std::byte* const input = rank.allocate(op.count);
    op.send = input;
    op.recv = rank.allocate(op.count);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const int to = op.inputs.size() > 1 ? static_cast<int>(i) : 0;
      const Bytes bytes = contents(rank.rank, op.inputs[i].length, std::int64_t{to} * 1000);
      std::ranges::copy(bytes, input + op.inputs[i].begin);
    }
    return op;
  }

  // Every block, and nothing else.
  static void check(const Rank& rank, const Operation& op) {
    const auto* const out = static_cast<const std::byte*>(op.recv);
    Bytes expected(static_cast<std::size_t>(op.count), std::byte{0xa5});
    const bool is_one = op.outputs.size() == 1;
    const bool is_sent_apart =
        op.collective == Collective::kAllToAll || op.collective == Collective::kScatter;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const int from = is_one ? op.root : static_cast<int>(i);
      const Bytes bytes =
          contents(from, op.outputs[i].length, is_sent_apart ? std::int64_t{rank.rank} * 1000 : 0);
      std::ranges::copy(bytes, expected.begin() + op.outputs[i].begin);
    }
    ASSERT_TRUE(holds(out, expected)) << name_of(op) << " on rank " << rank.rank;
  }

  void call_and_check(const Rank& rank, const Operation& op) {
    std::memset(op.recv, 0xa5, static_cast<std::size_t>(op.count));
    const Status status = rank.call(op);
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    if (op.collective != Collective::kGather || rank.rank == op.root) {
      check(rank, op);
    }
    meet();
  }

  // What a root scatters in place is no output to look at.
  void call_in_place(const Rank& rank, const Operation& op) {
    const bool has_output = rank.rank == op.root ? op.collective != Collective::kScatter
                                                 : op.collective != Collective::kGather;
    for (int i = 0; i < 4; ++i) {
      if (has_output) {
        std::memset(op.recv, 0xa5, static_cast<std::size_t>(op.count));
        if (op.send == op.recv) {
          const Bytes own = contents(rank.rank, op.inputs.front().length);
          std::ranges::copy(own, static_cast<std::byte*>(op.recv) + op.inputs.front().begin);
        }
      }
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
      if (has_output) {
        check(rank, op);
      }
      meet();
    }
  }

  std::atomic<int> copies_of_large_{0};
  std::atomic<int> copies_of_all_{0};

  static constexpr Collective kForms[] = {
      Collective::kAllGather, Collective::kAllToAll, Collective::kGather, Collective::kScatter};

  void call_all() {
    run([this](Rank& rank) {
      for (const Collective collective : kForms) {
        for (const std::string protocol : {"", "ll", "slots"}) {
          Operation op = make(rank, collective);
          op.request.protocol = protocol;
          for (int i = 0; i < 4; ++i) {
            call_and_check(rank, op);
          }
        }
      }
      EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
    });
  }
};

TEST_F(VaryingGpus, BlocksOfAnyLengthsAtAnyPlaces) {
  options_.profile->message_puts_from_bytes = 20'000;
  call_all();
  EXPECT_GT(all_announced(), 10) << "large blocks are stored where they belong";
}

TEST_F(VaryingGpus, WhereNoGpuReachesAnother) {
  options_.nvlink = false;
  comm_config_.device = "cuda";
  comm_config_.paths = "host";
  call_all();
  EXPECT_EQ(all_announced(), 0);
}

// Blocks of 20 KB and more, as messages of that length would; by request all of them.
TEST_F(VaryingGpus, ByCopyEngines) {
  options_.profile->message_copies_from_bytes = 20'000;
  run([this](Rank& rank) {
    for (const Collective collective : kForms) {
      for (const std::string protocol : {"", "copy_engines", "direct_get"}) {
        Operation op = make(rank, collective);
        op.request.protocol = protocol;
        const int copies = rank.cuda->calls("copy_async");
        for (int i = 0; i < 4; ++i) {
          call_and_check(rank, op);
        }
        const int made = rank.cuda->calls("copy_async") - copies;
        (protocol.empty() ? copies_of_large_ : copies_of_all_) += made;
      }
    }
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
  });
  EXPECT_GT(copies_of_large_, 0);
  EXPECT_GT(copies_of_all_, copies_of_large_ * 2) << "two requests, for small blocks as well";
}

TEST_F(VaryingGpus, SomeOfEachBlockThroughTheHost) {
  comm_config_.device = "cuda";
  comm_config_.host_slot_bytes = std::size_t{16} << 10;
  comm_config_.host_ring_bytes = std::size_t{64} << 10;
  run([this](Rank& rank) {
    for (const Collective collective : kForms) {
      for (const std::string path : {"nvlink+host:50", "nvlink+host:dynamic", "host"}) {
        Operation op = make(rank, collective);
        op.request.path = path;
        for (int i = 0; i < 4; ++i) {
          call_and_check(rank, op);
        }
      }
    }
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
  });
}

TEST_F(VaryingGpus, InPlace) {
  run([this](Rank& rank) {
    for (const Collective collective : {Collective::kAllGather, Collective::kGather}) {
      Operation op = make(rank, collective);
      if (collective == Collective::kAllGather || rank.rank == op.root) {
        op.send = op.recv;
        op.inputs = {op.outputs[static_cast<std::size_t>(rank.rank)]};
      }
      call_in_place(rank, op);
    }
    Operation scatter = make(rank, Collective::kScatter);
    if (rank.rank == scatter.root) {
      scatter.recv = const_cast<void*>(scatter.send);
      scatter.outputs = {scatter.inputs[static_cast<std::size_t>(rank.rank)]};
    }
    call_in_place(rank, scatter);
  });
}

// A rank that has nothing to send or to get takes part in the count of calls all the same.
TEST_F(VaryingGpus, BesideOtherCalls) {
  run([this](Rank& rank) {
    Operation op = make(rank, Collective::kAllToAll);
    if (rank.rank == 3) {
      for (ElementRange& block : op.inputs) {
        block.length = 0;
      }
    }
    op.outputs[3].length = 0;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(rank.call(op).ok());
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      ASSERT_TRUE(post(rank,
                       requested({send(rank, next_of(rank, kRanks), out, kUnit),
                                  recv(rank, previous_of(rank, kRanks), in, kUnit)},
                                 "slots"))
                      .ok());
      rank.finish();
      EXPECT_TRUE(holds(in, contents(previous_of(rank, kRanks), kUnit)));
      meet();
    }
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
  });
}

TEST_F(VaryingGpus, NameTheTwoRanksThatMeanDifferentLengths) {
  run([](Rank& rank) {
    Operation op = make(rank, Collective::kAllToAll);
    if (rank.rank == 2) {
      ++op.inputs[0].length;  // 0 expects a byte less
    }
    (void)rank.call(op);
    const bool is_end = rank.rank == 0 || rank.rank == 2;
    if (!is_end) {
      // Waits for what rank 0 does not come to any more.
      (void)post(rank, {recv(rank, 0, incoming(rank) + 1, kSmall)});
    }
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), is_end ? Code::kMismatch : Code::kAborted) << status.message();
    if (is_end) {
      EXPECT_EQ(status.detail().blamed_ranks, (std::vector{0, 2}));
      const std::int64_t meant = length(2, 0);
      for (const std::string& part : {fmt::format("sends {} elements to", meant + 1),
                                      fmt::format("which expects {}", meant)}) {
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
      }
    }
    rank.finish();
  });
}

// Whatever stands where a rank has nothing to send or to get; and what it would need is missed
// wherever its blocks lie.
TEST_F(VaryingGpus, LookAtBuffersThatAreUsedAlone) {
  run([](Rank& rank) {
    std::byte ordinary{};
    Operation gather = make(rank, Collective::kGather);
    if (rank.rank != gather.root) {
      gather.recv = &ordinary;
    }
    Operation scatter = make(rank, Collective::kScatter);
    if (rank.rank != scatter.root) {
      scatter.send = &ordinary;
    }
    EXPECT_TRUE(rank.call(gather).ok());
    EXPECT_TRUE(rank.call(scatter).ok());
    rank.finish();

    Operation exchange = make(rank, Collective::kAllToAll);
    exchange.outputs = {{}, {}, {.begin = 8, .length = 5}, {}};
    for (ElementRange& block : exchange.inputs) {
      block.length = 0;
    }
    if (rank.rank == 2) {
      exchange.inputs[2].length = 5;
    }
    exchange.recv = nullptr;
    EXPECT_EQ(rank.call(exchange).code(), Code::kInvalidArgument);
  });
}

TEST_F(VaryingGpus, RefuseAlikeWhatTheyHaveNot) {
  run([](Rank& rank) {
    const auto expect_refused = [&](const char* algorithm, const char* protocol, const char* why) {
      Operation op = make(rank, Collective::kAllToAll);
      op.request.algorithm = algorithm;
      op.request.protocol = protocol;
      const Status status = rank.call(op);
      EXPECT_EQ(status.code(), Code::kUnsupported);
      EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    };
    expect_refused("pairwise", "", "all_to_all_v by algorithm direct");
    EXPECT_EQ(rank.launches(), 0);
    Operation overlapping = make(rank, Collective::kAllToAll);
    overlapping.outputs[1] = overlapping.outputs[2] = {.begin = 0, .length = length(rank.rank, 0)};
    if (overlapping.outputs[1].length > 0) {
      EXPECT_EQ(rank.call(overlapping).code(), Code::kInvalidArgument);
    }
  });
}

}  // namespace
}  // namespace sennit::tests
