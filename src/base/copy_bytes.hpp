// copy_bytes: memcpy for the data of messages, which often come from memory and go there.
#pragma once

#include <cstddef>
#include <cstring>

namespace sennit {

// From here on the way in which memory is walked matters more than the cost of a call.
inline constexpr std::size_t kLargeCopyBytes = 16384;

// Copies at least kLargeCopyBytes.
void copy_large(void* to, const void* from, std::size_t bytes);

// The same with stores that go to memory and leave no line in the caches of this core. Later stores
// are seen after these. Without AVX2, and for a few bytes, this is copy_bytes.
void copy_around_caches(void* to, const void* from, std::size_t bytes);

// As std::memcpy, and nothing may come from NULL.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes >= kLargeCopyBytes) {
    copy_large(to, from, bytes);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace sennit
