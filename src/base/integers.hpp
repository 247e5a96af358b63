// What more than one place counts with.
#pragma once

#include <cstdint>

namespace sennit {

// Bytes.
inline constexpr std::int64_t kKilo = std::int64_t{1} << 10;
inline constexpr std::int64_t kMega = std::int64_t{1} << 20;

// How many pieces of b cover a. Both are positive, or a is 0.
constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Of a set of ranks in a word.
constexpr std::uint32_t bit(int rank) { return std::uint32_t{1} << rank; }

}  // namespace sennit
