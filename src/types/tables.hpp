// The tables of element types and reduce operators as enumerations, for code that is compiled for
// devices, too. Host code includes types/types.hpp, which has names and parsers as well.
#pragma once

#include "types/element.hpp"
#include "types/host_device.hpp"

#include <cstdint>

namespace sennit {

enum class Dtype : std::uint8_t {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) enumerator = (value),
#include "types/dtypes.def"
#undef SENNIT_DTYPE
};

// Which operators there are for a type.
enum class Kind : std::uint8_t { kInteger, kBool, kFloat, kComplex };

enum class ReduceOp : std::uint8_t {
#define SENNIT_REDUCE_OP(name, value, enumerator, integers, bools, floats, complexes) \
  enumerator = (value),
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
};

// The C++ type of an element: Element<Dtype::kFloat32> is float.
template <Dtype kDtype>
struct ElementOf;
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  template <>                                               \
  struct ElementOf<Dtype::enumerator> {                     \
    using Type = c_type;                                    \
  };
#include "types/dtypes.def"
#undef SENNIT_DTYPE
template <Dtype kDtype>
using Element = typename ElementOf<kDtype>::Type;

SENNIT_HOST_DEVICE constexpr Kind kind_of(Dtype dtype) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return Kind::kind;
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return Kind::kInteger;
}

// Whether the tables have the pair. Only such pairs are ever reduced.
SENNIT_HOST_DEVICE constexpr bool has_operator(Dtype dtype, ReduceOp op) {
  const Kind kind = kind_of(dtype);
  switch (op) {
#define SENNIT_REDUCE_OP(name, value, enumerator, integers, bools, floats, complexes)    \
  case ReduceOp::enumerator:                                                             \
    return (kind == Kind::kInteger && (integers)) || (kind == Kind::kBool && (bools)) || \
           (kind == Kind::kFloat && (floats)) || (kind == Kind::kComplex && (complexes));
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
  }
  return false;
}

// Logical and bitwise operators are rare, and were a fifth of all kernels. On GPUs they go by
// protocol ll, by the kernel of small calls, and by the interpreter alone.
SENNIT_HOST_DEVICE constexpr bool has_every_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kLogicalAnd:
    case ReduceOp::kLogicalOr:
    case ReduceOp::kLogicalXor:
    case ReduceOp::kBitwiseAnd:
    case ReduceOp::kBitwiseOr:
    case ReduceOp::kBitwiseXor:
      return false;
    default:
      return true;
  }
}

}  // namespace sennit
