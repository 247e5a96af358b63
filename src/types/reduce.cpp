#include "types/reduce.hpp"

#include "base/check.hpp"
#include "base/vectors.hpp"

namespace sennit {

std::span<const Reduction> reductions() {
  static constexpr std::array<Reduction, 3> kForms = {
      portable::reduce, avx2::reduce, avx512::reduce};
  static const std::size_t kUsable = !has_avx2() ? 1 : !has_avx512() ? 2 : 3;
  return std::span(kForms).first(kUsable);
}

void reduce(Dtype dtype, ReduceOp op, const Scaling& scaling, const Fold& fold) {
  static const Reduction kBest = reductions().back();
  SENNIT_CHECK(!fold.operands.empty(), "a reduction needs an operand");
  if (fold.elements > 0) {  // of nothing the pointers may be NULL
    kBest(dtype, op, scaling, fold);
  }
}

}  // namespace sennit
