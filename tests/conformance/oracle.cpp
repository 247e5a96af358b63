#include "oracle.hpp"

#include "element_visit.hpp"

#include "types/reducer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sennit::tests {
namespace {

using Wide = long double;

template <typename T>
T from_bytes(const std::byte* bytes) {
  T element;
  std::memcpy(&element, bytes, sizeof(T));
  return element;
}

std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t value = (a * 0x9e3779b97f4a7c15U) ^ (b + 0x7f4a7c15U);
  value = (value ^ (value >> 31)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// ---- Numbers of the types -----------------------------------------------------------------------

template <typename T>
T element_of(Wide number) {
  if constexpr (kIsSmallFloat<T>) {
    return narrow(static_cast<float>(number), T{});
  } else {
    return static_cast<T>(number);
  }
}

template <typename T>
Wide number_of(T element) {
  if constexpr (kIsSmallFloat<T>) {
    return widen(element);
  } else {
    return element;
  }
}

// Half the distance from 1 to the next number, and the smallest number above zero.
template <typename T>
struct Precision {
  static constexpr Wide kRoundoff = std::numeric_limits<T>::epsilon() / 2;
  static constexpr Wide kSmallest = std::numeric_limits<T>::denorm_min();
};
template <>
struct Precision<Float16> {
  static constexpr Wide kRoundoff = 0x1p-11L;
  static constexpr Wide kSmallest = 0x1p-24L;
};
template <>
struct Precision<Bfloat16> {
  static constexpr Wide kRoundoff = 0x1p-8L;
  static constexpr Wide kSmallest = 0x1p-133L;
};
template <>
struct Precision<Float8E4m3fn> {
  static constexpr Wide kRoundoff = 0x1p-4L;
  static constexpr Wide kSmallest = 0x1p-9L;
};
template <>
struct Precision<Float8E5m2> {
  static constexpr Wide kRoundoff = 0x1p-3L;
  static constexpr Wide kSmallest = 0x1p-16L;
};

// ---- Inputs -------------------------------------------------------------------------------------

// A number for part `part` of an element. Encoded ones are different from rank to rank and from
// index to index; random ones span nine powers of two, and minima and maxima meet NaN, infinities
// and both zeros. Factors stay near one, so that no product of 16 leaves the range of any type.
Wide real_input(const Case& c, int rank, std::int64_t index, std::uint64_t part) {
  const std::uint64_t random =
      hash(static_cast<std::uint64_t>(rank) * 2 + part, static_cast<std::uint64_t>(index));
  const Wide fraction = static_cast<Wide>(random >> 40) / static_cast<Wide>(1 << 23) - 1;
  if (c.op == ReduceOp::kProd) {
    return c.values == Values::kEncoded ? ((rank + index) % 3 == 0   ? 0.75L
                                           : (rank + index) % 3 == 1 ? -1.25L
                                                                     : 1)
                                        : (fraction < 0 ? -1 : 1) * (1 + fraction / 4);
  }
  if (c.values == Values::kEncoded) {
    return (rank * std::int64_t{5} + index * 3 + static_cast<std::int64_t>(part)) % 9 - 4;
  }
  const bool compares = c.op == ReduceOp::kMin || c.op == ReduceOp::kMax;
  if (compares && random % 8 == 0) {
    constexpr std::array<Wide, 5> kSpecial = {std::numeric_limits<Wide>::quiet_NaN(),
                                              std::numeric_limits<Wide>::infinity(),
                                              -std::numeric_limits<Wide>::infinity(),
                                              0.0L,
                                              -0.0L};
    return kSpecial[random / 8 % kSpecial.size()];
  }
  return std::ldexp(fraction, static_cast<int>(random % 9) - 4);
}

template <typename T>
T integer_input(const Case& c, int rank, std::int64_t index) {
  const std::int64_t number = rank * std::int64_t{4133} + index % 4093 * 31;
  // Logical operators need zeros to find.
  return static_cast<T>(is_logical(c.op) && (rank + index) % 3 == 0 ? 0 : number);
}

template <typename T>
T input_as(const Case& c, int rank, std::int64_t index) {
  if constexpr (kIsComplex<T>) {
    using Real = decltype(T::real);
    return {static_cast<Real>(real_input(c, rank, index, 0)),
            static_cast<Real>(real_input(c, rank, index, 1))};
  } else if constexpr (kIsFloat<T>) {
    return element_of<T>(real_input(c, rank, index, 0));
  } else if constexpr (std::is_same_v<T, Bool>) {
    // Any byte but zero is true; of several ranks now all are, now none is.
    const std::uint64_t random =
        hash(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index));
    const bool is_true = index % 4 == 0 || (index % 4 != 1 && random % 2 == 0);
    return {static_cast<std::uint8_t>(is_true ? random % 255 + 1 : 0)};
  } else {
    return integer_input<T>(c, rank, index);
  }
}

template <typename T>
T scalar_as(int rank) {
  const int step = rank % 3 + 1;
  if constexpr (kIsComplex<T>) {
    using Real = decltype(T::real);
    return {static_cast<Real>(step) / 2, static_cast<Real>(-1)};
  } else if constexpr (kIsFloat<T>) {
    return element_of<T>(static_cast<Wide>(step) / 2);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {1};
  } else {
    return static_cast<T>(step + 2);
  }
}

// Data that only moves: rank and index in every element that has room for them.
void make_pattern(int rank, std::int64_t index, std::size_t bytes, std::byte* out) {
  const std::uint64_t word =
      (static_cast<std::uint64_t>(rank) * 37 + static_cast<std::uint64_t>(index)) |
      (static_cast<std::uint64_t>(rank + 1) << 40);
  const std::array<std::uint64_t, 2> words = {bytes == 1 ? word ^ (word >> 8) : word, ~word};
  std::memcpy(out, words.data(), bytes);
}

// ---- Reductions ---------------------------------------------------------------------------------

template <typename T>
T reduce_integers(const Case& c, std::int64_t index) {
  T result = input_as<T>(c, 0, index);
  auto wrapped = std::uint64_t{c.op == ReduceOp::kProd};
  std::array<bool, 3> truth = {true, false, false};  // and, or, xor
  for (int rank = 0; rank < c.ranks; ++rank) {
    const T next = input_as<T>(c, rank, index);
    const auto bits = static_cast<std::uint64_t>(next);
    wrapped = c.op == ReduceOp::kProd ? wrapped * bits
              : c.op == ReduceOp::kPremulSum
                  ? wrapped + bits * static_cast<std::uint64_t>(scalar_as<T>(rank))
                  : wrapped + bits;
    truth = {truth[0] && next != 0, truth[1] || next != 0, truth[2] != (next != 0)};
    result = c.op == ReduceOp::kMin          ? std::min(result, next)
             : c.op == ReduceOp::kMax        ? std::max(result, next)
             : rank == 0                     ? next
             : c.op == ReduceOp::kBitwiseAnd ? static_cast<T>(result & next)
             : c.op == ReduceOp::kBitwiseOr  ? static_cast<T>(result | next)
                                             : static_cast<T>(result ^ next);
  }
  if (c.op == ReduceOp::kAvg) {
    const auto sum = static_cast<T>(wrapped);
    return static_cast<T>(sizeof(T) < 8 ? static_cast<std::int64_t>(sum) / c.ranks
                                        : sum / static_cast<T>(c.ranks));
  }
  if (is_logical(c.op) && c.ranks > 1) {
    return static_cast<T>(truth[c.op == ReduceOp::kLogicalAnd  ? 0
                                : c.op == ReduceOp::kLogicalOr ? 1
                                                               : 2]);
  }
  return is_sum_or_product(c.op) ? static_cast<T>(wrapped) : result;
}

Bool reduce_bools(const Case& c, std::int64_t index) {
  const auto is_true = [&](int rank) { return input_as<Bool>(c, rank, index).bits != 0; };
  bool result = is_true(0);
  for (int rank = 1; rank < c.ranks; ++rank) {
    const bool next = is_true(rank);
    result = is_and(c.op) ? result && next : is_or(c.op) ? result || next : result != next;
  }
  return {static_cast<std::uint8_t>(result)};
}

struct Number {
  Wide real = 0;
  Wide imaginary = 0;
};

template <typename T>
Number number_with_parts(T element) {
  if constexpr (kIsComplex<T>) {
    return {element.real, element.imaginary};
  } else {
    return {number_of(element), 0};
  }
}

Number product(Number a, Number b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

Wide magnitude(Number a) { return std::hypot(a.real, a.imaginary); }

Wide lesser(Wide a, Wide b) { return a < b || (a == b && std::signbit(a)) ? a : b; }

template <typename T>
Wide least_or_greatest(const Case& c, std::int64_t index) {
  Wide result = number_of(input_as<T>(c, 0, index));
  for (int rank = 1; rank < c.ranks; ++rank) {
    const Wide next = number_of(input_as<T>(c, rank, index));
    if (std::isnan(result) || std::isnan(next)) {
      result = std::numeric_limits<Wide>::quiet_NaN();
    } else {
      result = c.op == ReduceOp::kMin ? lesser(result, next) : -lesser(-result, -next);
    }
  }
  return result;
}

struct Sum {
  Number value;
  Wide tolerance;
};

template <typename T>
Sum sum_or_product(const Case& c, std::int64_t index) {
  const bool multiplies = c.op == ReduceOp::kProd;
  Number value{multiplies ? 1.0L : 0.0L, 0};
  Wide size = multiplies ? 1 : 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    Number next = number_with_parts(input_as<T>(c, rank, index));
    if (c.op == ReduceOp::kPremulSum) {
      next = product(next, number_with_parts(scalar_as<T>(rank)));
    }
    value = multiplies ? product(value, next)
                       : Number{value.real + next.real, value.imaginary + next.imaginary};
    size = multiplies ? size * magnitude(next) : size + magnitude(next);
  }
  using Real = std::conditional_t<std::is_same_v<T, Complex<double>>,
                                  double,
                                  std::conditional_t<kIsComplex<T>, float, T>>;
  const int operations = (c.ranks + 2) * (kIsComplex<T> ? 4 : 1);
  const Wide growth = std::pow(1 + Precision<Real>::kRoundoff, operations) - 1;
  const Wide divisor = c.op == ReduceOp::kAvg ? c.ranks : 1;
  // A product may carry the rounding of a subnormal factor through all that are still to come.
  const Wide lost = c.ranks * Precision<Real>::kSmallest * (multiplies ? 64 : 1);
  return {{value.real / divisor, value.imaginary / divisor}, growth * size / divisor + lost};
}

// Which element of the reduction element `index` of a rank's output is.
std::int64_t reduced_index(const Case& c, int rank, std::int64_t index) {
  return c.collective() == Collective::kReduceScatter ? rank * c.count + index : index;
}

struct Origin {
  int rank;
  std::int64_t index;
};

// Where element `index` of the output of `rank` comes from.
Origin origin_of(const Case& c, int rank, std::int64_t index) {
  switch (c.collective()) {
    case Collective::kBroadcast:
      return {c.root, index};
    case Collective::kScatter:
      return {c.root, rank * c.count + index};
    case Collective::kAllGather:
    case Collective::kGather:
      return {static_cast<int>(index / c.count), index % c.count};
    case Collective::kAllToAll:
      return {static_cast<int>(index / c.count), rank * c.count + index % c.count};
    case Collective::kSendRecv:
      return {(rank + c.ranks - 1) % c.ranks, index};
    default:
      return {rank, index};
  }
}

}  // namespace

