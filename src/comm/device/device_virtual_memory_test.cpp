// Buffers in memory that a program has mapped itself (cuMemCreate, cuMemMap): ranks map it by a
// descriptor, and then it is as good as any other.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <iterator>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 200'003;

class VirtualMemory : public OfferingGpus {
 protected:
  static std::byte* allocate(const Rank& rank, std::int64_t bytes) {
    constexpr std::int64_t kPage = std::int64_t{2} << 20;
    const std::int64_t pages = (bytes + kPage - 1) / kPage;
    return static_cast<std::byte*>(
        take(rank.cuda->allocate_virtual(static_cast<std::size_t>(pages * kPage))));
  }
  static std::byte* outgoing_of(const Rank& rank, std::int64_t bytes = kLarge) {
    std::byte* const memory = allocate(rank, bytes);
    std::memcpy(memory, contents(rank.rank, bytes).data(), static_cast<std::size_t>(bytes));
    return memory;
  }

  static Calls around(const Rank& rank, std::byte* out, std::byte* in) {
    return requested({send(rank, next_of(rank, kRanks), out, kCount),
                      recv(rank, previous_of(rank, kRanks), in, kCount)},
                     "direct_put");
  }
  // Sends around and looks at what has come.
  void pass(const Rank& rank, std::byte* out, std::byte* in) {
    std::memset(in, 0xa5, kCount);
    ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
    rank.finish();
    ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kCount)));
    meet();
  }

  // By packets first; then, where `is_mapped`, straight.
  void pass_often(const Rank& rank, std::byte* out, std::byte* in, bool is_mapped) {
    const int before = announced(rank);
    for (int i = 0; i < 4; ++i) {
      pass(rank, out, in);
    }
    EXPECT_EQ(announced(rank) > before, is_mapped);
  }
};

TEST_F(VirtualMemory, IsStoredIntoFromTheThirdMessageOn) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    const int imports = rank.cuda->calls("import_memory");
    pass(rank, out, in);
    EXPECT_EQ(announced(rank), 0);
    pass_often(rank, out, in, true);
    EXPECT_EQ(rank.cuda->calls("import_memory") - imports, 1);
  });
}

// It is open to the device that the program has named, not to those of other threads.
TEST_F(VirtualMemory, IsMappedByThreadsOfOneProcess) {
  share_a_process();
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    const int imports = rank.cuda->calls("import_memory");
    meet();
    for (int i = 0; i < 4; ++i) {
      pass(rank, out, in);
    }
    EXPECT_EQ(rank.cuda->calls("import_memory") - imports, kRanks);
    EXPECT_GE(all_announced(), kRanks);
  });
}

TEST_F(VirtualMemory, OfARankItselfIsNotMapped) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    const int imports = rank.cuda->calls("import_memory");
    Calls calls = requested({send(rank, rank.rank, out, kCount), recv(rank, rank.rank, in, kCount)},
                            "direct_put");
    // Alone it would be a copy.
    calls.push_back(send(rank, next_of(rank, kRanks), out, 1));
    calls.push_back(recv(rank, previous_of(rank, kRanks), in + kCount, 1));
    ASSERT_TRUE(post(rank, calls).ok());
    rank.finish();
    EXPECT_TRUE(holds(in, contents(rank.rank, kCount)));
    EXPECT_EQ(announced(rank), 1);
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
  });
}

TEST_F(VirtualMemory, TakesTheBlocksOfAnAllGather) {
  run([this](Rank& rank) {
    rank.send = outgoing_of(rank, kCount);
    rank.recv = allocate(rank, kCount * kRanks);
    Operation op = all_gather(rank, kCount);
    op.request.protocol = "direct_put";
    int before = 0;
    for (int i = 0; i < 3; ++i) {
      std::memset(rank.recv, 0xa5, kCount * kRanks);
      before = announced(rank);
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
      for (int source = 0; source < kRanks; ++source) {
        ASSERT_TRUE(holds(rank.recv + source * kCount, contents(source, kCount)));
      }
      meet();
    }
    EXPECT_EQ(announced(rank), before + kRanks);
  });
}

