#include "exec/cpu/coded_block.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace sennit {
namespace {

// Where the bytes vary, their number stands before them.
using Length = std::uint64_t;

bool varies(Codec codec) { return is_lossless(codec); }

// Values of all operands of a sum and their bytes stay in the caches.
constexpr std::int64_t kPartBytes = 16 * 1024;

std::size_t most_bytes(Codec codec, Dtype dtype, std::int64_t elements) {
  const Result<std::size_t> bytes =
      most_coded_bytes(codec, dtype, static_cast<std::size_t>(elements));
  SENNIT_CHECK(bytes.ok(), "the type was checked, and the values lie in memory");
  return *bytes;
}

}  // namespace

std::size_t coded_room(Codec codec, Dtype dtype, std::int64_t elements) {
  return elements == 0 ? 0
                       : most_bytes(codec, dtype, elements) + (varies(codec) ? sizeof(Length) : 0);
}

CodingBuffers::CodingBuffers(std::span<const Codec> codecs,
                             Dtype dtype,
                             std::int64_t tile_elements,
                             std::size_t most_operands)
    : operands(most_operands) {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(dtype));
  part_elements = std::ranges::any_of(codecs, varies)
                      ? tile_elements
                      : std::min(kPartBytes / element_bytes, tile_elements);
  part_room = static_cast<std::size_t>(part_elements * element_bytes);
  for (const Codec codec : codecs) {
    part_room = std::max(part_room, coded_room(codec, dtype, part_elements));
  }
  memory = std::make_unique_for_overwrite<std::byte[]>((operands + 2) * part_room);
}

void put_coded(
    Codec codec, Dtype dtype, const std::byte* values, std::int64_t elements, std::byte* at) {
  std::byte* const first = varies(codec) ? at + sizeof(Length) : at;
  const Length length = encode(codec, dtype, values, static_cast<std::size_t>(elements), first);
  if (varies(codec)) {
    std::memcpy(at, &length, sizeof(length));
  }
}

Status take_coded(
    Codec codec, Dtype dtype, const std::byte* at, std::int64_t elements, std::byte* values) {
  const std::size_t most = most_bytes(codec, dtype, elements);
  Length length = most;
  if (varies(codec)) {
    std::memcpy(&length, at, sizeof(length));
    at += sizeof(length);
    if (length > most) {
      return fail(Code::kMismatch,
                  "{} coded bytes are offered for {} elements, which take at most {}",
                  length,
                  elements,
                  most);
    }
  }
  const Status status = decode(codec,
                               dtype,
                               std::span(reinterpret_cast<const unsigned char*>(at), length),
                               values,
                               static_cast<std::size_t>(elements));
  return status.ok() ? status : Status(Code::kMismatch, status.message());
}

}  // namespace sennit
