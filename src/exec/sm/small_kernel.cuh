// The kernel of small calls (exec/sm/small_call.hpp).
#pragma once

#include "exec/early_launch.cuh"
#include "exec/sm/small_call.hpp"
#include "exec/sm/warp.cuh"
#include "exec/unit_reducer.cuh"

namespace sennit::sm {

// The warps that run a block of a call: those of a thread block.
struct WholeBlock {
  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ bool all(bool is_so) const {
    return __syncthreads_and(is_so ? 1 : 0) != 0;
  }
  __device__ __forceinline__ void let_next_begin() const { sennit::let_next_begin(); }
};

// Some of them, beside others that run other blocks and may have ended.
class PartOfBlock {
 public:
  __device__ __forceinline__ explicit PartOfBlock(int warps)
      : threads_(warps * 32),
        part_(static_cast<int>(threadIdx.x) / threads_),
        thread_(static_cast<int>(threadIdx.x) - part_ * threads_) {}

  __device__ __forceinline__ int part() const { return part_; }
  __device__ __forceinline__ int thread() const { return thread_; }
  __device__ __forceinline__ bool all(bool is_so) const {
    if (threads_ == 32) {
      __syncwarp();
      return __all_sync(~0u, is_so) != 0;
    }
    int all;
    asm volatile(
        "{\n\t"
        ".reg .pred mine, all;\n\t"
        "setp.ne.s32 mine, %1, 0;\n\t"
        "barrier.cta.red.and.pred all, %2, %3, mine;\n\t"
        "selp.s32 %0, 1, 0, all;\n\t"
        "}"
        : "=r"(all)
        : "r"(is_so ? 1 : 0), "r"(part_), "r"(threads_)
        : "memory");
    return all != 0;
  }
  // Said by a thread, it is said for the block, whose other parts may wait for what has not begun.
  __device__ __forceinline__ void let_next_begin() const {}

 private:
  const int threads_;
  const int part_;
  const int thread_;
};

// kApart: a block is no multiple of 16 bytes, or begins on no boundary of 16. Other calls do not
// even ask.
template <class R, class Call, class Team, bool kApart>
class SmallBlock {
 public:
  __device__ __forceinline__ SmallBlock(const Call& call, int block, const Team& team)
      : call_(call),
        team_(team),
        block_(block),
        lane_(team.thread() & 31),
        warp_(team.thread() >> 5),
        at_(((block * call.warps + warp_) * 32 + lane_) * 16),
        whole_(at_ + 16 <= call.length) {}

  __device__ __forceinline__ void run() {
    // The direct kernel, which may be at the other end, has no packets of nothing either.
    const bool has_packet = warp_ < call_.warps && at_ - lane_ * 16 < call_.length;
    const BlockState before = call_.states[block_];
    if (has_packet) {
      load_inputs();
    }
    if (before.round == kGivenUp) {
      return;
    }
    round_ = before.round + 1;
    const std::uint32_t needed = before.unheard & call_.push_to;
    bool may_write = true;
    if (call_.on_host) {
      // Reads of one line over PCIe come one after the other, so one warp waits for all.
      tell();
      may_write = team_.all(warp_ != 0 || await_free(needed));
    }
    const bool has_come = may_write && (!has_packet || exchange(needed));
    if constexpr (R::kReduces) {
      if (has_packet && has_come && call_.arrivals > 0) {
        write(call_.own_to, own_[0]);
      }
    }
    // All warps have read the state. Who had to leave runs no more: peers would take what it sends
    // next for good.
    const bool alive = team_.all(has_come);
    if (team_.thread() == 0) {
      call_.states[block_] = {.round = alive ? before.round + 1 : kGivenUp,
                              .unheard = call_.unheard};
    }
  }

 protected:
  // Packets that a warp loads or awaits at once: all those of 4 ranks.
  static constexpr int kAtOnce = Call::kMostRanks < 4 ? Call::kMostRanks : 4;

