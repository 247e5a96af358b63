// SHA-256 (FIPS 180-4), for rendezvous names and plan hashes; not on any hot path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sennit {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // Ends the message; the object must not be used afterwards.
  std::array<std::uint8_t, 32> finish();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667,
                                      0xbb67ae85,
                                      0x3c6ef372,
                                      0xa54ff53a,
                                      0x510e527f,
                                      0x9b05688c,
                                      0x1f83d9ab,
                                      0x5be0cd19};
  std::array<std::uint8_t, 64> buffer_{};
  std::uint64_t length_ = 0;
};

// 64 hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace sennit
