// Blocks of values as a codec has them in a slot.
#pragma once

#include "base/status.hpp"
#include "codec/codec.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit {

// The bytes that `elements` take of a slot, at most where they vary: both ends count with these.
std::size_t coded_room(Codec codec, Dtype dtype, std::int64_t elements);

// A tile may be coded in parts of so many elements, the last one shorter, and comes to the same
// bytes: all of it at once where its bytes vary in number.
std::int64_t coded_part(Codec codec, Dtype dtype, std::int64_t tile_elements);

// `at` has coded_room(). No alignment is needed.
void put_coded(
    Codec codec, Dtype dtype, const std::byte* values, std::int64_t elements, std::byte* at);

// kMismatch where the bytes are not those of so many elements; whatever they are, nothing else is
// read or written.
Status take_coded(
    Codec codec, Dtype dtype, const std::byte* at, std::int64_t elements, std::byte* values);

}  // namespace sennit
