// For tests: typed elements in untyped memory, with guard bytes around them.
#pragma once

#include "types/reducer.hpp"
#include "types/types.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace sennit::tests {

// Small integers as elements: a complex number n is (n, -n), a bool n % 2.
template <typename T>
T element_of(std::int64_t number) {
  if constexpr (kIsSmallFloat<T>) {
    return narrow(static_cast<float>(number), T{});
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(number & 1)};
  } else if constexpr (kIsComplex<T>) {
    using Real = decltype(T::real);
    return {static_cast<Real>(number), static_cast<Real>(-number)};
  } else {
    return static_cast<T>(number);
  }
}
template <typename T>
std::int64_t number_of(T element) {
  if constexpr (kIsSmallFloat<T>) {
    return static_cast<std::int64_t>(widen(element));
  } else if constexpr (std::is_same_v<T, Bool>) {
    return element.bits;
  } else if constexpr (kIsComplex<T>) {
    return static_cast<std::int64_t>(element.real);
  } else {
    return static_cast<std::int64_t>(element);
  }
}

template <typename T>
void store_as(std::byte* at, std::int64_t number) {
  const T typed = element_of<T>(number);
  std::memcpy(at, &typed, sizeof(typed));
}
template <typename T>
std::int64_t load_as(const std::byte* at) {
  T typed;
  std::memcpy(&typed, at, sizeof(typed));
  return number_of(typed);
}

inline void store(Dtype dtype, std::byte* at, std::int64_t number) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return store_as<c_type>(at, number);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
}
inline std::int64_t load(Dtype dtype, const std::byte* at) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return load_as<c_type>(at);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return 0;
}

// Elements between guard bytes, begun at an odd multiple of the element size.
class GuardedBuffer {
 public:
  GuardedBuffer(std::int64_t elements, Dtype dtype)
      : element_(static_cast<std::int64_t>(size_bytes(dtype))),
        bytes_(elements * element_),
        memory_(static_cast<std::size_t>(bytes_ + element_ + 2 * kGuardBytes), kGuard) {
    std::fill_n(at(0), bytes_, kPoison);
  }

  [[nodiscard]] std::byte* at(std::int64_t index) {
    return memory_.data() + kGuardBytes + element_ + index * element_;
  }
  // Every byte outside the elements is as it was.
  [[nodiscard]] bool guards_are_whole() {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory_.data(), at(0), is_guard) &&
           std::all_of(at(0) + bytes_, memory_.data() + memory_.size(), is_guard);
  }

 private:
  static constexpr std::int64_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xa5};
  static constexpr std::byte kPoison{0xee};

  std::int64_t element_;
  std::int64_t bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace sennit::tests
