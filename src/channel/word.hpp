// Word: 64 bits that two ranks read and write, and the only two operations on it. The host's form;
// a device's form has the same names, so channel.hpp compiles for both.
#pragma once

#include <atomic>
#include <cstdint>

#define SENNIT_CHANNEL_FUNCTION

namespace sennit::channel {

struct Word {
  std::uint64_t value = 0;
};

inline std::uint64_t load_acquire(const Word& word) {
  // atomic_ref has no const form before C++26.
  return std::atomic_ref(const_cast<std::uint64_t&>(word.value)).load(std::memory_order_acquire);
}

// Not ordered before a later look at whether the partner sleeps: for that the sleeper pays
// (channel/doorbell.hpp).
inline void store_release(Word& word, std::uint64_t value) {
  std::atomic_ref(word.value).store(value, std::memory_order_release);
}

}  // namespace sennit::channel
