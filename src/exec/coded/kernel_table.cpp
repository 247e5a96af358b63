// Of all codecs, the kernels.
#include "codec/schemes.hpp"
#include "exec/coded/codec_call.hpp"

namespace sennit::coded {

struct KernelPair {
  const void* encode = nullptr;
  const void* decode = nullptr;
};

// Compiled for a few codecs a file (exec/coded/codec_kernel.cuh).
template <class Scheme>
KernelPair kernels_of_scheme(Dtype dtype);

namespace {

// Blocks of `exact` vary in length: there are none for it.
template <class Scheme>
KernelPair kernels_if_any(Dtype dtype) {
  if constexpr (codec::kIsExact<Scheme>) {
    return {};
  } else {
    return kernels_of_scheme<Scheme>(dtype);
  }
}

KernelPair kernels_of(Codec codec, Dtype dtype) {
  switch (codec) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) \
  case Codec::enumerator:                                      \
    return kernels_if_any<codec::scheme>(dtype);
#include "codec/codecs.def"
#undef SENNIT_CODEC
  }
  return {};
}

}  // namespace

const void* encode_kernel(Codec codec, Dtype dtype) { return kernels_of(codec, dtype).encode; }
const void* decode_kernel(Codec codec, Dtype dtype) { return kernels_of(codec, dtype).decode; }

}  // namespace sennit::coded
