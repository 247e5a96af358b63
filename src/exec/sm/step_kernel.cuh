// The kernel of exec/sm/step_call.hpp: each block runs the lane of its rank, step after step and
// tile after tile.
#pragma once

#include "exec/early_launch.cuh"
#include "exec/sm/step_call.hpp"
#include "exec/sm/warp.cuh"
#include "exec/unit_reducer.cuh"

namespace sennit::sm {

// A block, in one call.
struct StepBlock {
  const StepCall& call;
  int block;
  std::uint64_t number;  // of the call, from 1

  __device__ StepBlock(const StepCall& c, int index)
      : call(c), block(index), number(c.calls[index] + 1) {}

  __device__ static std::uint64_t* word(std::byte* staging, std::size_t index) {
    return reinterpret_cast<std::uint64_t*>(staging) + index;
  }

  // Waits until each of the first `count` lanes of the first warp finds that its word `is_there`,
  // which says of which rank it is. False, for all threads, when the kernel has to leave.
  template <typename Look>
  __device__ bool await(int count, int peer, Look is_there) const {
    bool alive = true;
    if (threadIdx.x < 32) {
      std::uint64_t since = 0;
      for (int spins = 1; alive; ++spins) {
        const bool here = static_cast<int>(threadIdx.x) >= count || is_there();
        const std::uint32_t missing = __ballot_sync(~0u, !here);
        if (missing == 0) {
          break;
        }
        if (spins % kPatience == 0) {
          const int of = __shfl_sync(~0u, peer, __ffs(missing) - 1);
          since = look_up(call.error_word, call.deadline_ns, since, {of, block, number});
          alive = since != 0;
        }
      }
    }
    return __syncthreads_and(alive) != 0;
  }

  // Nobody writes into a staging buffer before its reader's stream has come to this call, and so
  // has consumed all that the calls before have left there.
  __device__ bool begin() const {
    const int peer = static_cast<int>(threadIdx.x);
    const std::size_t begun = staging_word_at(StagingWord::kBegun, block);
    const std::uint64_t value = begun_word(number, call.fingerprint);
    if (peer < call.program.ranks && has(call.program.hears_from, peer)) {
      // Partner: the acquire below, in the same block of that rank.
      store_release_system(word(call.outbox[peer], begun), value);
    }
    return await(call.program.ranks, peer, [&] {
      return !has(call.program.sends_to, peer) ||
             load_acquire_system(word(call.inbox[peer], begun)) == value;
    });
  }

  // Until all messages of a step are there, and slots for those that it sends. No thread goes on
  // before all have come.
  __device__ bool await_ports(const CodedStep& step, std::int64_t turn) const {
    const int index = static_cast<int>(threadIdx.x);
    const int count = step.ins + step.outs;
    if (count == 0) {
      __syncthreads();
      return true;
    }
    const Port port = call.program.ports[step.first_port + (index < count ? index : 0)];
    const bool arrives = index < step.ins;
    const std::int64_t needed = count_of(port, turn) - (arrives ? 0 : call.program.slots);
    const std::size_t at =
        staging_word_at(arrives ? StagingWord::kFull : StagingWord::kFreed, block, port.channel);
    return await(count, port.peer, [&] {
      // Partner: the release of tell_ports.
      return needed <= 0 ||
             load_acquire_system(word(call.inbox[port.peer], at)) >= count_word(number, needed);
    });
  }

  // All that the block has done comes before.
  __device__ void tell_ports(const CodedStep& step, std::int64_t turn) const {
    __syncthreads();
    const int index = static_cast<int>(threadIdx.x);
    if (index < step.ins + step.outs) {
      const Port port = call.program.ports[step.first_port + index];
      const StagingWord kind = index < step.ins ? StagingWord::kFreed : StagingWord::kFull;
      // Partner: the acquire of await_ports, in the same block of that rank.
      store_release_system(word(call.outbox[port.peer], staging_word_at(kind, block, port.channel)),
                           count_word(number, count_of(port, turn)));
    }
  }

  __device__ std::byte* address_of(const CodedStep& step, int index, std::int64_t turn) const {
    const int part = index / (step.operands + step.targets);
    const Place place = call.program.places[step.first_place + index];
    const std::int64_t tile = block + turn * call.blocks;
    const std::int64_t in_buffer = block_begin(call, place.index) + tile * call.tile_bytes;
    switch (place.kind) {
      case PlaceKind::kInput:
        return const_cast<std::byte*>(call.input) + in_buffer;
      case PlaceKind::kOutput:
        return call.output + in_buffer;
      case PlaceKind::kScratch:
        return call.scratch + block * call.scratch_stride + place.index * call.tile_bytes;
      case PlaceKind::kMessage:
        break;
    }
    const Port port = call.program.ports[step.first_port + place.index];
    std::byte* const staging = (place.index < step.ins ? call.inbox : call.outbox)[port.peer];
    return staging + slot_at(call, port, block, count_of(port, turn)) + part * call.tile_bytes;
  }
};

// The units of a part that are this thread's at one time.
template <int kUnits>
struct UnitBatch {
  static constexpr std::int64_t kBytes = std::int64_t{kThreads} * 16 * kUnits;

  std::int64_t begin;  // of the first, in bytes
  std::int64_t bytes;  // of the part
  bool is_whole;       // no unit of any thread reaches beyond

