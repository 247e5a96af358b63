// Memory that all ranks have registered together, of ranks with fake GPUs: calls by copy engines
// find the outputs of other ranks there without waiting for these on the host.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/stream/reduction.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace sennit::tests {
namespace {

constexpr std::int64_t kOutputs = kPart * 4;
constexpr std::int64_t kSecond = kOutputs + 64;
constexpr std::int64_t kWindow = kSecond + kOutputs;

class SymmetricMemories : public FakeGpus {
 protected:
  static std::byte* register_window(Rank& rank) {
    rank.send = rank.allocate(kPart * kRanks);
    std::memcpy(rank.send, contents(rank.rank, kPart * kRanks).data(), kPart * kRanks);
    std::byte* const window = rank.allocate(kWindow);
    EXPECT_NE(rank.comm->add_symmetric(window, kWindow), 0U);
    return window;
  }

  static Operation call(const Rank& rank, Collective collective, std::byte* output) {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = output;
    op.count = kPart;
    op.root = 1;
    op.request.protocol = "copy_engines";
    return op;
  }

  // All of rank 0's calls return before another rank makes one.
  void call_first(const Rank& rank, const std::function<void()>& calls) {
    if (rank.rank == 0) {
      calls();
      meet();
    } else {
      meet();
      calls();
    }
    rank.finish();
  }

  static void expect_gathered(const std::byte* output, std::int64_t shift = 0) {
    for (int source = 0; source < kRanks; ++source) {
      ASSERT_TRUE(holds(output + source * kPart, contents(source, kPart, shift)))
          << "part of rank " << source;
    }
  }
};

TEST_F(SymmetricMemories, ACallAfterTheFirstWaitsForNobodyOnTheHost) {
  run([this](Rank& rank) {
    std::byte* const window = register_window(rank);
    ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, window)).ok());
    call_first(rank, [&] {
      for (const std::int64_t offset : {std::int64_t{0}, kSecond, std::int64_t{16}}) {
        std::byte* const output = window + offset;
        ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, output)).ok());
      }
    });
    expect_gathered(window + 16);
    expect_gathered(window + kSecond);
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(SymmetricMemories, OtherCollectivesKnowWhatOneHasLearnt) {
  run([this](Rank& rank) {
    std::byte* const window = register_window(rank);
    ASSERT_TRUE(rank.call(call(rank, Collective::kBroadcast, window)).ok());
    call_first(rank, [&] {
      ASSERT_TRUE(rank.call(call(rank, Collective::kAllToAll, window)).ok());
      ASSERT_TRUE(rank.call(call(rank, Collective::kBroadcast, window + kOutputs)).ok());
    });
    ASSERT_TRUE(holds(window + kOutputs, contents(1, kPart)));
    for (int source = 0; source < kRanks; ++source) {
      ASSERT_TRUE(holds(window + source * kPart, contents(source, kPart, rank.rank * kPart)))
          << "rank " << rank.rank << ", part of rank " << source;
    }
  });
}

// What a kernel would do with bytes.
std::function<void()> add_bytes(const void* /*kernel*/, const void* parameters) {
  return [sum = *static_cast<const stream::ReductionCall*>(parameters)] {
    for (std::int64_t at = 0; at < sum.bytes; ++at) {
      unsigned total = 0;
      for (int i = 0; i < sum.operand_count; ++i) {
        total += std::to_integer<unsigned>(sum.operands[static_cast<std::size_t>(i)].data[at]);
      }
      for (int i = 0; i < sum.output_count; ++i) {
        sum.outputs[static_cast<std::size_t>(i)][at] = static_cast<std::byte>(total);
      }
    }
  };
}

