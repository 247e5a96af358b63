// Reducer: the arithmetic of one operator on one element type, element by element. Compiled for the
// host and for devices; whoever reduces, a loop here or a kernel there, does in one step
//
//   using R = Reducer<Element<Dtype::kBfloat16>, ReduceOp::kAvg>;
//   R::Accumulator sum = R::combine(R::load(a), R::load(b));   // and so on, first to last operand
//   sum = R::finish(sum, ranks);                               // avg, where the step has `post`
//   out = R::store(sum);                                       // rounds, once
//
// and, where a step has `pre` (premul_sum), R::load(R::scale(x, scalar)) for an x that comes out of
// an input block. A contribution is rounded when it is scaled, so what a rank sends and what it
// reduces itself are the same bits.
//
// Rules that all of it keeps (docs/numerics.md): combine is commutative in every bit of what store
// gives; a NaN that store gives is the canonical one; nothing is undefined for any bits. A Reducer
// exists for the pairs of has_operator().
#pragma once

#include "types/element.hpp"
#include "types/host_device.hpp"
#include "types/tables.hpp"

#include <cstdint>
#include <type_traits>

namespace sennit {

template <typename T>
inline constexpr bool kIsSmallFloat =
    std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float8E4m3fn> ||
    std::is_same_v<T, Float8E5m2>;
template <typename T>
inline constexpr bool kIsComplex = false;
template <typename Real>
inline constexpr bool kIsComplex<Complex<Real>> = true;
template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsSmallFloat<T>;

SENNIT_HOST_DEVICE constexpr bool is_sum_or_product(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kProd || op == ReduceOp::kAvg ||
         op == ReduceOp::kPremulSum;
}
SENNIT_HOST_DEVICE constexpr bool is_min_or_max(ReduceOp op) {
  return op == ReduceOp::kMin || op == ReduceOp::kMax;
}
SENNIT_HOST_DEVICE constexpr bool is_logical(ReduceOp op) {
  return op == ReduceOp::kLogicalAnd || op == ReduceOp::kLogicalOr || op == ReduceOp::kLogicalXor;
}
SENNIT_HOST_DEVICE constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBitwiseAnd || op == ReduceOp::kBitwiseOr || op == ReduceOp::kBitwiseXor;
}
// As operators on bits, and on truth.
SENNIT_HOST_DEVICE constexpr bool is_and(ReduceOp op) {
  return op == ReduceOp::kLogicalAnd || op == ReduceOp::kBitwiseAnd || op == ReduceOp::kProd ||
         op == ReduceOp::kMin;
}
SENNIT_HOST_DEVICE constexpr bool is_or(ReduceOp op) {
  return op == ReduceOp::kLogicalOr || op == ReduceOp::kBitwiseOr || op == ReduceOp::kSum ||
         op == ReduceOp::kMax;
}

// ---- Arithmetic of accumulators -----------------------------------------------------------------

// Integers are added and multiplied without a sign: they wrap, and nothing is undefined. Those of
// less than 32 bits would be promoted to int, whose product overflows.
template <typename T>
  requires std::is_integral_v<T>
SENNIT_HOST_DEVICE constexpr T add(T a, T b) {
  using Wrapping = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
  return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
}
template <typename T>
  requires std::is_integral_v<T>
SENNIT_HOST_DEVICE constexpr T multiply(T a, T b) {
  using Wrapping = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
  return static_cast<T>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
}

SENNIT_HOST_DEVICE inline float add(float a, float b) { return rounded::add(a, b); }
SENNIT_HOST_DEVICE inline double add(double a, double b) { return rounded::add(a, b); }
SENNIT_HOST_DEVICE inline float multiply(float a, float b) { return rounded::multiply(a, b); }
SENNIT_HOST_DEVICE inline double multiply(double a, double b) { return rounded::multiply(a, b); }

template <typename Real>
SENNIT_HOST_DEVICE inline Complex<Real> add(Complex<Real> a, Complex<Real> b) {
  return {add(a.real, b.real), add(a.imaginary, b.imaginary)};
}
// By the formula of the textbook, without a special case for infinities.
template <typename Real>
SENNIT_HOST_DEVICE inline Complex<Real> multiply(Complex<Real> a, Complex<Real> b) {
  return {add(multiply(a.real, b.real), -multiply(a.imaginary, b.imaginary)),
          add(multiply(a.real, b.imaginary), multiply(a.imaginary, b.real))};
}

