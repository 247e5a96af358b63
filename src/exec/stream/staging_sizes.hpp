// What contributions to a reduction take of staging memory, and how they are cut.
#pragma once

#include "base/integers.hpp"
#include "exec/stream/byte_range.hpp"

#include <cstdint>

namespace sennit::stream {

// Where copies end within a page they run slower.
inline constexpr std::int64_t kPieceUnit = 4096;
constexpr std::int64_t whole_units(std::int64_t bytes) {
  return ceiling(bytes, kPieceUnit) * kPieceUnit;
}

// Bytes of the longest block's part. Rounding may give more to a later block than to the first.
std::int64_t longest_range(const Problem& problem, const Portion& portion, const Extent& extent);
// Bytes of staging memory that one rank has for another one's contribution.
std::int64_t staging_room(const Problem& problem, const Portion& portion, const Extent& extent);
// Rounds in which contributions of `most_bytes` in all may lie on a rank at once.
std::int64_t staging_rounds(const Problem& problem, const Extent& extent, std::int64_t most_bytes);

}  // namespace sennit::stream