TEST_F(VirtualMemory, IsWrittenByCopyEngines) {
  run([this](Rank& rank) {
    rank.send = outgoing_of(rank, kPart);
    rank.recv = allocate(rank, kPart * kRanks);
    Operation op = all_gather(rank);
    op.request.protocol = "copy_engines";
    for (int i = 0; i < 2; ++i) {
      std::memset(rank.recv, 0xa5, kPart * kRanks);
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
      check_gathered(rank);
      meet();
    }
    EXPECT_EQ(rank.launches(), 0);
  });
}

// As MessageCopies does it: the first by kernels, then by copy engines.
TEST_F(VirtualMemory, IsReadByTheCopyEnginesOfMessages) {
  options_.profile->message_copies_from_bytes = kLarge;
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    int before = 0;
    for (int i = 0; i < 3; ++i) {
      std::memset(in, 0xa5, kLarge);
      before = rank.launches();
      ring_and_meet(rank, out, in);
      ASSERT_TRUE(came_from(previous_of(rank, kRanks), in));
    }
    check_no_launches(rank, before);
  });
}

// Its id and its address are given again, to other memory.
TEST_F(VirtualMemory, ThatWasFreedIsMappedAnew) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    const int imports = rank.cuda->calls("import_memory");
    const int closed = rank.cuda->calls("close_imported");
    for (int generation = 0; generation < 4; ++generation) {
      std::byte* const in = allocate(rank, kLarge);
      pass_often(rank, out, in, true);
      EXPECT_EQ(rank.cuda->calls("import_memory") - imports, generation + 1);
      EXPECT_EQ(rank.cuda->calls("close_imported") - closed, generation);
      meet();
      ASSERT_TRUE(rank.cuda->release(in).ok());
    }
  });
}

// Memory that threads reach without mapping it comes in between; the id is given again
// nevertheless.
TEST_F(VirtualMemory, ThatWasFreedIsMappedAnewByThreadsOfOneProcess) {
  share_a_process();
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* in = allocate(rank, kLarge);
    std::byte* const ordinary = incoming(rank);
    for (int generation = 0; generation < 3; ++generation) {
      for (int i = 0; i < 4; ++i) {
        pass(rank, out, in);
      }
      if (rank.rank == 0) {
        ASSERT_TRUE(rank.cuda->release(in).ok());
      }
      pass(rank, out, generation == 0 ? ordinary : incoming(rank));
      if (rank.rank == 0) {
        in = allocate(rank, kLarge);
      }
    }
    const int closed = rank.cuda->calls("close_imported");
    meet();
    EXPECT_EQ(closed, 2) << "what rank 0 has freed";
  });
}

TEST_F(VirtualMemory, ThatWasFreedIsReadAnewByTheCopyEnginesOfThreads) {
  share_a_process();
  options_.copy_engines = DeviceComm::Options::CopyUse::kOn;
  options_.profile->message_copies_from_bytes = kLarge;
  run([this](Rank& rank) {
    std::byte* out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    for (int generation = 0; generation < 3; ++generation) {
      for (int i = 0; i < 3; ++i) {
        std::memset(in, 0xa5, kLarge);
        ring_and_meet(rank, out, in);
        ASSERT_TRUE(came_from(previous_of(rank, kRanks), in));
      }
      if (rank.rank == 0) {
        std::memset(out, 0xa5, kLarge);  // who reads it from now on is found out
        ASSERT_TRUE(rank.cuda->release(out).ok());
      }
      ring_and_meet(rank, outgoing(rank), in);
      if (rank.rank == 0) {
        out = outgoing_of(rank);
      }
    }
  });
}

TEST_F(VirtualMemory, ThatMayNotBeTakenOverStaysWithPackets) {
  cuda_options_.hides_descriptors = true;
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    const int imports = rank.cuda->calls("import_memory");
    pass_often(rank, out, in, false);
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    pass_often(rank, out, incoming(rank), true);  // other memory is mapped as ever
  });
}

