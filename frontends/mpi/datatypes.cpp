#include "datatypes.hpp"

namespace sennit_mpi {

std::optional<sennit_dtype_t> dtype_of(Kind kind, std::size_t bytes) {
  const auto of_size = [&](sennit_dtype_t one,
                           sennit_dtype_t two,
                           sennit_dtype_t four,
                           sennit_dtype_t eight) -> std::optional<sennit_dtype_t> {
    switch (bytes) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return std::nullopt;
    }
  };
  const auto of_two = [&](std::size_t small, sennit_dtype_t first, sennit_dtype_t second) {
    return bytes == small       ? std::optional(first)
           : bytes == 2 * small ? std::optional(second)
                                : std::nullopt;
  };
  switch (kind) {
    case Kind::kSigned:
      return of_size(SENNIT_INT8, SENNIT_INT16, SENNIT_INT32, SENNIT_INT64);
    case Kind::kUnsigned:
      return of_size(SENNIT_UINT8, SENNIT_UINT16, SENNIT_UINT32, SENNIT_UINT64);
    case Kind::kFloat:
      return of_two(4, SENNIT_FLOAT32, SENNIT_FLOAT64);
    case Kind::kComplex:
      return of_two(8, SENNIT_COMPLEX64, SENNIT_COMPLEX128);
    case Kind::kBool:
      return bytes == 1 ? std::optional(SENNIT_BOOL) : std::nullopt;
    case Kind::kByte:
      return SENNIT_UINT8;
    case Kind::kLogical:
    case Kind::kPair:
    case Kind::kMoved:
      break;
  }
  return std::nullopt;
}

bool is_defined(Kind kind, sennit_redop_t op) {
  const bool is_logical =
      op == SENNIT_LOGICAL_AND || op == SENNIT_LOGICAL_OR || op == SENNIT_LOGICAL_XOR;
  const bool is_bitwise =
      op == SENNIT_BITWISE_AND || op == SENNIT_BITWISE_OR || op == SENNIT_BITWISE_XOR;
  const bool is_order = op == SENNIT_MIN || op == SENNIT_MAX;
  switch (kind) {
    case Kind::kSigned:
    case Kind::kUnsigned:
      return true;
    case Kind::kFloat:
      return !is_logical && !is_bitwise;
    case Kind::kComplex:
      return !is_logical && !is_bitwise && !is_order;
    case Kind::kBool:
    case Kind::kLogical:
      return is_logical;
    case Kind::kByte:
      return is_bitwise;
    case Kind::kPair:
    case Kind::kMoved:
      break;
  }
  return false;
}

}  // namespace sennit_mpi
