// The loops of reductions. Whoever includes this names the vectors they are compiled for; each such
// file is one form of reduce(), and all forms give the same bits, as they are the same arithmetic:
//
//   #define SENNIT_LOOPS avx2
//   #define SENNIT_LOOPS_TARGET SENNIT_AVX2
//   #define SENNIT_LOOPS_FUSE false  // a product and sum in one operation
//   #include "types/reduce_loops.hpp"
#pragma once

#include "base/vectors.hpp"
#include "types/reduce.hpp"
#include "types/reducer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace sennit {
namespace {

// The loops of one operator on one type. Outputs are operands at the same index or not at all, so
// no iteration depends on another.
template <typename T, ReduceOp kOp>
class Loops {
 public:
  static void run(const Scaling& scaling, const Reduction& reduction) {
    const std::span<const Operand> operands = reduction.operands;
    const bool is_plain =
        !reduction.is_finished && std::ranges::none_of(operands, &Operand::is_scaled);
    if (is_plain && operands.size() == 1) {
      std::memmove(reduction.out,
                   operands[0].data,
                   static_cast<std::size_t>(reduction.elements) * sizeof(T));
    } else if (is_plain && operands.size() == 2) {
      reduce_two(static_cast<T*>(reduction.out),
                 static_cast<const T*>(operands[0].data),
                 static_cast<const T*>(operands[1].data),
                 reduction.elements);
    } else {
      reduce_pieces(scaling, reduction);
    }
  }

 private:
  using R = Reducer<T, kOp>;
  using Accumulator = typename R::Accumulator;

  // A piece of accumulators stays in the first-level cache.
  static constexpr std::int64_t kPiece = 4096 / static_cast<std::int64_t>(sizeof(Accumulator));
  using Sums = std::array<Accumulator, static_cast<std::size_t>(kPiece)>;
  using Elements = std::array<T, static_cast<std::size_t>(kPiece)>;

  SENNIT_LOOPS_TARGET static void reduce_two(T* out,
                                             const T* a,
                                             const T* b,
                                             std::int64_t elements) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < elements; ++i) {
      out[i] = R::store(R::combine(R::load(a[i]), R::load(b[i])));
    }
  }

  // Sums a piece at a time in a buffer of its own, because `out` may be any of the operands.
  static void reduce_pieces(const Scaling& scaling, const Reduction& reduction) {
    alignas(64) Sums sums;
    alignas(64) Elements scaled;
    for (std::int64_t begin = 0; begin < reduction.elements; begin += kPiece) {
      const std::int64_t length = std::min(kPiece, reduction.elements - begin);
      bool is_first = true;
      for (const Operand& operand : reduction.operands) {
        const T* values = static_cast<const T*>(operand.data) + begin;
        if (operand.is_scaled) {
          scale(scaled.data(), values, scaling, length);
          values = scaled.data();
        }
        is_first ? load(sums.data(), values, length) : add(sums.data(), values, length);
        is_first = false;
      }
      if (reduction.is_finished) {
        finish(sums.data(), scaling.ranks, length);
      }
      store(static_cast<T*>(reduction.out) + begin, sums.data(), length);
    }
  }

  SENNIT_LOOPS_TARGET static void load(Accumulator* sums, const T* values, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      sums[i] = R::load(values[i]);
    }
  }

  SENNIT_LOOPS_TARGET static void add(Accumulator* sums, const T* values, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      sums[i] = R::combine(sums[i], R::load(values[i]));
    }
  }

  SENNIT_LOOPS_TARGET static void store(T* out, const Accumulator* sums, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      out[i] = R::store(sums[i]);
    }
  }

  SENNIT_LOOPS_TARGET static void finish([[maybe_unused]] Accumulator* sums,
                                         [[maybe_unused]] int ranks,
                                         [[maybe_unused]] std::int64_t length) {
    if constexpr (kOp == ReduceOp::kAvg) {
      for (std::int64_t i = 0; i < length; ++i) {
        sums[i] = R::finish(sums[i], ranks);
      }
    }
  }

  SENNIT_LOOPS_TARGET static void scale([[maybe_unused]] T* out,
                                        [[maybe_unused]] const T* values,
                                        [[maybe_unused]] const Scaling& scaling,
                                        [[maybe_unused]] std::int64_t length) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      T scalar;
      std::memcpy(&scalar, scaling.scalar.data(), sizeof(scalar));
      for (std::int64_t i = 0; i < length; ++i) {
        out[i] = R::scale(values[i], scalar);
      }
    }
  }
};

template <Dtype kDtype>
void reduce_as(ReduceOp op, const Scaling& scaling, const Reduction& reduction) {
  switch (op) {
#define SENNIT_REDUCE_OP(name, value, enumerator, integers, bools, floats, complexes) \
  case ReduceOp::enumerator:                                                          \
    if constexpr (has_operator(kDtype, ReduceOp::enumerator)) {                       \
      return Loops<Element<kDtype>, ReduceOp::enumerator>::run(scaling, reduction);   \
    }                                                                                 \
    break;
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
  }
  SENNIT_CHECK(false, "a call with an operator that its type lacks is refused when it is made");
}

}  // namespace

void SENNIT_LOOPS::reduce(Dtype dtype,
                          ReduceOp op,
                          const Scaling& scaling,
                          const Reduction& reduction) {
  // g++ 12 makes one operation of the products and sums of complex numbers even where
  // -ffp-contract=off forbids it, and so rounds once instead of twice.
  if (SENNIT_LOOPS_FUSE && kind_of(dtype) == Kind::kComplex) {
    return avx2::reduce(dtype, op, scaling, reduction);
  }
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return reduce_as<Dtype::enumerator>(op, scaling, reduction);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
}

}  // namespace sennit