  // Before the first answer is waited for, which is the block's state.
  __device__ __forceinline__ void load_inputs() {
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b < call_.pushes) {
        out_[b][0] = read(call_.push[b].from);
      }
    }
    if (call_.own_from != nullptr) {
      own_[0] = read(call_.own_from);
    }
  }

  // False when the warp has to leave. The sum of a reduction is in own_[0] then.
  __device__ __forceinline__ bool exchange(std::uint32_t needed) {
    flag_ = flag_of(round_, call_.fingerprint);
    slot_ = static_cast<std::uint32_t>(round_ & 1) * call_.generation_bytes +
            static_cast<std::uint32_t>(block_) * call_.block_bytes +
            static_cast<std::uint32_t>(warp_) * static_cast<std::uint32_t>(kPacketBytes);
    if (!call_.on_host) {
      tell();
      if (!await_free(needed)) {
        return false;
      }
    }
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b < call_.pushes) {
        R::prepare(out_[b], call_);
        Ll::store(call_.push[b].slot + slot_, lane_, out_[b], flag_);
      }
    }
#pragma unroll 1
    for (int i = kAtOnce; i < call_.pushes; ++i) {
      Unit unit[1] = {read(call_.push[i].from)};
      R::prepare(unit, call_);
      Ll::store(call_.push[i].slot + slot_, lane_, unit, flag_);
    }
    if constexpr (R::kReduces) {
      R::prepare(own_, call_);
      return reduce();
    } else {
      if (call_.own_from != nullptr) {
        write(call_.own_to, own_[0]);
      }
      return store();
    }
  }

  // Says that the reads of earlier rounds are over. Those were made by earlier kernels, which have
  // ended, so no release is needed, whose fence takes half a microsecond. Partner: await_free, of
  // any kernel.
  __device__ __forceinline__ void tell() const {
    if (const int i = team_.thread(); i < call_.tells) {
      store_relaxed_system(call_.tell[i] + block_ * kWordsOfLine, round_);
    }
  }

  // The lane's unit of the block at `block`.
  __device__ __forceinline__ Unit read(const std::byte* block) const {
    const std::byte* const from = block + at_;
    if constexpr (kApart) {
      const std::int64_t left = call_.length - at_;
      if (left > 0 && !is_whole(from, left)) {
        return is_of_words(from, left) ? read_words(from, left) : read_apart(from, left);
      }
    }
    return whole_ ? *reinterpret_cast<const Unit*>(from) : Unit{};
  }
  __device__ __forceinline__ void write(std::byte* block, const Unit& unit) const {
    std::byte* const to = block + at_;
    if constexpr (kApart) {
      const std::int64_t left = call_.length - at_;
      if (left > 0 && !is_whole(to, left)) {
        if (is_of_words(to, left)) {
          write_words(to, left, unit);
        } else {
          write_apart(to, left, unit);
        }
        return;
      }
    }
    if (whole_) {
      *reinterpret_cast<Unit*>(to) = unit;
    }
  }

  // See await_free of the direct kernel.
  __device__ __forceinline__ bool await_free(std::uint32_t needed) {
    since_ = 0;
    int spins = 0;
    while (needed != 0 && round_ >= 2) {
      const bool free =
          !has(needed, lane_) ||
          load_acquire_system(call_.told + block_ * kWordsOfLine + lane_) >= round_ - 1;
      const std::uint32_t missing = __ballot_sync(~0u, !free);
      if (missing == 0) {
        return true;
      }
      if (++spins % kPatience == 0 && !may_go_on(__ffs(missing) - 1)) {
        return false;
      }
    }
    return true;
  }

  __device__ __forceinline__ bool may_go_on(int peer) {
    const int told = Call::kIsPair ? call_.peer : peer;
    since_ = look_up(call_.error_word, call_.deadline_ns, since_, {told, block_, round_});
    return since_ != 0;
  }

  // Waits for arrivals begin, begin + 1, ...: as many as there are, at most a batch.
  __device__ __forceinline__ bool await(int begin, Ll::Raw (&raw)[kAtOnce]) {
    since_ = 0;
    int spins = 0;
    for (;;) {
      bool here = true;
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const std::byte* const from = slot_of(begin + b);
        if (from != nullptr) {
          raw[b] = Ll::load(from + slot_, lane_);
        }
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        here = here && (slot_of(begin + b) == nullptr || Ll::is_here(raw[b], lane_, flag_));
      }
      if (__all_sync(~0u, here)) {
        if (begin + kAtOnce >= call_.arrivals) {
          team_.let_next_begin();
        }
        return true;
      }
      if (++spins % kPatience == 0 && !may_go_on(call_.arrival[begin].rank)) {
        return false;
      }
    }
  }
  __device__ __forceinline__ const std::byte* slot_of(int i) const {
    return i < call_.arrivals ? call_.arrival[i].slot : nullptr;
  }

  __device__ __forceinline__ bool store() {
#pragma unroll 1
    for (int begin = 0; begin < call_.arrivals; begin += kAtOnce) {
      Ll::Raw raw[kAtOnce];
      if (!await(begin, raw)) {
        return false;
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if (begin + b < call_.arrivals) {
          Unit unit[1];
          Ll::units(raw[b], lane_, unit);
          write(call_.arrival[begin + b].to, unit[0]);
        }
      }
    }
    return true;
  }

  __device__ __forceinline__ bool reduce() {
    typename R::Accumulator sum;
#pragma unroll 1
    for (int begin = 0; begin < call_.arrivals; begin += kAtOnce) {
      Ll::Raw raw[kAtOnce];
      if (!await(begin, raw)) {
        return false;
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if (begin + b >= call_.arrivals) {
          continue;
        }
        Unit unit[1] = {own_[0]};
        if (slot_of(begin + b) != nullptr) {
          Ll::units(raw[b], lane_, unit);
        }
        if (begin + b == 0) {
          R::begin(sum, unit[0]);
        } else {
          R::add(sum, unit[0]);
        }
      }
    }
    own_[0] = R::finish(sum, call_);
    return true;
  }

  const Call& call_;
  const Team& team_;
  const int block_;
  const int lane_;
  const int warp_;
  int at_;      // of the lane's unit in every block
  bool whole_;  // all 16 bytes of it are the user's
  // Of the lane, as they were loaded: the first of what it sends, and its own contribution.
  Unit out_[kAtOnce][1] = {};
  Unit own_[1] = {};
  std::uint64_t round_ = 0;
  Flag flag_;
  std::uint32_t slot_ = 0;
  std::uint64_t since_ = 0;
};

