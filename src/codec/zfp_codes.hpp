// The codes of bit planes in which coefficients show their first one (codec/zfp_block.hpp), as
// tables in both directions. Compiled for the host and for devices.
#pragma once

#include "codec/bits.hpp"
#include "types/host_device.hpp"

#include <cstdint>

namespace sennit::codec {

// What is written for a plane behind the raw bits of the first coefficients: at most seven bits,
// the first one on top.
struct PlaneCode {
  std::uint32_t bits;
  int length;
};

// `rest` has the plane's bits of the `width` coefficients that have shown no one yet, the next of
// them lowest. A test says whether any is left; if so, bits up to and including the next one
// follow, but for the last coefficient, which must be the one.
constexpr PlaneCode code_of_plane(std::uint32_t rest, int width) {
  PlaneCode code{0, 0};
  int next = 0;
  while (next < width) {
    const bool is_any_left = (rest >> next) != 0;
    code.bits |= is_any_left ? 0x80000000U >> code.length : 0;
    ++code.length;
    if (!is_any_left) {
      break;
    }
    for (; next < width - 1; ++next) {
      const bool is_one = (rest >> next & 1) != 0;
      code.bits |= is_one ? 0x80000000U >> code.length : 0;
      ++code.length;
      if (is_one) {
        break;
      }
    }
    ++next;
  }
  return code;
}

// All codes of a width, in three constants: they become operands of instructions, so that devices
// need no memory for them.
template <int kCoefficients>
struct PlaneCodes {
  std::uint64_t lower = 0;  // a byte for each of the first eight values of `rest`
  std::uint64_t upper = 0;
  std::uint64_t lengths = 0;  // four bits each

  constexpr PlaneCodes() {
    for (std::uint32_t rest = 0; rest < (1U << kCoefficients); ++rest) {
      const PlaneCode code = code_of_plane(rest, kCoefficients);
      (rest < 8 ? lower : upper) |= static_cast<std::uint64_t>(code.bits >> 24) << (rest % 8 * 8);
      lengths |= static_cast<std::uint64_t>(code.length) << (rest * 4);
    }
  }
};

// code_of_plane() by table.
template <int kCoefficients>
SENNIT_HOST_DEVICE inline PlaneCode look_up_code(std::uint32_t rest) {
  constexpr PlaneCodes<kCoefficients> kCodes;
  std::uint64_t codes = kCodes.lower;
  auto lengths = static_cast<std::uint32_t>(kCodes.lengths);
  if constexpr (kCoefficients == 4) {
    codes = rest < 8 ? codes : kCodes.upper;
    lengths = rest < 8 ? lengths : static_cast<std::uint32_t>(kCodes.lengths >> 32);
  }
#if defined(__CUDA_ARCH__)
  const std::uint32_t bits = __byte_perm(static_cast<std::uint32_t>(codes),
                                         static_cast<std::uint32_t>(codes >> 32),
                                         (rest & 7) << 12) &
                             0xff000000U;
#else
  const auto bits = static_cast<std::uint32_t>(codes >> ((rest & 7) * 8)) << 24;
#endif
  return {bits, static_cast<int>(lengths >> ((rest & 7) * 4) & 15)};
}

// The other direction, for four coefficients: for any seven bits that begin with a code, which
// coefficients it names (bits 0 to 3) and its length (from bit 4 on). 128 bytes, so that a copy in
// the shared memory of a device has a word a bank.
struct alignas(16) PlaneTable {
  unsigned char entries[128]{};

  constexpr PlaneTable() {
    for (std::uint32_t rest = 0; rest < 16; ++rest) {
      const PlaneCode code = code_of_plane(rest, 4);
      for (std::uint32_t behind = 0; behind < (1U << (7 - code.length)); ++behind) {
        entries[code.bits >> 25 | behind] =
            static_cast<unsigned char>(rest | static_cast<std::uint32_t>(code.length) << 4);
      }
    }
  }
};
inline constexpr PlaneTable kPlaneTable;

}  // namespace sennit::codec
