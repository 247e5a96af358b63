// CallLog: the last calls that a rank has made, in shared memory, for others to compare with
// theirs. Written by its owner alone; a zeroed log is a valid beginning.
#pragma once

#include "world/status_line.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit {

template <std::size_t kKept>
struct CallLog {
  std::atomic<std::uint64_t> entered{0};  // number of the last call, from 1
  std::array<StatusLine::Words, kKept> calls;

  void enter(std::uint64_t call, const CallWords& words) {
    calls[call % kKept].put(words);
    entered.store(call, std::memory_order_release);
  }

  // A call becomes another one, if it is not too long ago. Who reads meanwhile finds none.
  void replace(std::uint64_t call, const CallWords& words) {
    StatusLine::Words& kept = calls[call % kKept];
    if (entered.load(std::memory_order_relaxed) < call + kKept) {
      kept.place.store(StatusLine::Words::kChanging, std::memory_order_release);
      kept.put(words);
    }
  }

  // True, and the words, when the call was made and not too long ago.
  bool read(std::uint64_t call, CallWords& words) const {
    const auto is_there = [&] {
      const std::uint64_t last = entered.load(std::memory_order_acquire);
      return last >= call && last < call + kKept - 1;
    };
    const StatusLine::Words& kept = calls[call % kKept];
    if (!is_there()) {
      return false;
    }
    const std::int64_t place = kept.place.load(std::memory_order_acquire);
    words = kept.get();
    // The words of a replaced call have another tag, or differ from those of the other end anyhow.
    return place != StatusLine::Words::kChanging && is_there() &&
           kept.place.load(std::memory_order_acquire) == place;
  }
};

}  // namespace sennit
