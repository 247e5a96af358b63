// What a codec costs on GPUs: a kernel encodes what leaves a rank, the call moves the coded bytes,
// and a kernel decodes what came.
//
//   SENNIT_ASSIGN_OR_RETURN(const CodedCall coded,
//                           coded_call(codec, collective, 2, bytes, profile));
//   const double seconds = predict(coded.bytes) + coded.kernel_seconds;
#pragma once

#include "base/status.hpp"
#include "codec/codec.hpp"
#include "select/gpu_profile.hpp"
#include "types/types.hpp"

#include <cstdint>

namespace sennit {

struct CodedCall {
  std::int64_t bytes = 0;  // that the call moves in the place of its own
  double kernel_seconds = 0;
};

// Of float32. `bytes` are those of the vector of broadcast, reduce and all_reduce, else those of a
// rank's part. kUnsupported where the profile has no rate of the codec, and for barrier.
Result<CodedCall> coded_call(
    Codec codec, Collective collective, int ranks, std::int64_t bytes, const GpuProfile& profile);

}  // namespace sennit
