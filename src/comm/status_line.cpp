#include "comm/status_line.hpp"

namespace sennit {

void StatusLine::enter(std::uint64_t call, const CallWords& words) {
  Words& line = calls[call % calls.size()];
  line.what.store((std::uint64_t{words.varying} << 56) | (std::uint64_t{words.collective} << 40) |
                      (std::uint64_t{words.dtype} << 32) | words.op,
                  std::memory_order_release);
  line.root.store(words.root, std::memory_order_release);
  line.count.store(words.count, std::memory_order_release);
  line.plan_hash.store(words.plan_hash, std::memory_order_release);
  waits_for.store(-1, std::memory_order_relaxed);
  // Where lengths vary, each rank announces its counts and then looks for the others': of two ranks
  // one at least must see the other's.
  entered.store(call, words.varying ? std::memory_order_seq_cst : std::memory_order_release);
}

void StatusLine::fail(Code code, int blamed_rank) {
  failure_code.store(static_cast<std::uint32_t>(code), std::memory_order_release);
  blamed.store(blamed_rank, std::memory_order_release);
  state.store(code == Code::kAborted && blamed_rank < 0 ? RankState::kAborted : RankState::kFailed,
              std::memory_order_release);
}

bool StatusLine::read(std::uint64_t call, CallWords& words) const {
  const auto still_there = [&] {
    const std::uint64_t last = entered.load(std::memory_order_seq_cst);
    return last >= call && last <= call + 2;
  };
  if (!still_there()) {
    return false;
  }
  const Words& line = calls[call % calls.size()];
  const std::uint64_t what = line.what.load(std::memory_order_acquire);
  words.varying = (what >> 56) != 0;
  words.collective = static_cast<std::uint32_t>((what >> 40) & 0xffff);
  words.dtype = static_cast<std::uint32_t>((what >> 32) & 0xff);
  words.op = static_cast<std::uint32_t>(what);
  words.root = static_cast<std::int32_t>(line.root.load(std::memory_order_acquire));
  words.count = line.count.load(std::memory_order_acquire);
  words.plan_hash = line.plan_hash.load(std::memory_order_acquire);
  return still_there();
}

}  // namespace sennit
