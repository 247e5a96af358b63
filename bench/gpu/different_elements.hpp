// Whether two libraries have left the same in their outputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit_bench {

// Of `count` elements in GPU memory. `are_sums`: of numbers below one, in different orders; what is
// only moved must be equal.
std::uint64_t count_different(const float* a, const float* b, std::size_t count, bool are_sums);

// The root mean square of a - b over that of b, of `count` elements in GPU memory.
double relative_error(const float* a, const float* b, std::size_t count);

}  // namespace sennit_bench
