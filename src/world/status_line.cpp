#include "world/status_line.hpp"

namespace sennit {

void StatusLine::Words::put(const CallWords& words) {
  what.store((std::uint64_t{words.varying} << 56) | (std::uint64_t{words.codec} << 48) |
                 (std::uint64_t{words.collective} << 40) | (std::uint64_t{words.dtype} << 32) |
                 (std::uint64_t{words.row} << 8) | words.op,
             std::memory_order_release);
  count.store(words.count, std::memory_order_release);
  plan_hash.store(words.plan_hash, std::memory_order_release);
  place.store(
      static_cast<std::int64_t>((std::uint64_t{static_cast<std::uint32_t>(words.tag)} << 32) |
                                static_cast<std::uint32_t>(words.root)),
      std::memory_order_release);
}

CallWords StatusLine::Words::get() const {
  const auto tag_and_root = static_cast<std::uint64_t>(place.load(std::memory_order_acquire));
  const std::uint64_t bits = what.load(std::memory_order_acquire);
  return {.collective = static_cast<std::uint32_t>((bits >> 40) & 0xff),
          .dtype = static_cast<std::uint32_t>((bits >> 32) & 0xff),
          .op = static_cast<std::uint32_t>(bits & 0xff),
          .root = static_cast<std::int32_t>(tag_and_root),
          .count = count.load(std::memory_order_acquire),
          .plan_hash = plan_hash.load(std::memory_order_acquire),
          .codec = static_cast<std::uint32_t>((bits >> 48) & 0xff),
          .tag = static_cast<std::int32_t>(tag_and_root >> 32),
          .row = static_cast<std::uint32_t>((bits >> 8) & 0xffffff),
          .varying = (bits >> 56) != 0};
}

void StatusLine::enter(std::uint64_t call, const CallWords& words) {
  calls[call % calls.size()].put(words);
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
  words = calls[call % calls.size()].get();
  return still_there();
}

}  // namespace sennit
