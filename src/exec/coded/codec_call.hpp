// The kernels that encode values into bytes of a codec, and decode them: one launch codes several
// parts, each as the codec codes a buffer of its own. They wait for no other rank.
#pragma once

#include "codec/tables.hpp"
#include "types/tables.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::coded {

// The kernels' parameter.
struct CodecCall {
  struct Part {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::int64_t count = 0;  // elements; not 0
  };

  // Coded bytes begin at multiples of kCodedAlignBytes and have room up to the next one. Values lie
  // anywhere.
  std::array<Part, 64> parts{};
  std::int32_t part_count = 0;
  std::int32_t numbers = 1;  // in an element: CodedBlocks::numbers
};

inline constexpr std::int64_t kCodedAlignBytes = 16;
inline constexpr unsigned kCodecThreads = 128;
// Of values, the least that a thread block codes at once.
inline constexpr std::int64_t kCodecTileBytes = std::int64_t{64} * kCodecThreads;
// Eight an SM of an H100: by then a codec is as fast as its integer instructions allow.
inline constexpr std::int64_t kCodecBlocks = 1056;

// As CudaDriver::launch takes them. Null for what has no kernel: `exact`, and types that the codec
// does not take. A build without CUDA has marks in their place, which only fakes launch.
const void* encode_kernel(Codec codec, Dtype dtype);
const void* decode_kernel(Codec codec, Dtype dtype);

}  // namespace sennit::coded