// Their staging memory is known from the last one that was as long.
TEST_F(SymmetricMemories, ReductionsWaitForNobodyEither) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(add_bytes);
    std::byte* const window = register_window(rank);
    Operation longest = call(rank, Collective::kAllReduce, window);
    longest.request.algorithm = "two_shot";
    ASSERT_TRUE(rank.call(longest).ok());
    call_first(rank, [&] {
      for (const std::int64_t count : {kPart, kPart / 2}) {
        Operation op = longest;
        op.count = count;
        op.recv = window + (count == kPart ? 0 : kOutputs);
        ASSERT_TRUE(rank.call(op).ok());
      }
    });
    Operation longer = longest;
    longer.count = 2 * kPart;
    ASSERT_TRUE(rank.call(longer).ok());
    rank.finish();
    const auto sum_at = [](std::int64_t at) {
      unsigned total = 0;
      for (int source = 0; source < kRanks; ++source) {
        total += std::to_integer<unsigned>(content(source, at));
      }
      return static_cast<std::byte>(total);
    };
    for (std::int64_t i = 0; i < 2 * kPart; ++i) {
      ASSERT_EQ(window[i], sum_at(i)) << i;
    }
    for (std::int64_t i = 0; i < kPart / 2; ++i) {
      ASSERT_EQ(window[kOutputs + i], sum_at(i)) << i;
    }
  });
}

TEST_F(SymmetricMemories, OutputsThatNeverLayAtOnePlaceMeetAsOthersDo) {
  run([](Rank& rank) {
    std::byte* const window = register_window(rank);
    for (const std::int64_t offset : {16, 32}) {
      std::byte* const output = window + offset * rank.rank;
      ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, output)).ok());
      rank.finish();
      expect_gathered(output);
    }
  });
}

TEST_F(SymmetricMemories, WindowsOfOtherSizesMeetAsOthersDo) {
  run([](Rank& rank) {
    rank.send = rank.allocate(kPart);
    std::memcpy(rank.send, contents(rank.rank, kPart).data(), kPart);
    std::byte* const window = rank.allocate(kWindow);
    EXPECT_NE(rank.comm->add_symmetric(window, static_cast<std::size_t>(kWindow - rank.rank)), 0U);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, window)).ok());
      rank.finish();
      expect_gathered(window);
    }
  });
}

// Peers have mapped the one of an output, and others lie anywhere there.
TEST_F(SymmetricMemories, WindowsOfSeveralAllocationsMeetAsOthersDo) {
  run([](Rank& rank) {
    rank.send = rank.allocate(kPart);
    std::memcpy(rank.send, contents(rank.rank, kPart).data(), kPart);
    std::byte* const window = rank.allocate(kWindow);
    EXPECT_NE(rank.comm->add_symmetric(window, std::size_t{4} * kWindow), 0U);
    for (const std::int64_t offset : {0, 16}) {
      std::byte* const output = window + offset * rank.rank;
      ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, output)).ok());
      rank.finish();
      expect_gathered(output);
    }
  });
}

TEST_F(SymmetricMemories, AnOutputAtAnotherPlaceIsNamedAsAMismatch) {
  run([this](Rank& rank) {
    std::byte* const window = register_window(rank);
    ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, window)).ok());
    rank.finish();
    meet();
    const std::int64_t offset = rank.rank == 2 ? 32 : 16;
    (void)rank.call(call(rank, Collective::kAllGather, window + offset));
    const Status failure = failure_of(rank);
    EXPECT_EQ(failure.code(), Code::kMismatch) << failure.message();
    meet();
  });
}

// The memory may be freed then, and what was known of it says nothing of what comes in its place.
TEST_F(SymmetricMemories, EndsWithItsRegistration) {
  run([](Rank& rank) {
    rank.send = rank.allocate(kPart);
    std::memcpy(rank.send, contents(rank.rank, kPart).data(), kPart);
    for (int i = 0; i < 3; ++i) {
      std::byte* const window = rank.allocate(kWindow);
      const std::uint64_t number = rank.comm->add_symmetric(window, kWindow);
      EXPECT_EQ(number, static_cast<std::uint64_t>(i) + 1);
      for (int again = 0; again < 2; ++again) {
        ASSERT_TRUE(rank.call(call(rank, Collective::kAllGather, window)).ok());
        rank.finish();
        expect_gathered(window);
        std::memset(window, 0xa5, kWindow);
      }
      rank.comm->remove_symmetric(number);
      ASSERT_TRUE(
          rank.call(call(rank, Collective::kAllGather, window + std::int64_t{32} * rank.rank))
              .ok());
      rank.finish();
      expect_gathered(window + std::int64_t{32} * rank.rank);
      ASSERT_TRUE(rank.cuda->release(window).ok());
    }
  });
}

}  // namespace
}  // namespace sennit::tests
