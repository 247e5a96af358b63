// HMAC-SHA-256 (RFC 2104): a code of a message that only who knows the key can make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sennit {

using MacCode = std::array<std::uint8_t, 32>;

// Of the parts one after the other.
MacCode hmac_sha256(std::span<const std::uint8_t> key, std::span<const std::string_view> parts);

// Compares in a time that does not show how many bytes are right.
bool is_same_code(const MacCode& code, std::string_view bytes);

}  // namespace sennit
