// Memory that ranks register: others have mapped it before anything is received there.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 200'003;

class RegisteredMemory : public OfferingGpus {
 protected:
  // Any call will do, outside of a capture.
  void call_something(const Rank& rank) {
    std::byte* const small = rank.allocate(16);
    ASSERT_TRUE(
        post(rank, {send(rank, rank.rank, small, 8), recv(rank, rank.rank, small + 8, 8)}).ok());
    rank.finish();
    meet();
  }

  static Calls around(const Rank& rank, std::byte* out, std::byte* in) {
    return requested({send(rank, next_of(rank, kRanks), out, kCount),
                      recv(rank, previous_of(rank, kRanks), in, kCount)},
                     "direct_put");
  }
  static bool has_come(const Rank& rank, const std::byte* in) {
    return holds(in, contents(previous_of(rank, kRanks), kCount));
  }

  void register_and_meet(const Rank& rank, std::byte* memory, std::int64_t bytes = kLarge) {
    rank.comm->expect_use_of(memory, static_cast<std::size_t>(bytes));
    meet();
  }
};

TEST_F(RegisteredMemory, IsStoredIntoByTheFirstMessage) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const ordinary = incoming(rank);
    auto* const mapped = static_cast<std::byte*>(take(rank.cuda->allocate_virtual(kLarge)));
    for (std::byte* const in : {ordinary, mapped}) {
      const int before = announced(rank);
      register_and_meet(rank, in);
      call_something(rank);
      ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
      rank.finish();
      EXPECT_EQ(announced(rank), before + 1);
      ASSERT_TRUE(has_come(rank, in));
      meet();
    }
  });
}

TEST_F(RegisteredMemory, IsStoredIntoByTheFirstBlocksOfAnAllGather) {
  run([this](Rank& rank) {
    rank.send = outgoing(rank);
    rank.recv = rank.allocate(kCount * kRanks);
    register_and_meet(rank, rank.recv, kCount * kRanks);
    call_something(rank);
    Operation op = all_gather(rank, kCount);
    op.request.protocol = "direct_put";
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    EXPECT_EQ(announced(rank), kRanks);
    for (int source = 0; source < kRanks; ++source) {
      ASSERT_TRUE(holds(rank.recv + source * kCount, contents(source, kCount)));
    }
  });
}

TEST_F(RegisteredMemory, IsStoredIntoByAFirstMessageThatIsCaptured) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    register_and_meet(rank, in);
    call_something(rank);
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(announced(rank), 1);
    meet();
    graph.launch(rank.stream);
    rank.finish();
    ASSERT_TRUE(has_come(rank, in));
  });
}

TEST_F(RegisteredMemory, IsNotMappedInACapture) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int imports = rank.cuda->calls("import_memory");
    register_and_meet(rank, in);
    rank.cuda->begin_capture(rank.stream);
    ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    EXPECT_EQ(announced(rank), 0);
    meet();
    graph.launch(rank.stream);
    rank.finish();
    ASSERT_TRUE(has_come(rank, in));
  });
}

// One at a time, so that after so many calls all of them are known.
TEST_F(RegisteredMemory, OfSeveralAllocationsIsMappedOneByOne) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing(rank);
    const auto pair = take(rank.cuda->allocate_virtual_pair(kLarge));
    const int imports = rank.cuda->calls("import_memory");
    auto* const first = static_cast<std::byte*>(pair[0]);
    auto* const second = static_cast<std::byte*>(pair[1]);
    register_and_meet(rank, first, second - first + kLarge);
    register_and_meet(rank, first, second - first + kLarge);  // is no more than once
    for (int i = 0; i < 4; ++i) {
      call_something(rank);
    }
    EXPECT_EQ(rank.cuda->calls("import_memory") - imports, 2 * (kRanks - 1));
    for (std::byte* const in : {first, second}) {
      const int before = announced(rank);
      ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
      rank.finish();
      EXPECT_EQ(announced(rank), before + 1);
      ASSERT_TRUE(has_come(rank, in));
      meet();
    }
  });
}

TEST_F(RegisteredMemory, MayBeFreedBeforeItIsMapped) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const first = incoming(rank);
    std::byte* const second = incoming(rank);
    std::byte* const third = incoming(rank);
    for (std::byte* const memory : {first, second, third}) {
      register_and_meet(rank, memory);
    }
    for (std::byte* const memory : {first, second}) {
      ASSERT_TRUE(rank.cuda->release(memory).ok());
    }
    meet();
    for (int i = 0; i < 4; ++i) {
      call_something(rank);
    }
    ASSERT_TRUE(post(rank, around(rank, out, third)).ok());
    rank.finish();
    EXPECT_EQ(announced(rank), 1);
    ASSERT_TRUE(has_come(rank, third));
  });
}

// Or none at all.
TEST_F(RegisteredMemory, IsAHint) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    auto* const pooled = static_cast<std::byte*>(take(rank.cuda->allocate_private(kLarge)));
    register_and_meet(rank, nullptr, 0);
    register_and_meet(rank, pooled);
    register_and_meet(rank, in, 1 << 30);  // more than there is
    call_something(rank);
    for (std::byte* const to : {in, pooled}) {
      ASSERT_TRUE(post(rank, around(rank, out, to)).ok());
      rank.finish();
      ASSERT_TRUE(has_come(rank, to));
      meet();
    }
    EXPECT_EQ(announced(rank), 1);
  });
}

TEST_F(RegisteredMemory, MayBeRegisteredByOtherThreadsMeanwhile) {
  run([](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::vector<std::byte*> all;
    for (int i = 0; i < 8; ++i) {
      all.push_back(incoming(rank));
    }
    const std::jthread registers([&] {
      EXPECT_TRUE(rank.cuda->use_device(rank.rank).ok());
      for (std::byte* const memory : all) {
        rank.comm->expect_use_of(memory, kLarge);
      }
    });
    for (std::byte* const in : all) {
      ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
      rank.finish();
      ASSERT_TRUE(has_come(rank, in));
    }
  });
}

TEST_F(RegisteredMemory, ChangesNothingWhereNobodyReachesIntoBuffers) {
  options_.copy_engines = DeviceComm::Options::CopyUse::kOff;
  run([this](Rank& rank) {
    const int exports = rank.cuda->calls("export_memory");
    register_and_meet(rank, incoming(rank));
    call_something(rank);
    EXPECT_EQ(rank.cuda->calls("export_memory"), exports);
  });
}

}  // namespace
}  // namespace sennit::tests