template <class R, class Call, class Team>
__device__ __forceinline__ void run_small_block(const Call& call, int block, const Team& team) {
  if (call.is_apart) {
    SmallBlock<R, Call, Team, true>(call, block, team).run();
  } else {
    SmallBlock<R, Call, Team, false>(call, block, team).run();
  }
}

template <class R>
__global__ void __launch_bounds__(kThreads) small_kernel(const __grid_constant__ SmallCall call) {
  await_stream();
  run_small_block<R>(call, static_cast<int>(blockIdx.x), WholeBlock());
}

// Behind the last message there are calls of no length, or none.
template <class Pairs, class Team>
__device__ __forceinline__ void run_small_pair(const Pairs& pairs, int index, const Team& team) {
  const int at = index / pairs.blocks;
  const int block = index % pairs.blocks;
  if (at >= static_cast<int>(pairs.calls.size())) {
    return;
  }
  const SmallPair& call = pairs.calls[at];
  if (block * call.warps * static_cast<int>(payload_bytes(Packets::kLl)) < call.length) {
    run_small_block<NoReduction>(call, block, team);
  }
}

// A template, so that each file that asks for it has it, as with small_kernel.
template <class Pairs>
__global__ void __launch_bounds__(kThreads)
    small_pairs_kernel(const __grid_constant__ Pairs pairs) {
  await_stream();
  run_small_pair(pairs, static_cast<int>(blockIdx.x), WholeBlock());
}

// Apart from it, since a block with a barrier for each part begins later.
template <class Pairs>
__global__ void __launch_bounds__(kThreads)
    small_pairs_in_parts_kernel(const __grid_constant__ Pairs pairs) {
  await_stream();
  const PartOfBlock part(pairs.warps);
  run_small_pair(pairs, static_cast<int>(blockIdx.x) * pairs.parts + part.part(), part);
}

}  // namespace sennit::sm
