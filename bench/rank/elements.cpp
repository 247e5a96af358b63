#include "elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace sennit::bench {
namespace {

using enum ElementKind;

constexpr std::array kTypes = {
    ElementType{"float32", SENNIT_FLOAT32, 4, kFloat, 23, 127},
    ElementType{"float64", SENNIT_FLOAT64, 8, kFloat, 52, 1023},
    ElementType{"int32", SENNIT_INT32, 4, kInteger, 0, 0},
    ElementType{"int64", SENNIT_INT64, 8, kInteger, 0, 0},
    ElementType{"uint8", SENNIT_UINT8, 1, kInteger, 0, 0},
    ElementType{"int8", SENNIT_INT8, 1, kInteger, 0, 0},
    ElementType{"int16", SENNIT_INT16, 2, kInteger, 0, 0},
    ElementType{"uint16", SENNIT_UINT16, 2, kInteger, 0, 0},
    ElementType{"uint32", SENNIT_UINT32, 4, kInteger, 0, 0},
    ElementType{"uint64", SENNIT_UINT64, 8, kInteger, 0, 0},
    ElementType{"bool", SENNIT_BOOL, 1, kBool, 0, 0},
    ElementType{"float16", SENNIT_FLOAT16, 2, kFloat, 10, 15},
    ElementType{"bfloat16", SENNIT_BFLOAT16, 2, kFloat, 7, 127},
    ElementType{"float8_e4m3fn", SENNIT_FLOAT8_E4M3FN, 1, kFloat, 3, 7},
    ElementType{"float8_e5m2", SENNIT_FLOAT8_E5M2, 1, kFloat, 2, 15},
    ElementType{"complex64", SENNIT_COMPLEX64, 8, kComplex, 23, 127},
    ElementType{"complex128", SENNIT_COMPLEX128, 16, kComplex, 52, 1023},
};

bool is_exact(const ElementType& type) { return type.kind == kInteger || type.kind == kBool; }

std::size_t part_bytes(const ElementType& type) {
  return type.kind == kComplex ? type.bytes / 2 : type.bytes;
}

// Of a number that the type can hold exactly and normally, as all inputs are.
std::uint64_t float_bits(const ElementType& type, double value) {
  if (value == 0) {
    return 0;
  }
  int exponent = 0;
  const double significand = std::frexp(std::fabs(value), &exponent) * 2 - 1;
  const std::uint64_t sign = value < 0 ? std::uint64_t{1} << (8 * part_bytes(type) - 1) : 0;
  return sign |
         (static_cast<std::uint64_t>(exponent - 1 + type.exponent_bias) << type.mantissa_bits) |
         static_cast<std::uint64_t>(std::ldexp(significand, type.mantissa_bits));
}

double float_number(const ElementType& type, std::uint64_t bits) {
  const int width = static_cast<int>(8 * part_bytes(type));
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << type.mantissa_bits) - 1);
  const std::uint64_t magnitude = bits & ((std::uint64_t{1} << (width - 1)) - 1);
  const auto exponent = static_cast<int>(magnitude >> type.mantissa_bits);
  const std::uint64_t one = exponent > 0 ? std::uint64_t{1} << type.mantissa_bits : 0;
  const double size = std::ldexp(static_cast<double>(fraction | one),
                                 std::max(exponent, 1) - type.exponent_bias - type.mantissa_bits);
  return (bits >> (width - 1)) != 0 ? -size : size;
}

ElementBytes to_bytes(const ElementType& type, const Number& number) {
  ElementBytes bytes{};
  const std::size_t part = part_bytes(type);
  const std::uint64_t first = is_exact(type) ? number.bits : float_bits(type, number.real);
  std::memcpy(bytes.data(), &first, part);
  if (type.kind == kComplex) {
    const std::uint64_t second = float_bits(type, number.imaginary);
    std::memcpy(bytes.data() + part, &second, part);
  }
  return bytes;
}

double part_at(const ElementType& type, const std::byte* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, part_bytes(type));
  return float_number(type, bits);
}

std::uint64_t combine_bits(sennit_redop_t op, std::uint64_t a, std::uint64_t b, bool is_truth) {
  switch (op) {
    case SENNIT_PROD:
      return a * b;
    case SENNIT_MIN:
      return std::min(a, b);
    case SENNIT_MAX:
      return std::max(a, b);
    case SENNIT_LOGICAL_AND:
      return a != 0 && b != 0 ? 1 : 0;
    case SENNIT_LOGICAL_OR:
      return a != 0 || b != 0 ? 1 : 0;
    case SENNIT_LOGICAL_XOR:
      return (a != 0) != (b != 0) ? 1 : 0;
    case SENNIT_BITWISE_AND:
      return a & b;
    case SENNIT_BITWISE_OR:
      return a | b;
    case SENNIT_BITWISE_XOR:
      return a ^ b;
    case SENNIT_SUM:
    case SENNIT_AVG:
    case SENNIT_REDOP_CUSTOM_FIRST:
    case SENNIT_REDOP_MAX_:
      return is_truth ? a | b : a + b;
  }
  return 0;
}

}  // namespace

const ElementType* find_element_type(const std::string& name) {
  const auto* const row = std::ranges::find(kTypes, name, &ElementType::name);
  return row == kTypes.end() ? nullptr : row;
}

const ElementType& element_type(sennit_dtype_t dtype) {
  const auto* const row = std::ranges::find(kTypes, dtype, &ElementType::dtype);
  return row == kTypes.end() ? kTypes.front() : *row;
}