void make_input(const Case& c, int rank, std::int64_t index, std::byte* out) {
  if (!is_reduction(c.collective())) {
    return make_pattern(rank, index, size_bytes(c.dtype), out);
  }
  with_element(c.dtype, [&]<typename T>() {
    const T element = input_as<T>(c, rank, index);
    std::memcpy(out, &element, sizeof(T));
  });
}

void make_scalar(const Case& c, int rank, std::byte* out) {
  with_element(c.dtype, [&]<typename T>() {
    const T element = scalar_as<T>(rank);
    std::memcpy(out, &element, sizeof(T));
  });
}

Oracle::Oracle(const Case& c) : case_(c) {
  if (is_reduction(c.collective())) {
    with_element(c.dtype, [&]<typename T>() { reduce<T>(); });
  }
}

template <typename T>
void Oracle::reduce() {
  const std::int64_t elements = input_elements(case_, 0);
  for (std::int64_t i = 0; i < elements; ++i) {
    if constexpr (kIsFloat<T> || kIsComplex<T>) {
      bool compares = false;
      if constexpr (kIsFloat<T>) {
        compares = is_min_or_max(case_.op);
        if (compares) {
          parts_.push_back({least_or_greatest<T>(case_, i), 0});
        }
      }
      if (!compares) {
        const Sum sum = sum_or_product<T>(case_, i);
        parts_.push_back({sum.value.real, sum.tolerance});
        if constexpr (kIsComplex<T>) {
          parts_.push_back({sum.value.imaginary, sum.tolerance});
        }
      }
    } else {
      T element;
      if constexpr (std::is_same_v<T, Bool>) {
        element = reduce_bools(case_, i);
      } else {
        element = reduce_integers<T>(case_, i);
      }
      const auto* bytes = reinterpret_cast<const std::byte*>(&element);
      exact_.insert(exact_.end(), bytes, bytes + sizeof(T));
    }
  }
}