// By the number of ranks. Integers are cut towards zero.
template <typename T>
SENNIT_HOST_DEVICE inline T divide(T sum, std::int64_t ranks) {
  if constexpr (kIsComplex<T>) {
    return {divide(sum.real, ranks), divide(sum.imaginary, ranks)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return rounded::divide(sum, static_cast<T>(ranks));
  } else if constexpr (std::is_signed_v<T>) {  // T itself may not hold the number of ranks
    return static_cast<T>(std::int64_t{sum} / ranks);
  } else {
    return static_cast<T>(std::uint64_t{sum} / static_cast<std::uint64_t>(ranks));
  }
}

// ---- sum, prod, avg, premul_sum
// -------------------------------------------------------------------

// Floats of 16 and 8 bits accumulate in float.
template <typename T>
using AccumulatorOf = std::conditional_t<kIsSmallFloat<T>, float, T>;

// IEEE 754 leaves open which operand's payload a NaN carries, and processors differ in it.
template <typename Real>
SENNIT_HOST_DEVICE inline Real canonical(Real value) {
  return value == value ? value : __builtin_bit_cast(Real, FormatOf<Real>::kNan);
}

template <typename T, ReduceOp kOp>
struct Reducer;

template <typename T, ReduceOp kOp>
  requires(is_sum_or_product(kOp) && !std::is_same_v<T, Bool>)
struct Reducer<T, kOp> {
  using Accumulator = AccumulatorOf<T>;

  SENNIT_HOST_DEVICE static Accumulator load(T value) {
    if constexpr (kIsSmallFloat<T>) {
      return widen(value);
    } else {
      return value;
    }
  }
  SENNIT_HOST_DEVICE static Accumulator combine(Accumulator a, Accumulator b) {
    if constexpr (kOp == ReduceOp::kProd) {
      return multiply(a, b);
    } else {
      return add(a, b);
    }
  }
  SENNIT_HOST_DEVICE static Accumulator finish(Accumulator sum, std::int64_t ranks)
    requires(kOp == ReduceOp::kAvg)
  {
    return divide(sum, ranks);
  }
  SENNIT_HOST_DEVICE static T store(Accumulator value) {
    if constexpr (kIsSmallFloat<T>) {
      return narrow(value, T{});
    } else if constexpr (kIsComplex<T>) {
      return {canonical(value.real), canonical(value.imaginary)};
    } else if constexpr (std::is_floating_point_v<T>) {
      return canonical(value);
    } else {
      return static_cast<T>(value);
    }
  }
  SENNIT_HOST_DEVICE static T scale(T contribution, T scalar)
    requires(kOp == ReduceOp::kPremulSum)
  {
    return store(multiply(load(contribution), load(scalar)));
  }
};

// ---- min, max -----------------------------------------------------------------------------------

// Floats are compared as integers: their bits, with the magnitude of a negative number turned over,
// are in the order of the numbers, -0.0 below +0.0. The least and the greatest such integer belong
// to patterns of NaN, so NaN takes the one that the operator prefers. The result is an operand as
// it stands: an infinity of 8 bits stays one.
template <typename T, ReduceOp kOp>
  requires(is_min_or_max(kOp) && kIsFloat<T>)
struct Reducer<T, kOp> {
  using Accumulator = std::conditional_t<
      sizeof(T) == 8,
      std::int64_t,
      std::conditional_t<sizeof(T) == 4,
                         std::int32_t,
                         std::conditional_t<sizeof(T) == 2, std::int16_t, std::int8_t>>>;

  SENNIT_HOST_DEVICE static Accumulator load(T value) {
    const Accumulator bits = bits_of(value);
    const auto magnitude = static_cast<Accumulator>(bits & kMagnitude);
    return select(magnitude > kLastNumber, kNanKey, turn(bits));
  }
  SENNIT_HOST_DEVICE static Accumulator combine(Accumulator a, Accumulator b) {
    return kOp == ReduceOp::kMin ? (a < b ? a : b) : (a > b ? a : b);
  }
  SENNIT_HOST_DEVICE static T store(Accumulator key) {
    const Accumulator bits = select(key == kNanKey, kNan, turn(key));
    if constexpr (kIsSmallFloat<T>) {
      return {static_cast<decltype(T::bits)>(bits)};
    } else {
      return __builtin_bit_cast(T, bits);
    }
  }

 private:
  // A cast of a whole struct would keep loops over elements from becoming vectors.
  SENNIT_HOST_DEVICE static constexpr Accumulator bits_of(T value) {
    if constexpr (kIsSmallFloat<T>) {
      return static_cast<Accumulator>(value.bits);
    } else {
      return __builtin_bit_cast(Accumulator, value);
    }
  }

  static constexpr int kBits = 8 * sizeof(T);
  static constexpr auto kMagnitude =
      static_cast<Accumulator>(~(std::uint64_t{1} << 63) >> (64 - kBits));
  static constexpr auto kNanKey =
      static_cast<Accumulator>(kOp == ReduceOp::kMax ? kMagnitude : ~kMagnitude);
  static constexpr auto kLastNumber = static_cast<Accumulator>(FormatOf<T>::kLastNumber);
  static constexpr auto kNan = static_cast<Accumulator>(FormatOf<T>::kNan);

  SENNIT_HOST_DEVICE static constexpr Accumulator turn(Accumulator bits) {
    return static_cast<Accumulator>(bits ^ ((bits >> (kBits - 1)) & kMagnitude));
  }
};

template <typename T, ReduceOp kOp>
  requires(is_min_or_max(kOp) && std::is_integral_v<T>)
struct Reducer<T, kOp> {
  using Accumulator = T;

  SENNIT_HOST_DEVICE static T load(T value) { return value; }
  SENNIT_HOST_DEVICE static T combine(T a, T b) {
    return kOp == ReduceOp::kMin ? (a < b ? a : b) : (a > b ? a : b);
  }
  SENNIT_HOST_DEVICE static T store(T value) { return value; }
};

// ---- Bits and truth -----------------------------------------------------------------------------

template <ReduceOp kOp, typename T>
SENNIT_HOST_DEVICE constexpr T combine_bits(T a, T b) {
  if constexpr (is_and(kOp)) {
    return static_cast<T>(a & b);
  } else if constexpr (is_or(kOp)) {
    return static_cast<T>(a | b);
  } else {
    return static_cast<T>(a ^ b);
  }
}

template <typename T, ReduceOp kOp>
  requires(is_bitwise(kOp) && std::is_integral_v<T>)
struct Reducer<T, kOp> {
  using Accumulator = T;

  SENNIT_HOST_DEVICE static T load(T value) { return value; }
  SENNIT_HOST_DEVICE static T combine(T a, T b) { return combine_bits<kOp>(a, b); }
  SENNIT_HOST_DEVICE static T store(T value) { return value; }
};

// What is not zero is true; results are 0 or 1.
template <typename T, ReduceOp kOp>
  requires(is_logical(kOp) && std::is_integral_v<T>)
struct Reducer<T, kOp> {
  using Accumulator = T;

  SENNIT_HOST_DEVICE static T load(T value) { return static_cast<T>(value != 0); }
  SENNIT_HOST_DEVICE static T combine(T a, T b) { return combine_bits<kOp>(a, b); }
  SENNIT_HOST_DEVICE static T store(T value) { return value; }
};

// Every operator on truth is and, or, or xor: sum and max are or, prod and min are and.
template <ReduceOp kOp>
struct Reducer<Bool, kOp> {
  using Accumulator = std::uint8_t;

  SENNIT_HOST_DEVICE static Accumulator load(Bool value) {
    return static_cast<Accumulator>(value.bits != 0);
  }
  SENNIT_HOST_DEVICE static Accumulator combine(Accumulator a, Accumulator b) {
    return combine_bits<kOp>(a, b);
  }
  SENNIT_HOST_DEVICE static Bool store(Accumulator value) { return {value}; }
};

}  // namespace sennit
