#include "base/hmac.hpp"

#include "base/sha256.hpp"

#include <algorithm>

namespace sennit {
namespace {

constexpr std::size_t kBlockBytes = 64;  // of SHA-256
using Block = std::array<std::uint8_t, kBlockBytes>;

Block padded(std::span<const std::uint8_t> key) {
  Block block{};
  if (key.size() > kBlockBytes) {
    Sha256 hash;
    hash.update(std::as_bytes(key));
    const auto digest = hash.finish();
    std::ranges::copy(digest, block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  return block;
}

Sha256 begun_with(Block key, std::uint8_t pad) {
  for (std::uint8_t& byte : key) {
    byte ^= pad;
  }
  Sha256 hash;
  hash.update(std::as_bytes(std::span(key)));
  return hash;
}

}  // namespace

MacCode hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::string_view> parts) {
  constexpr std::uint8_t kInnerPad = 0x36;
  constexpr std::uint8_t kOuterPad = 0x5c;
  const Block block = padded(key);
  Sha256 inner = begun_with(block, kInnerPad);
  for (const std::string_view part : parts) {
    inner.update(part);
  }
  const auto inner_digest = inner.finish();
  Sha256 outer = begun_with(block, kOuterPad);
  outer.update(std::as_bytes(std::span(inner_digest)));
  return outer.finish();
}

bool is_same_code(const MacCode& code, std::string_view bytes) {
  if (bytes.size() != code.size()) {
    return false;
  }
  unsigned differences = 0;
  for (std::size_t index = 0; index < code.size(); ++index) {
    differences |= static_cast<unsigned>(code[index] ^ static_cast<std::uint8_t>(bytes[index]));
  }
  return differences == 0;
}

}  // namespace sennit
