// The arithmetic of reductions on the host: loops over Reducer (types/reducer.hpp).
#pragma once

#include "types/types.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sennit {

// An element has at most so many bytes.
inline constexpr std::size_t kLargestElementBytes = 16;

// What operators need besides their operands.
struct Scaling {
  std::array<std::byte, kLargestElementBytes> scalar{};  // premul_sum: an element, of this rank
  int ranks = 1;                                         // avg: what the sum is divided by
};

struct Operand {
  const void* data = nullptr;
  bool is_scaled = false;  // a contribution, to be multiplied by the scalar (premul_sum)
};

// One reduction step: out[i] = (((a[i] op b[i]) op c[i]) ...) for the operands in their order,
// i < elements; rounded once, at the end. `out` may be one of the operands; other overlaps are not
// allowed. At least one operand; one alone is copied as it is unless it is scaled or finished.
struct Reduction {
  void* out = nullptr;
  std::span<const Operand> operands;
  std::int64_t elements = 0;
  bool is_finished = false;  // the result is the sum of all contributions (avg divides it)
};

// The tables must have the pair (has_operator).
void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, const Reduction& reduction);

// The forms of reduce() for processors with wider and wider vectors, all of the same bits.
using ReduceForm = void (*)(Dtype dtype,
                            ReduceOp op,
                            const Scaling& scaling,
                            const Reduction& reduction);
namespace portable {
void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, const Reduction& reduction);
}
namespace avx2 {
void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, const Reduction& reduction);
}
namespace avx512 {
void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, const Reduction& reduction);
}
// Those that this processor can run; reduce() takes the last.
std::span<const ReduceForm> reduce_forms();

}  // namespace sennit
