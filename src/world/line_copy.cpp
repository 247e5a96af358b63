#include "world/line_copy.hpp"

namespace sennit {
namespace {

void write_words(WireWriter& out, const CallWords& words) {
  out.number(words.collective);
  out.number(words.dtype);
  out.number(words.op);
  out.number(words.root);
  out.number(words.count);
  out.number(words.plan_hash);
  out.number(words.codec);
  out.number(words.row);
  out.number(std::uint8_t{words.varying});
}

CallWords read_words(WireReader& in) {
  CallWords words;
  words.collective = in.number<std::uint32_t>();
  words.dtype = in.number<std::uint32_t>();
  words.op = in.number<std::uint32_t>();
  words.root = in.number<std::int32_t>();
  words.count = in.number<std::uint64_t>();
  words.plan_hash = in.number<std::uint64_t>();
  words.codec = in.number<std::uint32_t>();
  words.row = in.number<std::uint32_t>();
  words.varying = in.number<std::uint8_t>() != 0;
  return words;
}

// The number of the call that lies `back` before the last one; 0: there is none.
std::uint64_t call_before(std::uint64_t entered, std::size_t back) {
  return entered > back ? entered - back : 0;
}

}  // namespace

LineCopy LineCopy::of(const StatusLine& line) {
  LineCopy copy;
  copy.state = line.state.load(std::memory_order_acquire);
  copy.failure_code = line.failure_code.load(std::memory_order_acquire);
  copy.blamed = line.blamed.load(std::memory_order_acquire);
  copy.probe = line.probe.load(std::memory_order_acquire);
  copy.waits_for = line.waits_for.load(std::memory_order_acquire);
  copy.long_wait = line.long_wait.load(std::memory_order_acquire);
  copy.beats = line.beats.load(std::memory_order_acquire);
  copy.moves = line.moves.load(std::memory_order_acquire);
  // A rank that makes call after call may overtake the reader; what it waits in stays.
  constexpr int kTries = 8;
  for (int tries = 0; tries < kTries; ++tries) {
    copy.left = line.left.load(std::memory_order_acquire);
    copy.entered = line.entered.load(std::memory_order_acquire);
    bool is_whole = true;
    for (std::size_t back = 0; back < kCalls; ++back) {
      const std::uint64_t call = call_before(copy.entered, back);
      is_whole = is_whole && (call == 0 || line.read(call, copy.calls[back]));
    }
    if (is_whole) {
      return copy;
    }
  }
  copy.entered = 0;  // nothing is known of its calls now
  copy.calls = {};
  return copy;
}

void LineCopy::put(StatusLine& line) const {
  if (line.entered.load(std::memory_order_relaxed) != entered) {
    // Partner: the loads in StatusLine::read(), before and behind the words.
    line.entered.store(0, std::memory_order_seq_cst);
    for (std::size_t back = 0; back < kCalls; ++back) {
      if (const std::uint64_t call = call_before(entered, back); call != 0) {
        line.calls[call % line.calls.size()].put(calls[back]);
      }
    }
    line.entered.store(entered, std::memory_order_seq_cst);
  }
  line.left.store(left, std::memory_order_release);
  line.waits_for.store(waits_for, std::memory_order_release);
  line.long_wait.store(long_wait, std::memory_order_release);
  line.beats.store(beats, std::memory_order_release);
  line.moves.store(moves, std::memory_order_release);
  line.failure_code.store(failure_code, std::memory_order_release);
  line.blamed.store(blamed, std::memory_order_release);
  // After what explains it; see find_given_up().
  line.state.store(state, std::memory_order_release);
  line.probe.store(probe, std::memory_order_seq_cst);
}

void LineCopy::write(WireWriter& out) const {
  out.number(static_cast<std::uint32_t>(state));
  out.number(static_cast<std::uint32_t>(probe));
  out.number(std::uint8_t{is_stopped});
  out.number(failure_code);
  out.number(blamed);
  out.number(waits_for);
  out.number(beats);
  out.number(left);
  out.number(entered);
  out.number(long_wait);
  out.number(moves);
  for (const CallWords& words : calls) {
    write_words(out, words);
  }
}

std::optional<LineCopy> LineCopy::read(WireReader& in) {
  LineCopy copy;
  const auto state = in.number<std::uint32_t>();
  const auto probe = in.number<std::uint32_t>();
  if (state > static_cast<std::uint32_t>(RankState::kFinalized) ||
      probe > static_cast<std::uint32_t>(ProbeState::kWorks)) {
    return std::nullopt;
  }
  copy.state = static_cast<RankState>(state);
  copy.probe = static_cast<ProbeState>(probe);
  copy.is_stopped = in.number<std::uint8_t>() != 0;
  copy.failure_code = in.number<std::uint32_t>();
  copy.blamed = in.number<std::int32_t>();
  copy.waits_for = in.number<std::int32_t>();
  copy.beats = in.number<std::uint32_t>();
  copy.left = in.number<std::uint64_t>();
  copy.entered = in.number<std::uint64_t>();
  copy.long_wait = in.number<std::uint64_t>();
  copy.moves = in.number<std::uint64_t>();
  for (CallWords& words : copy.calls) {
    words = read_words(in);
  }
  return in.good() ? std::optional(copy) : std::nullopt;
}

}  // namespace sennit
