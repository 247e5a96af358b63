// Blocks of values as a codec has them in a slot.
#pragma once

#include "base/status.hpp"
#include "codec/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sennit {

// The bytes that `elements` take of a slot, at most where they vary: both ends count with these.
std::size_t coded_room(Codec codec, Dtype dtype, std::int64_t elements);

// `at` has coded_room(). No alignment is needed.
void put_coded(
    Codec codec, Dtype dtype, const std::byte* values, std::int64_t elements, std::byte* at);

// kMismatch where the bytes are not those of so many elements; whatever they are, nothing else is
// read or written.
Status take_coded(
    Codec codec, Dtype dtype, const std::byte* at, std::int64_t elements, std::byte* values);

// What the steps of a call code at once, and room for that: for each operand of a sum, for its
// result, and for coded bytes. A tile is coded in parts, which come to the same bytes, but as a
// whole where its bytes vary in number.
struct CodingBuffers {
  CodingBuffers() = default;
  CodingBuffers(std::span<const Codec> codecs,
                Dtype dtype,
                std::int64_t tile_elements,
                std::size_t most_operands);

  [[nodiscard]] std::byte* operand(std::size_t index) const {
    return memory.get() + index * part_room;
  }
  [[nodiscard]] std::byte* result() const { return operand(operands); }
  [[nodiscard]] std::byte* coded() const { return operand(operands + 1); }

  std::int64_t part_elements = 1;
  std::size_t operands = 1;
  std::size_t part_room = 0;  // bytes
  std::unique_ptr<std::byte[]> memory;
};

}  // namespace sennit
