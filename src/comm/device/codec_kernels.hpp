// CodecKernels: how the calls of one communicator put kernels into a stream that encode values,
// decode them, and reduce what has been decoded. They wait for no other rank.
#pragma once

#include "base/status.hpp"
#include "drivers/cuda/cuda.hpp"
#include "exec/coded/codec_call.hpp"
#include "exec/loaded_kernels.hpp"
#include "exec/stream/reduction.hpp"

#include <span>

namespace sennit {

class CodecKernels {
 public:
  using Part = coded::CodecCall::Part;

  // `driver` outlives the result.
  explicit CodecKernels(CudaDriver& driver) : driver_(driver), loaded_(driver) {}

  [[nodiscard]] static bool has(Codec codec, Dtype dtype) {
    return coded::encode_kernel(codec, dtype) != nullptr;
  }

  // Parts without elements are left out.
  Status encode(Codec codec, Dtype dtype, std::span<const Part> parts, void* stream) {
    return code(coded::encode_kernel(codec, dtype), codec, dtype, parts, stream);
  }
  Status decode(Codec codec, Dtype dtype, std::span<const Part> parts, void* stream) {
    return code(coded::decode_kernel(codec, dtype), codec, dtype, parts, stream);
  }
  // The types and operators are those of stream::has_reduction().
  Status reduce(Dtype dtype, ReduceOp op, const stream::ReductionCall& call, void* stream);

 private:
  Status code(
      const void* kernel, Codec codec, Dtype dtype, std::span<const Part> parts, void* stream);

  CudaDriver& driver_;
  LoadedKernels loaded_;
};

}  // namespace sennit
