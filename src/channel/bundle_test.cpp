#include "channel/bundle.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <thread>

namespace sennit::channel {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr std::uint32_t kFingerprint = 99;

struct Path {
  std::array<Word, kSlots> full;
  std::array<Word, kSlots> free;
  std::array<std::uint64_t, kSlots> tag{};
  std::array<std::uint64_t, kSlots> data{};  // plain memory: the words alone order it
};

BundleCounts counts_from(std::uint64_t first, std::uint64_t second) {
  BundleCounts counts;
  add_path(counts, 0, first);
  add_path(counts, 1, second);
  return counts;
}

int path_of(std::uint64_t message) { return message * 2654435761U >> 7 & 1U ? 1 : 0; }

// Crosses the wrap of the 32-bit sequence; the thread sanitizer reports `data` if an order lacks.
TEST(Bundle, MessagesArriveInOrderWhateverTheirPaths) {
  constexpr std::uint64_t kMessages = 20'000;
  constexpr std::uint64_t kFirst = (std::uint64_t{1} << 32) - kMessages / 4;
  std::array<Path, 2> paths;
  for (Path& path : paths) {
    for (std::uint64_t g = kFirst - kSlots; g < kFirst; ++g) {
      release_slot(path.free[g % kSlots], g);
    }
  }
  std::thread writer([&paths] {
    BundleCounts counts = counts_from(kFirst, kFirst);
    for (std::uint64_t n = 0; n < kMessages; ++n) {
      const int p = path_of(counts.sequence);
      const std::uint64_t position = counts.position[p];
      Path& path = paths[static_cast<std::size_t>(p)];
      while (!may_write(path.free[position % kSlots], position, kSlots)) {
        std::this_thread::yield();
      }
      path.data[position % kSlots] = counts.sequence * 7;
      path.tag[position % kSlots] = counts.sequence;
      publish(path.full[position % kSlots], position, kFingerprint);
      pass(counts, p);
    }
  });
  BundleCounts counts = counts_from(kFirst, kFirst);
  std::uint64_t wrong = 0;
  while (counts.sequence < 2 * kFirst + kMessages) {
    for (int p = 0; p < 2; ++p) {
      Path& path = paths[static_cast<std::size_t>(p)];
      const std::uint64_t position = counts.position[p];
      if (is_full(path.full[position % kSlots], position, kFingerprint) &&
          path.tag[position % kSlots] == counts.sequence) {
        wrong += path.data[position % kSlots] != counts.sequence * 7 ? 1 : 0;
        wrong += p != path_of(counts.sequence) ? 1 : 0;
        release_slot(path.free[position % kSlots], position);
        pass(counts, p);
        break;
      }
    }
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace sennit::channel
