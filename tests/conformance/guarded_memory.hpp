// For tests: memory between two pages that must not be touched.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace sennit::tests {

// Mapped once and used for many buffers, one after the other. A buffer lies within 16 bytes of one
// of the two pages, so that most of what strays beyond it on that side is a fault; what is closer,
// and what strays on the other side, is found by is_whole().
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t capacity) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (capacity + 2 * kMargin + page - 1) / page * page;
    whole_ = bytes_ + 2 * page;
    void* mapped = mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      return;
    }
    mapped_ = static_cast<std::byte*>(mapped);
    begin_ = mapped_ + page;
    mprotect(begin_, bytes_, PROT_READ | PROT_WRITE);
  }
  ~GuardedMemory() { munmap(mapped_, whole_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // A poisoned buffer, `offset` bytes (at most 15) from the first page or from the last one.
  std::byte* place(std::size_t bytes, std::size_t offset, bool at_end) {
    at_ = at_end ? begin_ + bytes_ - bytes - offset : begin_ + offset;
    length_ = bytes;
    std::ranges::fill(before(), kGuard);
    std::ranges::fill(after(), kGuard);
    std::fill_n(at_, length_, kPoison);
    return at_;
  }

  // What is near the buffer is as it was.
  [[nodiscard]] bool is_whole() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::ranges::all_of(before(), is_guard) && std::ranges::all_of(after(), is_guard);
  }

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr std::byte kGuard{0xa5};
  static constexpr std::byte kPoison{0xee};

  [[nodiscard]] std::span<std::byte> before() const {
    const std::size_t room = std::min(kMargin, static_cast<std::size_t>(at_ - begin_));
    return {at_ - room, room};
  }
  [[nodiscard]] std::span<std::byte> after() const {
    const auto left = static_cast<std::size_t>(begin_ + bytes_ - (at_ + length_));
    return {at_ + length_, std::min(kMargin, left)};
  }

  std::byte* mapped_ = nullptr;
  std::size_t whole_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
  std::byte* at_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace sennit::tests
