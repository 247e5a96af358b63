#include "path/shm/slot_stores.hpp"

#include <algorithm>
#include <chrono>

namespace sennit::shm {
namespace {

constexpr std::size_t kLookBytes = 16384;
// A look stores 16 KB the slow way: with messages of 64 KB 2 % of the time of a streaming rank.
constexpr std::uint32_t kMostPutsToLook = 64;

}  // namespace

void SlotStores::copy_many(std::byte* slot, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
  if (puts_to_look_ == 0) {
    done = look(slot, from, bytes);
  }
  --puts_to_look_;
  if (are_slow_) {
    copy_around_caches(slot + done, from + done, bytes - done);
  } else {
    copy_bytes(slot + done, from + done, bytes - done);
  }
}

// Stores the first bytes plainly and judges by their time. The system may take the core away
// meanwhile, and the first stores to a page wait for the page, so only two slow looks in a row
// count.
std::size_t SlotStores::look(std::byte* slot, const std::byte* from, std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  const std::size_t looked_at = std::min(bytes, kLookBytes);
  const Clock::time_point begin = Clock::now();
  copy_bytes(slot, from, looked_at);
  const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
  const bool is_slow = static_cast<double>(looked_at) < slow_bytes_per_ns_ * time.count();
  are_slow_ = is_slow && was_slow_;
  interval_ = is_slow == was_slow_ ? std::min(2 * interval_, kMostPutsToLook) : 1;
  was_slow_ = is_slow;
  puts_to_look_ = interval_;
  return looked_at;
}

}  // namespace sennit::shm
