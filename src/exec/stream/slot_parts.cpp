#include "exec/stream/slot_parts.hpp"

#include "base/integers.hpp"

#include <algorithm>

namespace sennit::stream {
namespace {

constexpr std::int64_t kPage = 4096;
// Around each copy stand words, which take microseconds; a shorter one would hardly be faster.
constexpr std::int64_t kShortestPart = std::int64_t{1} << 20;

}  // namespace

SlotParts cut_into_slots(std::int64_t longest_bytes, const host::RingShape& ring) {
  const auto slot = static_cast<std::int64_t>(ring.slot_bytes);
  const std::int64_t needed = ceiling(longest_bytes, slot);
  const auto useful = std::min<std::int64_t>(ring.slots, longest_bytes / kShortestPart);
  const auto parts = std::max<std::int64_t>({1, needed, useful});
  const std::int64_t length = std::min(slot, ceiling(ceiling(longest_bytes, parts), kPage) * kPage);
  const std::int64_t bytes = std::max<std::int64_t>(1, length);
  return {.count = ceiling(longest_bytes, bytes), .bytes = bytes};
}

}  // namespace sennit::stream
