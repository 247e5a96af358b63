// The kernel of calls that normalise rows (exec/sm/norming_call.hpp).
#pragma once

#include "exec/row_norm.cuh"
#include "exec/sm/norming_call.hpp"
#include "exec/sm/small_kernel.cuh"

namespace sennit::sm {

// A thread block that goes on after each round.
struct BlockOfRounds : WholeBlock {
  __device__ __forceinline__ void let_next_begin() const {}
};

template <typename T>
class NormingBlock : SmallBlock<UnitReducer<T, ReduceOp::kSum>, SmallCall, BlockOfRounds, false> {
 public:
  __device__ __forceinline__ NormingBlock(const NormingCall& call,
                                          int block,
                                          const BlockOfRounds& team)
      : Base(call.exchange, block, team), rows_(call.norm), norm_(call.norm) {}

  __device__ __forceinline__ void run() {
    const BlockState before = this->call_.states[this->block_];
    this->round_ = before.round;
    needed_ = before.unheard & this->call_.push_to;
    bool alive = true;
    int odd = 0;
    for (int row = this->block_; alive && row < rows_.row_count; row += gridDim.x) {
      alive = exchange_row(row);
      if (alive) {
        norm_.finish(row * rows_.row_bytes, odd, this->own_[0], weight_);
      }
      odd ^= 1;
    }
    if (threadIdx.x == 0) {
      this->call_.states[this->block_] = {.round = alive ? this->round_ : kGivenUp};
    }
  }

 private:
  using Base = SmallBlock<UnitReducer<T, ReduceOp::kSum>, SmallCall, BlockOfRounds, false>;

  // A round for each step. All warps end one before any begins the next: until then a slot may
  // still be read. False when the block has to leave.
  __device__ __forceinline__ bool exchange_row(int row) {
    const int steps = norm_.steps();
    const bool is_last_row = row + static_cast<int>(gridDim.x) >= rows_.row_count;
    for (int step = 0; step < steps; ++step) {
      const std::int64_t unit = norm_.unit_of(step);
      const bool has_packet = norm_.has(unit - this->lane_ * 16);
      this->whole_ = norm_.has(unit);
      this->at_ = static_cast<int>(row * rows_.row_bytes + unit);
      Unit residual{};
      if (has_packet) {
        this->load_inputs();
      }
      if (this->whole_) {
        residual = norm_.residual_at(this->at_);
        weight_ = norm_.weight_at(unit);
      }
      // Behind the loads: it is the first that waits for the block's state.
      if (this->round_ == kGivenUp) {
        return false;
      }
      ++this->round_;
      const bool has_come = !has_packet || this->exchange(needed_);
      // A warp without a packet knows of no other rank that it has begun.
      if (is_last_row && step + 1 == steps && has_packet && has_come) {
        sennit::let_next_begin();
      }
      if (has_come && this->whole_) {
        this->own_[0] = norm_.add(this->at_, this->own_[0], residual);
      }
      needed_ = 0;  // in each round all ranks get packets from all
      if (!this->team_.all(has_come)) {
        return false;
      }
    }
    return true;
  }

  const RowNormCall& rows_;
  RowNorm<T> norm_;
  Unit weight_{};
  std::uint32_t needed_ = 0;  // see await_free()
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    norming_kernel(const __grid_constant__ NormingCall call) {
  await_stream();
  const BlockOfRounds team;
  NormingBlock<T>(call, static_cast<int>(blockIdx.x), team).run();
}

}  // namespace sennit::sm