  __device__ UnitBatch(std::int64_t base, std::int64_t part_bytes)
      : begin(base + static_cast<std::int64_t>(threadIdx.x) * 16),
        bytes(part_bytes),
        is_whole(base + kBytes <= part_bytes) {}

  __device__ bool is_fast(const std::byte* part) const {
    return is_whole && (reinterpret_cast<std::uintptr_t>(part) & 15) == 0;
  }
  __device__ std::int64_t at(int unit) const { return begin + std::int64_t{unit} * kThreads * 16; }

  __device__ __forceinline__ void load(const std::byte* part, Unit (&units)[kUnits]) const {
    if (is_fast(part)) {
#pragma unroll
      for (int j = 0; j < kUnits; ++j) {
        units[j] = *reinterpret_cast<const Unit*>(part + at(j));
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kUnits; ++j) {
      units[j] = at(j) < bytes ? read_unit(part + at(j), bytes - at(j)) : Unit{};
    }
  }

  __device__ __forceinline__ void store(std::byte* part, const Unit (&units)[kUnits]) const {
    if (is_fast(part)) {
#pragma unroll
      for (int j = 0; j < kUnits; ++j) {
        *reinterpret_cast<Unit*>(part + at(j)) = units[j];
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kUnits; ++j) {
      if (at(j) < bytes) {
        write_unit(part + at(j), bytes - at(j), units[j]);
      }
    }
  }
};

// Divides the finished sum of avg; of another it is 1.
struct Finish {
  int ranks;
};

// What the operands of a part are reduced to, in their order.
template <class R, int kUnits>
__device__ __forceinline__ void reduce_part(const StepCall& call,
                                            const CodedStep& step,
                                            const Place* operands,
                                            std::byte* const* at,
                                            const UnitBatch<kUnits>& batch,
                                            Unit (&units)[kUnits]) {
  typename R::Accumulator sums[kUnits];
#pragma unroll 1
  for (int o = 0; o < step.operands; ++o) {
    batch.load(at[o], units);
    if (step.pre && operands[o].kind == PlaceKind::kInput) {
      R::prepare(units, call);
    }
#pragma unroll
    for (int j = 0; j < kUnits; ++j) {
      if (o == 0) {
        R::begin(sums[j], units[j]);
      } else {
        R::add(sums[j], units[j]);
      }
    }
  }
  const Finish finish{step.post ? call.program.ranks : 1};
#pragma unroll
  for (int j = 0; j < kUnits; ++j) {
    units[j] = R::finish(sums[j], finish);
  }
}

template <class R>
__device__ __forceinline__ void run_part(const StepCall& call,
                                         const CodedStep& step,
                                         const Place* operands,
                                         std::byte* const* at,
                                         std::int64_t bytes) {
  // Enough loads in flight, and few enough sums to hold them in registers.
  constexpr int kUnits = R::kReduces ? 2 : 4;
#pragma unroll 1
  for (std::int64_t base = 0; base < bytes; base += UnitBatch<kUnits>::kBytes) {
    const UnitBatch<kUnits> batch(base, bytes);
    Unit units[kUnits];
    if constexpr (R::kReduces) {
      if (step.operands > 1 || step.pre || step.post) {
        reduce_part<R>(call, step, operands, at, batch, units);
      } else {
        batch.load(at[0], units);
      }
    } else {
      batch.load(at[0], units);
    }
#pragma unroll 1
    for (int t = 0; t < step.targets; ++t) {
      batch.store(at[step.operands + t], units);
    }
  }
}

// False when the kernel has to leave. `at` is the block's own shared memory.
template <class R>
__device__ __forceinline__ bool run_step(const StepBlock& self,
                                         const CodedStep& step,
                                         std::int64_t turn,
                                         std::byte** at) {
  const StepCall& call = self.call;
  const int places = step.operands + step.targets;
  for (int i = static_cast<int>(threadIdx.x); i < step.parts * places; i += kThreads) {
    at[i] = self.address_of(step, i, turn);
  }
  if (!self.await_ports(step, turn)) {
    return false;
  }
  const std::int64_t tile = self.block + turn * call.blocks;
#pragma unroll 1
  for (int part = 0; part < step.parts; ++part) {
    run_part<R>(call,
                step,
                &call.program.places[step.first_place + part * places],
                at + part * places,
                tile_length(call, call.program.blocks[step.first_part + part], tile));
  }
  self.tell_ports(step, turn);
  return true;
}

// R: UnitReducer, or NoReduction.
template <class R>
__global__ void __launch_bounds__(kThreads, 1) step_kernel(const __grid_constant__ StepCall call) {
  __shared__ std::byte* at[kMostStepPlaces];
  await_stream();
  const StepBlock self(call, static_cast<int>(blockIdx.x));
  if (!self.begin()) {
    return;
  }
#pragma unroll 1
  for (std::int64_t turn = 0; self.block + turn * call.blocks < call.tiles; ++turn) {
#pragma unroll 1
    for (int i = 0; i < call.program.step_count; ++i) {
      if (!run_step<R>(self, call.program.steps[i], turn, at)) {
        return;
      }
    }
  }
  if (threadIdx.x == 0) {
    call.calls[self.block] = self.number;
  }
}

}  // namespace sennit::sm
