// Every codec and element type as device code, a block a thread: that the headers of src/codec
// compile for devices. These kernels are for no call; what moves messages codes them in its
// packets.
#define SENNIT_INLINE_ALL
#include "codec/schemes.hpp"
#include "types/tables.hpp"

namespace sennit::codec {

template <typename Block>
__global__ void encode_blocks(const typename Block::Element* values,
                              unsigned char* coded,
                              int blocks) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < blocks) {
    typename Block::Element block[Block::kValues];
    for (int i = 0; i < Block::kValues; ++i) {
      block[i] = values[index * Block::kValues + i];
    }
    Block::encode(block, coded + index * Block::kBytes);
  }
}

template <typename Block>
__device__ void decode_block(const unsigned char* coded,
                             typename Block::Element (&block)[Block::kValues],
                             const unsigned char* table) {
  if constexpr (Block::kValues == 4) {
    Block::decode(coded, block, table);
  } else {
    Block::decode(coded, block);
  }
}

template <typename Block>
__global__ void decode_blocks(const unsigned char* coded,
                              typename Block::Element* values,
                              int blocks,
                              const PlaneTable* table) {
  __shared__ PlaneTable shared_table;
  if (threadIdx.x < sizeof(PlaneTable)) {
    shared_table.entries[threadIdx.x] = table->entries[threadIdx.x];
  }
  __syncthreads();
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < blocks) {
    typename Block::Element block[Block::kValues];
    decode_block<Block>(coded + index * Block::kBytes, block, shared_table.entries);
    for (int i = 0; i < Block::kValues; ++i) {
      values[index * Block::kValues + i] = block[i];
    }
  }
}

// A block's planes at a place of their own, since blocks vary in length.
template <typename Float>
__global__ void encode_exact(const Float* values,
                             std::uint32_t* planes,
                             std::uint32_t* headers,
                             int blocks) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < blocks) {
    Float block[kExactValues];
    for (int i = 0; i < kExactValues; ++i) {
      block[i] = values[index * kExactValues + i];
    }
    std::uint32_t words[kMostPlanes];
    headers[index] = ExactBlock<Float>::encode(block, words).bits();
    for (int i = 0; i < kMostPlanes; ++i) {
      planes[index * kMostPlanes + i] = words[i];
    }
  }
}

template <typename Float>
__global__ void decode_exact(const std::uint32_t* planes,
                             const std::uint32_t* headers,
                             Float* values,
                             int blocks) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < blocks) {
    std::uint32_t words[kMostPlanes];
    for (int i = 0; i < kMostPlanes; ++i) {
      words[i] = planes[index * kMostPlanes + i];
    }
    Float block[kExactValues];
    ExactBlock<Float>::decode(ExactHeader::of_bits(headers[index]), words, block);
    for (int i = 0; i < kExactValues; ++i) {
      values[index * kExactValues + i] = block[i];
    }
  }
}

// Two kernels of each codec for an element type: naming them compiles them.
template <typename Scheme, typename T>
void compile(const void** kernels) {
  if constexpr (!Scheme::template kTakes<T>) {
    return;
  } else if constexpr (kIsExact<Scheme>) {
    kernels[0] = reinterpret_cast<const void*>(&encode_exact<T>);
    kernels[1] = reinterpret_cast<const void*>(&decode_exact<T>);
  } else {
    using Block = typename Scheme::template Block<T>;
    kernels[0] = reinterpret_cast<const void*>(&encode_blocks<Block>);
    kernels[1] = reinterpret_cast<const void*>(&decode_blocks<Block>);
  }
}

template <typename Scheme>
void compile_all(const void** kernels) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) compile<Scheme, c_type>(kernels);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
}

void compile_codecs(const void** kernels) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) compile_all<scheme>(kernels);
#include "codec/codecs.def"
#undef SENNIT_CODEC
}

}  // namespace sennit::codec