std::string Oracle::defect(int rank, const std::byte* outputs) const {
  const std::size_t bytes = size_bytes(case_.dtype);
  for (std::int64_t i = 0; i < output_elements(case_, rank); ++i) {
    const std::byte* got = outputs + static_cast<std::size_t>(i) * bytes;
    std::string wrong;
    if (is_reduction(case_.collective())) {
      wrong = defect_of(reduced_index(case_, rank, i), got);
    } else {
      const Origin origin = origin_of(case_, rank, i);
      std::array<std::byte, 16> expected{};
      make_pattern(origin.rank, origin.index, bytes, expected.data());
      if (std::memcmp(expected.data(), got, bytes) != 0) {
        wrong = fmt::format("is not element {} of rank {}", origin.index, origin.rank);
      }
    }
    if (!wrong.empty()) {
      return fmt::format("output {} of rank {} {}", i, rank, wrong);
    }
  }
  return {};
}

std::string Oracle::defect_of(std::int64_t index, const std::byte* got) const {
  return with_element(case_.dtype, [&]<typename T>() -> std::string {
    if constexpr (kIsFloat<T> || kIsComplex<T>) {
      const Number number = number_with_parts(from_bytes<T>(got));
      const std::array<Wide, 2> found = {number.real, number.imaginary};
      constexpr std::size_t kParts = kIsComplex<T> ? 2 : 1;
      for (std::size_t part = 0; part < kParts; ++part) {
        const Part& wanted = parts_[static_cast<std::size_t>(index) * kParts + part];
        const bool is_right =
            std::isnan(wanted.number) || std::isnan(found[part]) || wanted.tolerance == 0
                ? (std::isnan(wanted.number) && std::isnan(found[part])) ||
                      (wanted.number == found[part] &&
                       std::signbit(wanted.number) == std::signbit(found[part]))
                : std::abs(found[part] - wanted.number) <= wanted.tolerance;
        if (!is_right) {
          return fmt::format("has {} in part {}, not {} +- {}",
                             static_cast<double>(found[part]),
                             part,
                             static_cast<double>(wanted.number),
                             static_cast<double>(wanted.tolerance));
        }
      }
      return {};
    } else {
      const T wanted = from_bytes<T>(exact_.data() + static_cast<std::size_t>(index) * sizeof(T));
      // One rank alone keeps its bytes as they are, and any byte but zero is true.
      if constexpr (std::is_same_v<T, Bool>) {
        const Bool found = from_bytes<Bool>(got);
        const bool is_right =
            case_.ranks == 1 ? (found.bits != 0) == (wanted.bits != 0) : found.bits == wanted.bits;
        return is_right ? "" : fmt::format("is {}, not {}", found.bits, wanted.bits);
      } else {
        const T found = from_bytes<T>(got);
        return found == wanted ? "" : fmt::format("is {}, not {}", found, wanted);
      }
    }
  });
}

}  // namespace sennit::tests
