// For tests: what the kernels of codecs do, on the host.
#pragma once

#include "codec/codec.hpp"
#include "exec/coded/codec_call.hpp"
#include "types/types.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <span>

namespace sennit::coded {

inline void run_codec_call(Codec codec, Dtype dtype, bool encodes, const CodecCall& call) {
  for (int i = 0; i < call.part_count; ++i) {
    const auto& [from, to, count] = call.parts[static_cast<std::size_t>(i)];
    const auto elements = static_cast<std::size_t>(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(encodes ? to : from) % kCodedAlignBytes, 0);
    if (encodes) {
      (void)encode(codec, dtype, from, elements, to);
      continue;
    }
    const Result<std::size_t> bytes = most_coded_bytes(codec, dtype, elements);
    EXPECT_TRUE(bytes.ok());
    EXPECT_TRUE(
        decode(codec, dtype, {reinterpret_cast<const unsigned char*>(from), *bytes}, to, elements)
            .ok());
  }
}

// Empty: it is another kernel.
inline std::function<void()> fake_codec_kernel(const void* kernel, const void* parameters) {
  for (const Codec codec : kCodecs) {
    for (const Dtype dtype : kDtypes) {
      const bool encodes = kernel == encode_kernel(codec, dtype);
      if (kernel != nullptr && (encodes || kernel == decode_kernel(codec, dtype))) {
        return [codec, dtype, encodes, call = *static_cast<const CodecCall*>(parameters)] {
          run_codec_call(codec, dtype, encodes, call);
        };
      }
    }
  }
  return {};
}

}  // namespace sennit::coded