TEST_F(VirtualMemory, AcrossTwoAllocationsStaysWithPackets) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    const auto pair = take(rank.cuda->allocate_virtual_pair(kLarge));
    auto* const second = static_cast<std::byte*>(pair[1]);
    pass_often(rank, out, second - kCount + 1, false);
    pass_often(rank, out, second - kCount, true);
    pass_often(rank, out, second, true);
  });
}

// As many as others may map at once: the rest takes packets, with the right bytes, and its turn.
TEST_F(VirtualMemory, OfManyAllocationsIsMappedOneByOne) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::vector<std::byte*> all;
    for (int i = 0; i < 40; ++i) {
      all.push_back(allocate(rank, kCount));
    }
    const int before = announced(rank);
    for (int round = 0; round < 4; ++round) {
      for (std::byte* const in : all) {
        pass(rank, out, in);
      }
    }
    EXPECT_GT(announced(rank), before + 40);
  });
}

// A descriptor stays open until all have mapped the memory.
TEST_F(VirtualMemory, ThatNobodyCanMapLeavesDescriptorsForOthers) {
  cuda_options_.hides_descriptors = true;
  prepare_ = nullptr;  // no kernels: only how they are launched is looked at
  run([this](Rank& rank) {
    rank.send = rank.allocate(kPart);
    const auto descriptors = [] {
      const std::filesystem::directory_iterator all("/proc/self/fd");
      return std::distance(begin(all), end(all));
    };
    meet();
    const auto before = descriptors();
    for (int i = 0; i < 40; ++i) {
      rank.recv = allocate(rank, kPart * kRanks);
      ASSERT_TRUE(rank.call(all_gather(rank)).ok());
      EXPECT_EQ(rank.launches(), i + 1);
    }
    meet();
    // Each allocation of a fake has one itself, and each rank that counts.
    EXPECT_LE(descriptors() - before, kRanks * (40 + 16 + 1));
    meet();
    // Other memory is reached as ever.
    rank.recv = rank.allocate(kPart * kRanks);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    EXPECT_EQ(rank.launches(), 40);
    rank.finish();
  });
}

// In a capture nothing is mapped.
TEST_F(VirtualMemory, ThatWasFreedBeforeItWasMappedLeavesDescriptorsForOthers) {
  prepare_ = nullptr;
  run([](Rank& rank) {
    rank.recv = rank.allocate(kPart * kRanks);
    std::vector<std::byte*> sends;
    rank.cuda->begin_capture(rank.stream);
    for (int i = 0; i < 20; ++i) {
      rank.send = sends.emplace_back(allocate(rank, kPart));
      ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    }
    (void)take(rank.cuda->end_capture(rank.stream));
    for (std::byte* const send : sends) {
      ASSERT_TRUE(rank.cuda->release(send).ok());
    }
    const int before = rank.launches();
    rank.send = outgoing_of(rank, kPart);
    ASSERT_TRUE(rank.call(all_gather(rank)).ok());
    rank.finish();
    check_gathered(rank);
    EXPECT_EQ(rank.launches(), before);
  });
}

TEST_F(VirtualMemory, IsHeldUntilTheCommunicatorEnds) {
  run([this](Rank& rank) {
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank, kLarge);
    pass_often(rank, out, in, true);
    const std::uint64_t id = take(rank.cuda->allocation_of(in)).id;
    meet();
    const auto next_id = [&] {
      std::byte* const next = allocate(rank, kSmall);
      const std::uint64_t found = take(rank.cuda->allocation_of(next)).id;
      EXPECT_TRUE(rank.cuda->release(next).ok());
      return found;
    };
    ASSERT_TRUE(rank.cuda->release(in).ok());
    EXPECT_NE(next_id(), id);
    rank.comm.reset();
    EXPECT_EQ(next_id(), id);
  });
}

}  // namespace
}  // namespace sennit::tests
