// Elements of every type as the bench makes and checks them. An element is a function of its rank
// and of its variety, one of few; so all that a row can contain is made before it is measured.
#pragma once

#include "sennit/sennit.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sennit::bench {

enum class ElementKind { kInteger, kBool, kFloat, kComplex };

struct ElementType {
  const char* name;
  sennit_dtype_t dtype;
  std::size_t bytes;
  ElementKind kind;
  // Of floats, and of the parts of complex numbers.
  int mantissa_bits;
  int exponent_bias;
};

// Null when there is none.
const ElementType* find_element_type(const std::string& name);
const ElementType& element_type(sennit_dtype_t dtype);
// Comma-separated.
std::string element_type_names();

// What an element holds: `bits` of integers and bools, the others of floats and complex numbers.
struct Number {
  double real = 0;
  double imaginary = 0;
  std::uint64_t bits = 0;
};

using ElementBytes = std::array<std::byte, 16>;

class Elements {
 public:
  static constexpr std::size_t kVarieties = 101;

  // `is_random`: floats are random numbers of a normal distribution, as a codec has to be measured
  // with; else they are small whole numbers, whose sums are exact.
  Elements(const ElementType& type,
           sennit_redop_t op,
           int ranks,
           std::uint64_t seed,
           bool is_random = false);

  [[nodiscard]] static std::size_t variety(std::size_t index) {
    return (index * 29 + index / 97) % kVarieties;
  }

  // The input of a rank.
  [[nodiscard]] ElementBytes input(int rank, std::size_t variety) const;
  // Whether an element is the reduction of all ranks' inputs. Floats may be off by the roundings of
  // any order of the operations where the result is not exact.
  [[nodiscard]] bool is_reduced(const std::byte* element, std::size_t variety) const;

  // How far an element of floats is off what it stands for, and how large that is: squares, of
  // complex numbers of both parts. `rank` < 0: it stands for the reduction of all ranks' inputs.
  struct Error {
    double squared = 0;
    double expected_squared = 0;
  };
  [[nodiscard]] Error error_of(const std::byte* element, int rank, std::size_t variety) const;

 private:
  struct Expected {
    Number number;
    double tolerance = 0;
  };

  [[nodiscard]] Number number_of(int rank, std::size_t variety) const;
  [[nodiscard]] Number random_number(int rank, std::size_t variety) const;
  [[nodiscard]] Expected reduce(std::size_t variety) const;
  [[nodiscard]] Number combine(const Number& a, const Number& b) const;

  const ElementType& type_;
  sennit_redop_t op_;
  int ranks_;
  std::uint64_t seed_;
  bool is_random_;
  std::vector<Expected> expected_;  // by variety
};

}  // namespace sennit::bench
