#include "world/rms_norm.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

namespace sennit {

Status check_rows(const RmsNorm& norm, std::int64_t count, Dtype dtype) {
  if (dtype != Dtype::kBfloat16 && dtype != Dtype::kFloat16) {
    return fail(Code::kUnsupported, "rms_norm takes bfloat16 and float16, not {}", name(dtype));
  }
  const std::int64_t step = RmsNorm::kAlignBytes / static_cast<std::int64_t>(size_bytes(dtype));
  if (norm.row_elements <= 0 || norm.row_elements > RmsNorm::kMostElements ||
      norm.row_elements % step != 0) {
    return fail(Code::kInvalidArgument,
                "rms_norm of rows of {} elements: rows have a multiple of {} elements, up to {}",
                norm.row_elements,
                step,
                RmsNorm::kMostElements);
  }
  if (count % norm.row_elements != 0) {
    return fail(Code::kInvalidArgument,
                "rms_norm: {} elements are no whole number of rows of {}",
                count,
                norm.row_elements);
  }
  return {};
}

Status check_places(const RmsNorm& norm, const void* send, const void* recv) {
  if (!(norm.epsilon >= 0)) {
    return fail(Code::kInvalidArgument, "rms_norm: epsilon is {}, not 0 or more", norm.epsilon);
  }
  if (norm.quantized == nullptr && norm.scale != nullptr) {
    return fail(Code::kInvalidArgument, "rms_norm: a scale, but no buffer for quantized values");
  }
  if (norm.residual != nullptr && (norm.residual == recv || norm.residual == send)) {
    return fail(Code::kInvalidArgument, "rms_norm: the residual is the buffer of the all_reduce");
  }
  const std::array<std::pair<std::string_view, const void*>, 4> buffers = {
      {{"send", send}, {"recv", recv}, {"residual", norm.residual}, {"weight", norm.weight}}};
  for (const auto& [what, pointer] : buffers) {
    if (std::bit_cast<std::uintptr_t>(pointer) % RmsNorm::kAlignBytes != 0) {
      return fail(Code::kInvalidArgument,
                  "rms_norm: {} ({}) does not begin on a boundary of {} bytes",
                  what,
                  pointer,
                  RmsNorm::kAlignBytes);
    }
  }
  return {};
}

}  // namespace sennit
