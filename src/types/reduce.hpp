// The arithmetic of reductions on the host.
#pragma once

#include "types/types.hpp"

#include <cstdint>
#include <span>

namespace sennit {

// out[i] = (((a[i] op b[i]) op c[i]) ...) for the operands in their order, i < elements; rounded
// once, at the end. `out` may be one of the operands; other overlaps are not allowed. At least one
// operand.
//
// NaN results are one canonical quiet NaN; min and max propagate NaN and order -0.0 below +0.0;
// integer sums wrap.
void reduce(Dtype dtype,
            ReduceOp op,
            void* out,
            std::span<const void* const> operands,
            std::int64_t elements);

}  // namespace sennit
