#include "comm/status_line.hpp"

namespace sennit {

void StatusLine::enter(std::uint64_t call, const CallWords& words) {
  Words& line = calls[call % 2];
  line.what.store((std::uint64_t{words.collective} << 40) | (std::uint64_t{words.dtype} << 32) |
                      words.op,
                  std::memory_order_release);
  line.root.store(words.root, std::memory_order_release);
  line.count.store(words.count, std::memory_order_release);
  line.plan_hash.store(words.plan_hash, std::memory_order_release);
  waits_for.store(-1, std::memory_order_relaxed);
  entered.store(call, std::memory_order_release);
}

void StatusLine::fail(Code code, int blamed_rank) {
  failure_code.store(static_cast<std::uint32_t>(code), std::memory_order_release);
  blamed.store(blamed_rank, std::memory_order_release);
  state.store(code == Code::kAborted && blamed_rank < 0 ? RankState::kAborted : RankState::kFailed,
              std::memory_order_release);
}

bool StatusLine::read(std::uint64_t call, CallWords& words) const {
  const std::uint64_t last = entered.load(std::memory_order_acquire);
  if (last != call && last != call + 1) {
    return false;
  }
  const Words& line = calls[call % 2];
  const std::uint64_t what = line.what.load(std::memory_order_acquire);
  words.collective = static_cast<std::uint32_t>(what >> 40);
  words.dtype = static_cast<std::uint32_t>((what >> 32) & 0xff);
  words.op = static_cast<std::uint32_t>(what);
  words.root = static_cast<std::int32_t>(line.root.load(std::memory_order_acquire));
  words.count = line.count.load(std::memory_order_acquire);
  words.plan_hash = line.plan_hash.load(std::memory_order_acquire);
  // The owner leaves call + 1 before it overwrites these words with those of call + 2.
  return left.load(std::memory_order_acquire) <= call;
}

}  // namespace sennit
