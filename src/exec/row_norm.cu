#include "exec/early_launch.cuh"
#include "exec/row_norm.cuh"

namespace sennit {
namespace {

template <typename T>
__global__ void __launch_bounds__(kMostRowThreads)
    normalise_rows(const __grid_constant__ RowNormCall call) {
  await_stream();
  RowNorm<T> norm(call);
  int odd = 0;
  for (std::int64_t row = blockIdx.x; row < call.row_count; row += gridDim.x) {
    const std::int64_t begin = row * call.row_bytes;
    Unit last{};
    Unit weight{};
    for (int step = 0; step < norm.steps(); ++step) {
      const std::int64_t unit = norm.unit_of(step);
      if (norm.has(unit)) {
        const Unit sum = *reinterpret_cast<const Unit*>(call.rows + begin + unit);
        weight = norm.weight_at(unit);
        last = norm.add(begin + unit, sum, norm.residual_at(begin + unit));
      }
    }
    norm.finish(begin, odd, last, weight);
    odd ^= 1;
  }
}

}  // namespace

const void* row_norm_kernel(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBfloat16:
      return reinterpret_cast<const void*>(&normalise_rows<Bfloat16>);
    case Dtype::kFloat16:
      return reinterpret_cast<const void*>(&normalise_rows<Float16>);
    default:
      return nullptr;
  }
}

}  // namespace sennit