std::string element_type_names() {
  std::string names;
  for (const ElementType& type : kTypes) {
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  return names;
}

Elements::Elements(
    const ElementType& type, sennit_redop_t op, int ranks, std::uint64_t seed, bool is_random)
    : type_(type), op_(op), ranks_(ranks), seed_(seed), is_random_(is_random) {
  for (std::size_t variety = 0; variety < kVarieties; ++variety) {
    expected_.push_back(reduce(variety));
  }
}

// Tells rank and variety apart as far as the type can, and is exact in it. Factors are powers of
// two, so that products are exact, too, as long as they are in range.
Number Elements::number_of(int rank, std::size_t variety) const {
  if (is_random_ && !is_exact(type_)) {
    return random_number(rank, variety);
  }
  const std::uint64_t of_rank = (static_cast<std::uint64_t>(rank) * 37 + seed_) % 97;
  const std::uint64_t sum = of_rank + variety;
  if (is_exact(type_)) {
    // Signed bytes stay positive, so that minima and maxima are those of the bits.
    return {.bits = type_.kind == kBool ? sum % 2 : sum % 128};
  }
  const auto number = static_cast<double>(type_.mantissa_bits >= 10 ? sum : sum % 8);
  if (op_ == SENNIT_PROD) {
    const double factor = sum % 4 == 0 ? 2 : sum % 4 == 1 ? 0.5 : 1;
    return type_.kind == kComplex && sum % 3 == 0 ? Number{.imaginary = factor}
                                                  : Number{.real = factor};
  }
  return {.real = number, .imaginary = type_.kind == kComplex ? -2 * number : 0};
}

// As the type holds it: what is below the last place is cut off, and what is too small for a normal
// number of a 16-bit type is 0.
Number Elements::random_number(int rank, std::size_t variety) const {
  constexpr double kLeast = 0x1p-10;
  std::mt19937_64 random((seed_ * 1000 + static_cast<std::uint64_t>(rank)) * kVarieties + variety);
  std::normal_distribution<double> normal;
  const auto held = [&](double value) {
    return std::fabs(value) < kLeast ? 0 : float_number(type_, float_bits(type_, value));
  };
  const double real = held(normal(random));
  return {.real = real, .imaginary = type_.kind == kComplex ? held(normal(random)) : 0};
}

Elements::Error Elements::error_of(const std::byte* element, int rank, std::size_t variety) const {
  const Number wanted = rank < 0 ? expected_[variety].number : number_of(rank, variety);
  const auto square = [](double value) { return value * value; };
  Error error{.squared = square(part_at(type_, element) - wanted.real),
              .expected_squared = square(wanted.real)};
  if (type_.kind == kComplex) {
    error.squared += square(part_at(type_, element + part_bytes(type_)) - wanted.imaginary);
    error.expected_squared += square(wanted.imaginary);
  }
  return error;
}

ElementBytes Elements::input(int rank, std::size_t variety) const {
  return to_bytes(type_, number_of(rank, variety));
}

Number Elements::combine(const Number& a, const Number& b) const {
  if (is_exact(type_)) {
    return {.bits = combine_bits(op_, a.bits, b.bits, type_.kind == kBool)};
  }
  switch (op_) {
    case SENNIT_PROD:
      return {.real = a.real * b.real - a.imaginary * b.imaginary,
              .imaginary = a.real * b.imaginary + a.imaginary * b.real};
    case SENNIT_MIN:
      return {.real = std::min(a.real, b.real)};
    case SENNIT_MAX:
      return {.real = std::max(a.real, b.real)};
    default:  // the values that programs make are ints of the C ABI, most of them no enumerator
      return {.real = a.real + b.real, .imaginary = a.imaginary + b.imaginary};
  }
}

Elements::Expected Elements::reduce(std::size_t variety) const {
  Expected expected{.number = number_of(0, variety)};
  for (int rank = 1; rank < ranks_; ++rank) {
    expected.number = combine(expected.number, number_of(rank, variety));
  }
  Number& number = expected.number;
  const double largest = std::max(std::fabs(number.real), std::fabs(number.imaginary));
  const bool is_exact_float =
      op_ != SENNIT_PROD && largest <= std::ldexp(1.0, type_.mantissa_bits + 1);
  if (op_ == SENNIT_AVG) {
    const auto ranks = static_cast<double>(ranks_);
    number = {.real = number.real / ranks,
              .imaginary = number.imaginary / ranks,
              .bits = number.bits / static_cast<std::uint64_t>(ranks_)};
  }
  if (!is_exact(type_) && (!is_exact_float || op_ == SENNIT_AVG)) {
    const double roundoff = std::ldexp(1.0, -type_.mantissa_bits - 1);
    const int operations = is_exact_float ? 1 : 4 * (ranks_ + 1);
    expected.tolerance = largest * (std::pow(1 + roundoff, operations) - 1);
  }
  return expected;
}

bool Elements::is_reduced(const std::byte* element, std::size_t variety) const {
  const Expected& expected = expected_[variety];
  if (is_exact(type_)) {
    return std::memcmp(element, &expected.number.bits, type_.bytes) == 0;
  }
  const auto is_close = [&](std::size_t at, double wanted) {
    return std::fabs(part_at(type_, element + at) - wanted) <= expected.tolerance;
  };
  return is_close(0, expected.number.real) &&
         (type_.kind != kComplex || is_close(part_bytes(type_), expected.number.imaginary));
}

}  // namespace sennit::bench
