// The kernels of exec/coded/codec_call.hpp: as blocks of a codec are short and odd in length, a
// thread block moves whole tiles between memory and shared memory, where each thread codes its own.
#pragma once

#include "codec/schemes.hpp"
#include "exec/coded/codec_call.hpp"
#include "exec/early_launch.cuh"
#include "exec/unit.cuh"

namespace sennit::coded {

// Whose decoder looks up bit planes, here in shared memory.
template <class Block>
concept kTakesTable = requires(typename Block::Element (&block)[Block::kValues],
                               const unsigned char* bytes) { Block::decode(bytes, block, bytes); };

// What a thread block codes at once: groups, each a block of every stream, so many a thread that it
// has 64 bytes under way.
template <class Block, int kStreams>
class Tile {
 public:
  using Number = typename Block::Element;
  static constexpr int kNumbers = Block::kValues * kStreams;  // of a group
  static constexpr int kThreads = kCodecThreads;

  // Of a part: how many tiles it has, and how many bytes of values a tile has at most.
  __device__ static std::int64_t count(std::int64_t numbers) {
    return (numbers + kTileNumbers - 1) / kTileNumbers;
  }

  // Tile `index` of `part`, whose elements are `numbers` in all.
  __device__ Tile(const CodecCall::Part& part, std::int64_t numbers, std::int64_t index)
      : part_(part), left_(numbers - index * kTileNumbers), index_(index) {}

  __device__ void encode() {
    load_values(part_.from + index_ * kValueBytes);
    __syncthreads();
#pragma unroll 1
    for (int group = threadIdx.x; group < kGroups; group += kThreads) {
      const int length = numbers_of(group);
#pragma unroll
      for (int stream = 0; stream < kStreams && length > 0; ++stream) {
        Number block[Block::kValues];
#pragma unroll
        for (int i = 0; i < Block::kValues; ++i) {
          block[i] = values_of(group)[i * kStreams + stream];
        }
        if (length < kNumbers) {
          Block::pad(block, length / kStreams);
        }
        alignas(16) unsigned char bytes[Block::kBytes];
        Block::encode(block, bytes);
        copy_words(bytes, coded_of(group, stream));
      }
    }
    __syncthreads();
    auto* const to = reinterpret_cast<Unit*>(part_.to + index_ * kCodedBytes);
    for (int unit = threadIdx.x; unit < coded_units(); unit += kThreads) {
      to[unit] = reinterpret_cast<const Unit*>(coded())[unit];
    }
  }

  __device__ void decode(const unsigned char* table) {
    const auto* const from = reinterpret_cast<const Unit*>(part_.from + index_ * kCodedBytes);
    for (int unit = threadIdx.x; unit < coded_units(); unit += kThreads) {
      reinterpret_cast<Unit*>(coded())[unit] = from[unit];
    }
    __syncthreads();
#pragma unroll 1
    for (int group = threadIdx.x; group < kGroups; group += kThreads) {
#pragma unroll
      for (int stream = 0; stream < kStreams && numbers_of(group) > 0; ++stream) {
        alignas(16) unsigned char bytes[Block::kBytes];
        copy_words(coded_of(group, stream), bytes);
        Number block[Block::kValues];
        decode_block(bytes, block, table);
#pragma unroll
        for (int i = 0; i < Block::kValues; ++i) {
          values_of(group)[i * kStreams + stream] = block[i];
        }
      }
    }
    __syncthreads();
    store_values(part_.to + index_ * kValueBytes);
  }

 private:
  static constexpr int kGroupBytes = kNumbers * static_cast<int>(sizeof(Number));
  // Threads read their groups 16 bytes at a time: with a gap between groups from different banks.
  static constexpr int kPitch = kGroupBytes + (kGroupBytes > 16 ? 16 : 0);
  static constexpr int kGroupUnits = kGroupBytes / 16;
  static constexpr int kGroups = kThreads * (kGroupBytes < 64 ? 64 / kGroupBytes : 1);
  static constexpr int kUnits = kGroupUnits * kGroups / kThreads;  // of values, a thread
  static constexpr std::int64_t kTileNumbers = std::int64_t{kNumbers} * kGroups;
  static constexpr std::int64_t kValueBytes = std::int64_t{kGroupBytes} * kGroups;
  static constexpr int kGroupCoded = Block::kBytes * kStreams;
  static constexpr std::int64_t kCodedBytes = std::int64_t{kGroupCoded} * kGroups;
  static_assert(kGroupBytes % 16 == 0 && kCodedBytes % kCodedAlignBytes == 0);
  // What coded blocks are copied by: their length says where they lie.
  using Word = std::conditional_t<
      Block::kBytes % 4 == 0,
      std::uint32_t,
      std::conditional_t<Block::kBytes % 2 == 0, std::uint16_t, unsigned char>>;
  static constexpr int kWords = Block::kBytes / static_cast<int>(sizeof(Word));

