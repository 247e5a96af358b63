#include "channel/doorbell.hpp"

#include "channel/wake_socket.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace sennit {
namespace {

// Not the private form: the word lies in memory that several processes share.
long futex(std::atomic<std::uint32_t>& word,
           int operation,
           std::uint32_t value,
           const timespec* t) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  return ::syscall(
      SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, t, nullptr, 0);
}

}  // namespace

bool take_part_in_barriers() {
  static const bool kTakesPart =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return kTakesPart;
}

bool barrier_on_all_cores() {
  return take_part_in_barriers() &&
         ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void futex_wait(std::atomic<std::uint32_t>& word,
                std::uint32_t expected,
                std::chrono::nanoseconds limit) {
  const timespec timeout{.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000),
                         .tv_nsec = static_cast<long>(limit.count() % 1'000'000'000)};
  // Every way to return early (woken, changed, interrupted, timed out) means: look again.
  static_cast<void>(futex(word, FUTEX_WAIT, expected, &timeout));
}

void ring(Doorbell& bell) {
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  static_cast<void>(futex(bell.rings, FUTEX_WAKE, 0x7fffffff, nullptr));
  WakeSocket::send_to(bell.sleepers.load(std::memory_order_seq_cst));
}

}  // namespace sennit
