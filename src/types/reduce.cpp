#include "types/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sennit {
namespace {

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// IEEE 754 leaves open which operand's payload a NaN result carries, and x86 takes the first's; one
// canonical NaN makes the operators commutative to the bit.
template <typename T>
T canonical(T value) {
  return value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

// Of two equal floats only zeros differ in bits: or keeps the sign (-0.0), and drops it (+0.0).
template <typename T>
T lesser_of_equal(T a, T b) {
  return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) | std::bit_cast<BitsOf<T>>(b));
}
template <typename T>
T greater_of_equal(T a, T b) {
  return std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) & std::bit_cast<BitsOf<T>>(b));
}

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return canonical(a + b);
    } else {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    }
  }
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T ordered = a < b ? a : b < a ? b : std::numeric_limits<T>::quiet_NaN();
      return a == b ? lesser_of_equal(a, b) : ordered;
    } else {
      return std::min(a, b);
    }
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T ordered = a > b ? a : b > a ? b : std::numeric_limits<T>::quiet_NaN();
      return a == b ? greater_of_equal(a, b) : ordered;
    } else {
      return std::max(a, b);
    }
  }
};

template <typename T, typename Op>
void reduce_two(T* out, const T* a, const T* b, std::int64_t elements) {
  // `out` may be `a` or `b`: the same index only, so no iteration depends on another.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < elements; ++i) {
    out[i] = Op::apply(a[i], b[i]);
  }
}

// Sums a piece at a time in a buffer of its own, because `out` may be any of the operands.
template <typename T, typename Op>
void reduce_many(T* out, std::span<const void* const> operands, std::int64_t elements) {
  constexpr std::int64_t kPiece = 4096 / static_cast<std::int64_t>(sizeof(T));
  alignas(64) std::array<T, static_cast<std::size_t>(kPiece)> sum;
  for (std::int64_t begin = 0; begin < elements; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, elements - begin);
    const auto at = [&](std::size_t k) { return static_cast<const T*>(operands[k]) + begin; };
    reduce_two<T, Op>(sum.data(), at(0), at(1), length);
    for (std::size_t k = 2; k < operands.size(); ++k) {
      reduce_two<T, Op>(sum.data(), sum.data(), at(k), length);
    }
    std::memcpy(out + begin, sum.data(), static_cast<std::size_t>(length) * sizeof(T));
  }
}

template <typename T, typename Op>
void reduce_as(void* out, std::span<const void* const> operands, std::int64_t elements) {
  auto* typed = static_cast<T*>(out);
  if (operands.size() == 1) {
    std::memmove(typed, operands[0], static_cast<std::size_t>(elements) * sizeof(T));
  } else if (operands.size() == 2) {
    reduce_two<T, Op>(
        typed, static_cast<const T*>(operands[0]), static_cast<const T*>(operands[1]), elements);
  } else {
    reduce_many<T, Op>(typed, operands, elements);
  }
}

template <typename T>
void reduce_with(ReduceOp op,
                 void* out,
                 std::span<const void* const> operands,
                 std::int64_t elements) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce_as<T, Sum>(out, operands, elements);
    case ReduceOp::kMin:
      return reduce_as<T, Min>(out, operands, elements);
    case ReduceOp::kMax:
      return reduce_as<T, Max>(out, operands, elements);
  }
}

}  // namespace

void reduce(Dtype dtype,
            ReduceOp op,
            void* out,
            std::span<const void* const> operands,
            std::int64_t elements) {
  SENNIT_CHECK(!operands.empty(), "a reduction needs an operand");
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type) \
  case Dtype::enumerator:                             \
    return reduce_with<c_type>(op, out, operands, elements);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
}

}  // namespace sennit
