#include "exec/cpu/target.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace sennit {

void Target::reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, Reduction reduction) const {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(dtype));
  const std::int64_t elements = reduction.elements;
  if (stores == nullptr ||
      !stores->want_copies(static_cast<std::size_t>(elements * element_bytes))) {
    reduction.out = data;
    return sennit::reduce(dtype, op, scaling, reduction);
  }
  // Part by part in memory that stays in the nearest cache.
  alignas(64) std::array<std::byte, 16384> part;
  std::vector<Operand> operands(reduction.operands.begin(), reduction.operands.end());
  reduction.out = part.data();
  reduction.operands = operands;
  for (std::int64_t done = 0; done < elements; done += reduction.elements) {
    reduction.elements =
        std::min(elements - done, static_cast<std::int64_t>(part.size()) / element_bytes);
    sennit::reduce(dtype, op, scaling, reduction);
    const std::int64_t bytes = reduction.elements * element_bytes;
    stores->copy(data + done * element_bytes, part.data(), static_cast<std::size_t>(bytes));
    for (Operand& operand : operands) {
      operand.data = static_cast<const std::byte*>(operand.data) + bytes;
    }
  }
}

}  // namespace sennit
