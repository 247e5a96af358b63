// BulkCopy: one thread moves a block's part of a message by bulk copies through shared memory
// (cp.async.bulk). Loads and stores overlap, so that a few SMs keep the wire full.
// docs/decisions/0047-few-blocks-put.md has the figures.
//
// The async proxy does all of it: it writes a stage and reads it again, and nobody else touches
// shared memory of stages. What orders it with the rest:
//
//   before   fence.proxy.async behind await_stream(): what earlier kernels wrote of the input (the
//            generic proxy) comes before these loads, and the barriers of the stages are seen
//   a stage  its barrier completes when its bytes have come; a load takes its place again once the
//            store has read it (wait_group.read)
//   after    wait_group 0 without .read: the stores are done and visible to this thread. It alone
//            then releases the word that says so, so the word comes after them for who acquires it
#pragma once

#include "exec/unit.cuh"
#include "memory/bulk_stages.hpp"
#include "memory/message_put.hpp"

namespace sennit::sm {

// Devices before sm_90 have none. Their kernels are launched without stages and store by threads.
inline constexpr bool kHasBulkCopies =
#if __CUDA_ARCH__ >= 900
    true;
#else
    false;
#endif

// A thread waits for its own stores.
template <int kPending>
__device__ __forceinline__ void await_reads_of_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

class BulkCopy {
 public:
  // Of elements of 16 bytes; `blocks` blocks take slices of kBulkBytes in turn.
  __device__ BulkCopy(const std::byte* from, const Cut<Unit>& cut, int block, int blocks)
      : from_(from + cut.head),
        head_(cut.head),
        bytes_(cut.elements * static_cast<std::int64_t>(sizeof(Unit))),
        begin_(static_cast<std::int64_t>(block) * kBulkBytes),
        stride_(static_cast<std::int64_t>(blocks) * kBulkBytes),
        load_at_(begin_) {}

  // What does not depend on where the message goes: the first loads.
  __device__ __forceinline__ void begin() {
    for (int stage = 0; stage < kBulkStages; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier(stage)) : "memory");
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    for (int i = 0; i < kBulkLoads; ++i) {
      load_next();
    }
  }

  // All of it to `to`, where the message begins.
  __device__ __forceinline__ void store_all(std::byte* to) {
    to += head_;
    int stage = 0;
    std::uint32_t parity = 0;
#pragma unroll 1
    for (std::int64_t at = begin_; at < bytes_; at += stride_) {
      await_load(stage, parity);
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at),
                   "r"(stage_at(stage)),
                   "r"(length(at))
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      // The stage that is loaded next was stored so many groups ago.
      await_reads_of_stores<kBulkStages - kBulkLoads>();
      load_next();
      advance(stage, parity);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    end();
  }

  // Nothing is stored: the loads are waited for, since they write shared memory.
  __device__ __forceinline__ void drop() {
    int stage = 0;
    std::uint32_t parity = 0;
    for (std::int64_t at = begin_; at < load_at_ && at < bytes_; at += stride_) {
      await_load(stage, parity);
      advance(stage, parity);
    }
    end();
  }

 private:
  // The driver places what is dynamic behind what is static.
  static __device__ __forceinline__ std::uint32_t stages() {
    extern __shared__ uint4 dynamic_memory[];
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_memory));
  }
  static __device__ __forceinline__ std::uint32_t stage_at(int stage) {
    return stages() + static_cast<std::uint32_t>(stage * kBulkBytes);
  }
  static __device__ __forceinline__ std::uint32_t barrier(int stage) {
    return stages() + static_cast<std::uint32_t>(kBulkStages * kBulkBytes + 8 * stage);
  }
  static __device__ __forceinline__ void advance(int& stage, std::uint32_t& parity) {
    if (++stage == kBulkStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  __device__ __forceinline__ std::uint32_t length(std::int64_t at) const {
    const std::int64_t left = bytes_ - at;
    return static_cast<std::uint32_t>(left < kBulkBytes ? left : kBulkBytes);
  }

  __device__ __forceinline__ void load_next() {
    if (load_at_ < bytes_) {
      const std::uint32_t bytes = length(load_at_);
      asm volatile(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier(load_stage_)),
          "r"(bytes)
          : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(stage_at(load_stage_)),
          "l"(from_ + load_at_),
          "r"(bytes),
          "r"(barrier(load_stage_))
          : "memory");
      load_at_ += stride_;
      load_stage_ = load_stage_ + 1 == kBulkStages ? 0 : load_stage_ + 1;
    }
  }

  // A load of this device's own memory, which no peer can hold up.
  static __device__ __forceinline__ void await_load(int stage, std::uint32_t parity) {
    std::uint32_t is_here = 0;
    while (is_here == 0) {
      asm volatile(
          "{\n"
          ".reg .pred here;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 here, [%1], %2;\n"
          "selp.u32 %0, 1, 0, here;\n"
          "}\n"
          : "=r"(is_here)
          : "r"(barrier(stage)), "r"(parity)
          : "memory");
    }
  }

  // The next message of this block begins with barriers of its own.
  static __device__ __forceinline__ void end() {
    for (int stage = 0; stage < kBulkStages; ++stage) {
      asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier(stage)) : "memory");
    }
  }

  const std::byte* from_;
  std::int64_t head_;
  std::int64_t bytes_;
  std::int64_t begin_;
  std::int64_t stride_;
  std::int64_t load_at_;
  int load_stage_ = 0;
};

}  // namespace sennit::sm
