// Codecs: what makes messages shorter on a slow wire. A codec turns the values of a buffer into
// bytes, block by block, and back; but for `exact` it loses what bits cannot hold.
//
//   SENNIT_ASSIGN_OR_RETURN(const Codec codec, parse_codec("zfp:8"));
//   SENNIT_ASSIGN_OR_RETURN(const std::size_t room, most_coded_bytes(codec, dtype, count));
//   std::vector<unsigned char> coded(room);
//   coded.resize(encode(codec, dtype, values, count, coded.data()));
//   SENNIT_RETURN_IF_ERROR(decode(codec, dtype, coded, decoded, count));
//
// decode(encode(x)) is a pure function of each block of x: it does not depend on the processor, nor
// on what else is in the buffer. All functions may be called from any thread at any time.
// docs/codecs.md says when to use which; the formats stand in codec/*_block.hpp.
#pragma once

#include "base/status.hpp"
#include "codec/tables.hpp"
#include "types/types.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace sennit {

inline constexpr std::array kCodecs = {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) Codec::enumerator,
#include "codec/codecs.def"
#undef SENNIT_CODEC
};

std::string_view name(Codec codec);
std::string_view summary(Codec codec);

// The row with this name; a failure lists the names there are.
Result<Codec> parse_codec(std::string_view text);

bool takes(Codec codec, Dtype dtype);
// kUnsupported, with the types that the codec takes.
Status check_codec(Codec codec, Dtype dtype);

// decode(encode(x)) is x, in every bit.
bool is_lossless(Codec codec);

// How blocks are made of a type that the codec takes.
struct CodedBlocks {
  int values = 0;   // in a block; of complex numbers their parts
  int streams = 1;  // parts of an element with separate blocks: 2 of complex numbers in zfp
  int numbers = 1;  // in an element: 2 of complex numbers
  int bytes = 0;    // of a block, the most where they vary
  // The largest error as a part of the largest magnitude in the block, if that is a normal number,
  // not too small for the codec and not at the end of the type's range.
  double error = 0;
};
CodedBlocks blocks_of(Codec codec, Dtype dtype);

// The most bytes that `count` elements take: exactly so many unless the codec is `exact`. Fails for
// a type that the codec does not take, and for a count whose bytes no memory could hold.
Result<std::size_t> most_coded_bytes(Codec codec, Dtype dtype, std::size_t count);

// Writes `count` elements to `coded`, which has room for most_coded_bytes(), and returns how many
// bytes it has written. The codec takes the type. No alignment is needed.
std::size_t encode(Codec codec, Dtype dtype, const void* values, std::size_t count, void* coded);

// Fails where the bytes are not those of so many elements. Any bytes may be given: what they say is
// checked before it is used.
Status decode(Codec codec,
              Dtype dtype,
              std::span<const unsigned char> coded,
              void* values,
              std::size_t count);

}  // namespace sennit
