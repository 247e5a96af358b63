#include "types/reduce.hpp"

#include "base/check.hpp"
#include "base/vectors.hpp"

namespace sennit {

std::span<const ReduceForm> reduce_forms() {
  static constexpr std::array<ReduceForm, 3> kForms = {
      portable::reduce, avx2::reduce, avx512::reduce};
  static const std::size_t kUsable = !has_avx2() ? 1 : !has_avx512() ? 2 : 3;
  return std::span(kForms).first(kUsable);
}

void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, const Reduction& reduction) {
  static const ReduceForm kBest = reduce_forms().back();
  SENNIT_CHECK(!reduction.operands.empty(), "a reduction needs an operand");
  if (reduction.elements > 0) {  // of nothing the pointers may be NULL
    kBest(dtype, op, scaling, reduction);
  }
}

}  // namespace sennit
