#include "path/shm/slot_stores.hpp"

#include "path/shm/ring_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace sennit::shm {
namespace {

constexpr std::size_t kSlotBytes = 65536;
constexpr double kAlwaysSlow = std::numeric_limits<double>::infinity();
constexpr double kNeverSlow = 0;

// More puts than lie between two looks, so that every way of storing is taken.
constexpr int kPuts = 200;

void expect_exact_copies(double slow_bytes_per_ns) {
  std::vector<std::byte> from(kSlotBytes + 64);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  const std::byte untouched{0xee};
  for (const std::size_t bytes : {std::size_t{4095},
                                  std::size_t{4096},
                                  std::size_t{4097},
                                  std::size_t{16383},
                                  std::size_t{20001},
                                  kSlotBytes}) {
    SlotStores stores(slow_bytes_per_ns);
    for (int put = 0; put < kPuts; ++put) {
      const auto to_offset = static_cast<std::size_t>(put % 64);
      const auto from_offset = static_cast<std::size_t>(put * 3 % 64);
      std::vector<std::byte> slot(kSlotBytes + 128, untouched);
      stores.copy(slot.data() + to_offset, from.data() + from_offset, bytes);
      const auto begin = slot.begin() + static_cast<std::ptrdiff_t>(to_offset);
      const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
      const auto is_untouched = [&](std::byte byte) { return byte == untouched; };
      ASSERT_TRUE(std::equal(begin, end, from.begin() + static_cast<std::ptrdiff_t>(from_offset)) &&
                  std::all_of(slot.begin(), begin, is_untouched) &&
                  std::all_of(end, slot.end(), is_untouched))
          << bytes << " bytes, put " << put;
    }
  }
}

TEST(SlotStores, PlainStoresAreExact) { expect_exact_copies(kNeverSlow); }
TEST(SlotStores, StreamingStoresAreExact) { expect_exact_copies(kAlwaysSlow); }

// The puts that want copies: looks, and all while plain stores are slow.
int puts_that_want_copies(double slow_bytes_per_ns, std::size_t bytes) {
  SlotStores stores(slow_bytes_per_ns);
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> slot(bytes);
  int wanting = 0;
  for (int put = 0; put < kPuts; ++put) {
    wanting += stores.want_copies(bytes) ? 1 : 0;
    stores.copy(slot.data(), from.data(), bytes);
  }
  return wanting;
}

TEST(SlotStores, LooksAreRareWherePlainStoresAreFast) {
  EXPECT_LE(puts_that_want_copies(kNeverSlow, kSlotBytes), 10);
}

TEST(SlotStores, AllPutsStreamFromTheSecondSlowLookOn) {
  EXPECT_GE(puts_that_want_copies(kAlwaysSlow, kSlotBytes), kPuts - 2);
}

TEST(SlotStores, SmallMessagesNeverStream) {
  EXPECT_EQ(puts_that_want_copies(kAlwaysSlow, 4095), 0);
}

// Streaming stores keep no order of their own: a reader must not see the word before the message.
TEST(SlotStores, AMessageIsCompleteWhenItIsPublished) {
  constexpr RingGeometry kGeometry{.ranks = 2, .slots = 2, .slot_bytes = kSlotBytes};
  constexpr std::uint64_t kMessages = 3000;
  std::vector<std::byte> memory(RingPool::bytes(kGeometry) + alignof(SlotHead));
  void* base = memory.data();
  std::size_t space = memory.size();
  std::align(alignof(SlotHead), RingPool::bytes(kGeometry), base, space);
  const Ring ring = RingPool(static_cast<std::byte*>(base), kGeometry).ring(0, 1, 0);
  const auto bytes_of = [](std::uint64_t message) { return 4096 + message * 4099 % 61440; };

  std::thread writer([&] {
    SlotStores stores(kAlwaysSlow);
    std::vector<std::byte> from(kSlotBytes);
    for (std::uint64_t message = 0; message < kMessages; ++message) {
      std::ranges::fill(from, static_cast<std::byte>(message));
      while (!channel::may_write(ring.free(message), message, ring.slots())) {
        std::this_thread::yield();
      }
      const std::size_t bytes = bytes_of(message);
      stores.copy(ring.payload(message, bytes), from.data(), bytes);
      channel::publish(ring.full(message), message, 1);
    }
  });
  std::uint64_t incomplete = 0;
  for (std::uint64_t message = 0; message < kMessages; ++message) {
    while (!channel::is_full(ring.full(message), message, 1)) {
      std::this_thread::yield();
    }
    const std::size_t bytes = bytes_of(message);
    const std::span payload(ring.payload(message, bytes), bytes);
    incomplete += std::ranges::count(payload, static_cast<std::byte>(message)) !=
                          static_cast<std::ptrdiff_t>(bytes)
                      ? 1
                      : 0;
    channel::release_slot(ring.free(message), message);
  }
  writer.join();
  EXPECT_EQ(incomplete, 0);
}

}  // namespace
}  // namespace sennit::shm
