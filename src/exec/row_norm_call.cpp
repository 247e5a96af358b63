#include "exec/row_norm_call.hpp"

namespace sennit {

RowNormCall row_norm_call(const Operation& operation) {
  const RmsNorm& norm = *operation.rms_norm;
  const std::int64_t row_bytes =
      norm.row_elements * static_cast<std::int64_t>(size_bytes(operation.dtype));
  return {.rows = static_cast<std::byte*>(operation.recv),
          .residual = static_cast<std::byte*>(norm.residual),
          .weight = static_cast<const std::byte*>(norm.weight),
          .quantized = static_cast<std::byte*>(norm.quantized),
          .scale = norm.scale,
          .row_bytes = row_bytes,
          .row_count = operation.count / norm.row_elements,
          .steps = row_steps(row_bytes),
          .inverse_length = 1 / static_cast<float>(norm.row_elements),
          .epsilon = norm.epsilon};
}

}  // namespace sennit