  __device__ static std::byte* values() {
    __shared__ alignas(16) std::byte memory[static_cast<std::size_t>(kPitch) * kGroups];
    return memory;
  }
  __device__ static unsigned char* coded() {
    __shared__ alignas(16) unsigned char memory[kCodedBytes];
    return memory;
  }
  __device__ static Number* values_of(int group) {
    return reinterpret_cast<Number*>(values() + group * kPitch);
  }
  __device__ static unsigned char* coded_of(int group, int stream) {
    return coded() + group * kGroupCoded + stream * Block::kBytes;
  }
  // Where unit `unit` of the tile's values lies.
  __device__ static Unit* place_of(int unit) {
    return reinterpret_cast<Unit*>(values() + unit / kGroupUnits * kPitch) + unit % kGroupUnits;
  }
  __device__ static void copy_words(const unsigned char* from, unsigned char* to) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
    }
  }
  __device__ static void decode_block(const unsigned char* bytes,
                                      Number (&block)[Block::kValues],
                                      const unsigned char* table) {
    if constexpr (kTakesTable<Block>) {
      Block::decode(bytes, block, table);
    } else {
      Block::decode(bytes, block);
    }
  }

  // Not positive: the part ends before the group.
  __device__ int numbers_of(int group) const {
    const std::int64_t left = left_ - static_cast<std::int64_t>(group) * kNumbers;
    return static_cast<int>(left < kNumbers ? left : kNumbers);
  }
  __device__ std::int64_t value_bytes() const {
    const auto bytes = left_ * static_cast<std::int64_t>(sizeof(Number));
    return bytes < kValueBytes ? bytes : kValueBytes;
  }
  __device__ int coded_units() const {
    const std::int64_t groups = (left_ + kNumbers - 1) / kNumbers;
    const std::int64_t bytes = (groups < kGroups ? groups : kGroups) * kGroupCoded;
    return static_cast<int>((bytes + sizeof(Unit) - 1) / sizeof(Unit));
  }
  __device__ bool is_whole_at(const std::byte* memory) const {
    return left_ >= kTileNumbers && reinterpret_cast<std::uintptr_t>(memory) % sizeof(Unit) == 0;
  }

  __device__ void load_values(const std::byte* from) const {
    if (is_whole_at(from)) {
      Unit held[kUnits];
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        held[i] = reinterpret_cast<const Unit*>(from)[i * kThreads + threadIdx.x];
      }
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        *place_of(i * kThreads + threadIdx.x) = held[i];
      }
      return;
    }
    const std::int64_t bytes = value_bytes();
    for (int unit = threadIdx.x; unit * std::int64_t{16} < bytes; unit += kThreads) {
      *place_of(unit) = read_unit(from + unit * std::int64_t{16}, bytes - unit * std::int64_t{16});
    }
  }
  __device__ void store_values(std::byte* to) const {
    if (is_whole_at(to)) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        reinterpret_cast<Unit*>(to)[i * kThreads + threadIdx.x] =
            *place_of(i * kThreads + threadIdx.x);
      }
      return;
    }
    const std::int64_t bytes = value_bytes();
    for (int unit = threadIdx.x; unit * std::int64_t{16} < bytes; unit += kThreads) {
      write_unit(to + unit * std::int64_t{16}, bytes - unit * std::int64_t{16}, *place_of(unit));
    }
  }

  const CodecCall::Part& part_;
  std::int64_t left_;  // numbers from the tile's first on
  std::int64_t index_;
};

// Calls `code` with each tile of this thread block. Each part begins with the block behind those
// that have begun the one before, so that short ones run at once.
template <class TileOf, class Code>
__device__ void for_tiles(const CodecCall& call, Code code) {
  std::int64_t begun = 0;
  for (int i = 0; i < call.part_count; ++i) {
    const CodecCall::Part& part = call.parts[i];
    const std::int64_t numbers = part.count * call.numbers;
    const std::int64_t tiles = TileOf::count(numbers);
    for (std::int64_t tile = (blockIdx.x + gridDim.x - begun % gridDim.x) % gridDim.x; tile < tiles;
         tile += gridDim.x) {
      code(TileOf(part, numbers, tile));
    }
    begun += tiles;
  }
}

template <class Block, int kStreams>
__global__ void __launch_bounds__(kCodecThreads)
    encode_parts(const __grid_constant__ CodecCall call) {
  await_stream();
  for_tiles<Tile<Block, kStreams>>(call, [](Tile<Block, kStreams> tile) { tile.encode(); });
}

static __device__ const codec::PlaneTable kTableInMemory = codec::kPlaneTable;

template <class Block, int kStreams>
__global__ void __launch_bounds__(kCodecThreads)
    decode_parts(const __grid_constant__ CodecCall call) {
  const unsigned char* table = nullptr;
  if constexpr (kTakesTable<Block>) {
    __shared__ codec::PlaneTable shared_table;
    if (threadIdx.x < sizeof(shared_table.entries)) {
      shared_table.entries[threadIdx.x] = kTableInMemory.entries[threadIdx.x];
    }
    table = shared_table.entries;
  }
  await_stream();
  for_tiles<Tile<Block, kStreams>>(call,
                                   [table](Tile<Block, kStreams> tile) { tile.decode(table); });
}

struct KernelPair {
  const void* encode = nullptr;
  const void* decode = nullptr;
};

template <class Scheme, class T>
KernelPair kernels_of_type() {
  if constexpr (Scheme::template kTakes<T>) {
    // Complex numbers share the kernels of their parts where those have no streams of their own.
    using Block = typename Scheme::template Block<typename codec::RealPart<T>::Type>;
    constexpr int kStreams = Scheme::template kStreams<T>;
    return {reinterpret_cast<const void*>(&encode_parts<Block, kStreams>),
            reinterpret_cast<const void*>(&decode_parts<Block, kStreams>)};
  } else {
    return {};
  }
}

template <class Scheme>
KernelPair kernels_of_scheme(Dtype dtype) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return kernels_of_type<Scheme, c_type>();
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return {};
}

}  // namespace sennit::coded

// Compiles the kernels of one codec.
#define SENNIT_INSTANTIATE_CODEC(scheme) \
  template sennit::coded::KernelPair     \
  sennit::coded::kernels_of_scheme<sennit::codec::scheme>(sennit::Dtype)
