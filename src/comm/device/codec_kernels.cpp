#include "comm/device/codec_kernels.hpp"

#include "codec/codec.hpp"

#include <algorithm>

namespace sennit {

Status CodecKernels::code(
    const void* kernel, Codec codec, Dtype dtype, std::span<const Part> parts, void* stream) {
  coded::CodecCall call{.numbers = blocks_of(codec, dtype).numbers};
  std::int64_t tiles = 0;
  const auto launch = [&]() -> Status {
    if (call.part_count == 0) {
      return {};
    }
    SENNIT_RETURN_IF_ERROR(loaded_.load_for(stream, kernel));
    SENNIT_RETURN_IF_ERROR(
        driver_.launch(kernel,
                       {.blocks = static_cast<unsigned>(std::min(tiles, coded::kCodecBlocks)),
                        .threads = coded::kCodecThreads},
                       &call,
                       stream));
    call.part_count = 0;
    tiles = 0;
    return {};
  };
  for (const Part& part : parts) {
    if (part.count == 0) {
      continue;
    }
    call.parts[static_cast<std::size_t>(call.part_count++)] = part;
    const auto bytes = part.count * static_cast<std::int64_t>(size_bytes(dtype));
    tiles += (bytes + coded::kCodecTileBytes - 1) / coded::kCodecTileBytes;
    if (call.part_count == static_cast<std::int32_t>(call.parts.size())) {
      SENNIT_RETURN_IF_ERROR(launch());
    }
  }
  return launch();
}

Status CodecKernels::reduce(Dtype dtype,
                            ReduceOp op,
                            const stream::ReductionCall& call,
                            void* stream) {
  const void* const kernel = stream::reduction_kernel(dtype, op);
  SENNIT_RETURN_IF_ERROR(loaded_.load_for(stream, kernel));
  constexpr std::int64_t kBlockBytes = std::int64_t{16} * stream::kReductionThreads;
  const std::int64_t useful = (call.bytes + kBlockBytes - 1) / kBlockBytes;
  return driver_.launch(
      kernel,
      {.blocks = static_cast<unsigned>(std::min<std::int64_t>(useful, stream::kLeaderBlocks)),
       .threads = stream::kReductionThreads},
      &call,
      stream);
}

}  // namespace sennit
