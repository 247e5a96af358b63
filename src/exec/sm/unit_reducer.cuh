// UnitReducer: the arithmetic of types/reducer.hpp on the 16 bytes that a lane holds.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/packet.cuh"
#include "types/reducer.hpp"

namespace sennit::sm {

struct NoReduction {
  static constexpr bool kReduces = false;

  template <int kUnits, class Call>
  __device__ static void prepare(Unit (&)[kUnits], const Call&) {}
};

template <typename T, ReduceOp kOp>
struct UnitReducer {
  using Element = Reducer<T, kOp>;

  static constexpr bool kReduces = true;
  static constexpr int kElements = static_cast<int>(sizeof(Unit) / sizeof(T));

  struct Accumulator {
    typename Element::Accumulator of[kElements];
  };
  struct Elements {
    alignas(16) T of[kElements];
  };

  // Contributions are scaled before they are sent or reduced, by the scalar of their rank.
  template <int kUnits, class Scaled>
  __device__ static void prepare(Unit (&units)[kUnits], const Scaled& scaled) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      const std::byte* const factor =
          scaled.scalar_on_device != nullptr ? scaled.scalar_on_device : scaled.scalar.data();
      const T scalar = *reinterpret_cast<const T*>(factor);
#pragma unroll
      for (Unit& unit : units) {
        auto elements = __builtin_bit_cast(Elements, unit);
#pragma unroll
        for (T& element : elements.of) {
          element = Element::scale(element, scalar);
        }
        unit = __builtin_bit_cast(Unit, elements);
      }
    }
  }

  __device__ static void begin(Accumulator& sum, const Unit& unit) {
    const auto elements = __builtin_bit_cast(Elements, unit);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      sum.of[i] = Element::load(elements.of[i]);
    }
  }

  __device__ static void add(Accumulator& sum, const Unit& unit) {
    const auto elements = __builtin_bit_cast(Elements, unit);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      sum.of[i] = Element::combine(sum.of[i], Element::load(elements.of[i]));
    }
  }

  template <class Call>
  __device__ static Unit finish(const Accumulator& sum, const Call& call) {
    Elements elements;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if constexpr (kOp == ReduceOp::kAvg) {
        elements.of[i] = Element::store(Element::finish(sum.of[i], call.ranks));
      } else {
        elements.of[i] = Element::store(sum.of[i]);
      }
    }
    return __builtin_bit_cast(Unit, elements);
  }
};

}  // namespace sennit::sm
