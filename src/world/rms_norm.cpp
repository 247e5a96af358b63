#include "world/rms_norm.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

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

namespace {

struct Place {
  std::string_view what;
  const void* begin = nullptr;  // null: there is none
  std::int64_t bytes = 0;
  std::uintptr_t align = 1;
  bool is_written = false;

  [[nodiscard]] std::uintptr_t address() const { return std::bit_cast<std::uintptr_t>(begin); }
  [[nodiscard]] bool meets(const Place& other) const {
    return begin != nullptr && other.begin != nullptr && bytes > 0 && other.bytes > 0 &&
           address() < other.address() + static_cast<std::uintptr_t>(other.bytes) &&
           other.address() < address() + static_cast<std::uintptr_t>(bytes);
  }
};

}  // namespace

Status check_places(
    const RmsNorm& norm, const void* send, const void* recv, std::int64_t count, Dtype dtype) {
  if (!(norm.epsilon >= 0)) {
    return fail(Code::kInvalidArgument, "rms_norm: epsilon is {}, not 0 or more", norm.epsilon);
  }
  if (norm.quantized == nullptr && norm.scale != nullptr) {
    return fail(Code::kInvalidArgument, "rms_norm: a scale, but no buffer for quantized values");
  }
  const auto element = static_cast<std::int64_t>(size_bytes(dtype));
  const std::int64_t all = count * element;
  constexpr auto kRow = static_cast<std::uintptr_t>(RmsNorm::kAlignBytes);
  const std::array places = {
      Place{"send", send, all, kRow, false},
      Place{"recv", recv, all, kRow, true},
      Place{"residual", norm.residual, all, kRow, true},
      Place{"weight", norm.weight, norm.row_elements * element, kRow, false},
      Place{"quantized", norm.quantized, count, 1, true},
      Place{"scale", norm.scale, sizeof(float), alignof(float), false},
  };
  for (const Place& place : places) {
    if (place.address() % place.align != 0) {
      return fail(Code::kInvalidArgument,
                  "rms_norm: {} ({}) does not begin on a boundary of {} bytes",
                  place.what,
                  place.begin,
                  place.align);
    }
  }
  // Those of the call itself, the first two, may be one.
  for (std::size_t a = 2; a < places.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if ((places[a].is_written || places[b].is_written) && places[a].meets(places[b])) {
        return fail(Code::kInvalidArgument,
                    "rms_norm: {} and {} overlap, and one of them is written: take memory of its "
                    "own for each",
                    places[b].what,
                    places[a].what);
      }
    }
  }
  return {};
}

}  // namespace sennit
