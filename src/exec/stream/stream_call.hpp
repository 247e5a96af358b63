// StreamCall: a call of all ranks whose strands copy engines run.
#pragma once

#include "exec/stream/byte_range.hpp"
#include "exec/stream/reduction.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sennit::stream {

// The memory of a rank as this device sees it; where nobody puts anything, it may be null.
struct Buffers {
  std::byte* input = nullptr;  // where others read it
  std::byte* output = nullptr;
  std::byte* staging = nullptr;
  decltype(ReductionCall::Operand::scalar) scalar{};  // of its rank: for premul_sum
};

struct StreamCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::span<const Buffers> peers;  // by rank
  std::int64_t count = 0;
  std::int64_t element_bytes = 1;
  // From twice this length on the last contribution to a reduction comes in three pieces, so that
  // the reduction of one hides behind the copy of the next. The same on all ranks. Blocks of 4 MB
  // lost by it, of 16 MB gained (`h200x4-copies-that-put`).
  std::int64_t part_bytes = std::int64_t{4} << 20;
  // Kernels: of programs with reductions (exec/stream/reduction.hpp), and for what stays on this
  // device (exec/stream/copies.hpp). Null: copy engines have that, which slows down what leaves.
  const void* reduction = nullptr;
  const void* copy = nullptr;
  std::uint64_t number = 0;       // that RankWords::ended says at the end; 0: of a graph
  std::uint32_t deadline_ms = 0;  // that RankWords::running says meanwhile; 0: none
  // When the hosts met, the streams of all ranks had nothing to do before the call.
  bool are_all_idle = false;
  // The stream captures: a graph forgets in which order its operations were issued, so what relies
  // on it has to be said by events.
  bool is_captured = false;

  [[nodiscard]] Extent extent() const { return {count, element_bytes}; }
  // Of what stays on this device. Kernels copy byte after byte what is not aligned, so copy engines
  // have that if it is long.
  [[nodiscard]] bool copies_by_kernel(const std::byte* from,
                                      const std::byte* to,
                                      std::int64_t bytes) const {
    constexpr std::int64_t kShort = 64 << 10;
    const bool is_aligned =
        (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % 16 == 0;
    return copy != nullptr && (is_aligned || bytes <= kShort);
  }
};

}  // namespace sennit::stream
