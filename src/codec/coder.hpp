// The loops of codecs over whole buffers, in a form for each kind of processor; all forms make the
// same bytes and values. Sources for newer processors include this, so it includes no functions.
#pragma once

#include "codec/tables.hpp"
#include "types/tables.hpp"

#include <cstddef>
#include <span>

namespace sennit::codec {

// Which values and which bytes. The codec takes the type; neither has to be aligned.
struct Encoding {
  Codec codec;
  Dtype dtype;
  const void* values;
  std::size_t count;
  unsigned char* coded;
};
struct Decoding {
  Codec codec;
  Dtype dtype;
  const unsigned char* coded;
  std::size_t bytes;  // where they do not vary, what the count asks for
  void* values;
  std::size_t count;
};

struct Coder {
  std::size_t (*encode)(const Encoding& task);  // how many bytes are written
  bool (*decode)(const Decoding& task);         // false: these bytes are not those of the values
};

namespace portable {
std::size_t encode(const Encoding& task);
bool decode(const Decoding& task);
}  // namespace portable
namespace avx2 {  // with the bit instructions of BMI2
std::size_t encode(const Encoding& task);
bool decode(const Decoding& task);
}  // namespace avx2

// Those that this processor can run, the fastest last.
std::span<const Coder> coders();

}  // namespace sennit::codec
