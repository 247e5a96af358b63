// FakeNormingKernel, for tests without a GPU: what the kernel of calls that normalise rows does
// (exec/sm/norming_kernel.cuh), and that behind other calls. They add bytes, as fake reductions do,
// and what they make of a row follows from all bytes of it.
#pragma once

#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/norming_call.hpp"
#include "exec/sm/testing/fake_small_kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace sennit::tests {

inline std::byte sum_of(std::byte a, std::byte b) {
  return static_cast<std::byte>(std::to_integer<int>(a) + std::to_integer<int>(b));
}

// In place of RowNorm.
inline void fake_row_norm(const RowNormCall& call, std::int64_t row) {
  std::byte* const sums = call.rows + row * call.row_bytes;
  std::byte* const residual = call.residual + row * call.row_bytes;
  std::byte all{};
  for (std::int64_t i = 0; i < call.row_bytes; ++i) {
    residual[i] = sum_of(residual[i], sums[i]);
    all = sum_of(all, residual[i]);
  }
  for (std::int64_t i = 0; i < call.row_bytes; ++i) {
    sums[i] = sum_of(residual[i], all) ^ call.weight[i];
  }
}

class FakeNormingKernel : FakeSmallKernel<sm::SmallCall> {
 public:
  FakeNormingKernel(const sm::NormingCall& call, int block)
      : FakeSmallKernel(call.exchange, block), norm_(call.norm) {}

  // Every `blocks`-th row.
  void run(int blocks) {
    sm::BlockState& state = call_.states[block_];
    if (state.round == sm::kGivenUp) {
      return;
    }
    round_ = state.round;
    await_free(state.unheard & call_.push_to);
    for (std::int64_t row = block_; row < norm_.row_count && wait_.is_alive(); row += blocks) {
      exchange_row(row);
      if (wait_.is_alive()) {
        fake_row_norm(norm_, row);
      }
    }
    state = {.round = wait_.is_alive() ? round_ : sm::kGivenUp};
  }

 private:
  void exchange_row(std::int64_t row) {
    const int warps = row_threads(norm_.row_bytes) / 32;
    at_ = row * norm_.row_bytes;
    end_ = at_ + norm_.row_bytes;
    while (at_ < end_ && wait_.is_alive()) {
      ++round_;
      for (warp_ = 0; warp_ < warps && at_ < end_; ++warp_) {
        exchange();
        at_ += kPayload;
      }
    }
  }

  const RowNormCall& norm_;
};

// For FakeCuda::run_kernels; null for other kernels.
inline std::function<void()> fake_norming_kernel(const void* kernel,
                                                 const void* parameters,
                                                 int blocks) {
  if (kernel == sm::norming_kernel(Dtype::kBfloat16) ||
      kernel == sm::norming_kernel(Dtype::kFloat16)) {
    return [call = *static_cast<const sm::NormingCall*>(parameters), blocks] {
      const auto launched = static_cast<int>(std::min<std::int64_t>(blocks, call.norm.row_count));
      for (int block = 0; block < launched; ++block) {
        FakeNormingKernel(call, block).run(launched);
      }
    };
  }
  if (kernel == row_norm_kernel(Dtype::kBfloat16) || kernel == row_norm_kernel(Dtype::kFloat16)) {
    return [call = *static_cast<const RowNormCall*>(parameters)] {
      for (std::int64_t row = 0; row < call.row_count; ++row) {
        fake_row_norm(call, row);
      }
    };
  }
  return nullptr;
}

}  // namespace sennit::tests
