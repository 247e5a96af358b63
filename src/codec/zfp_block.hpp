// One block of ZFP in one dimension at a fixed rate: four values in 4 R bits, bit for bit what
// libzfp makes of them. Compiled for the host and for devices.
//
//   const float values[4] = {1, 2, 3, 4};
//   const ZfpWord<8, float> block = encode_zfp<8>(values);  // 32 bits, the first one lowest
//   float decoded[4];
//   decode_zfp<8>(block, kPlaneTable.entries, decoded);
//
// The format: P. Lindstrom, "Fixed-Rate Compressed Floating-Point Arrays", IEEE Transactions on
// Visualization and Computer Graphics 20 (2014), and J. Diffenderfer, A. Fox, J. Hittinger, G.
// Sanders, P. Lindstrom, "Error Analysis of ZFP Compression for Floating-Point Data", SIAM Journal
// on Scientific Computing 41 (2019). A block has one exponent, integers relative to it, a transform
// that decorrelates them, and their bits by plane in negabinary, from the top, cut where the bits
// end. A plane has the raw bits of the first n coefficients, those that have shown a one before,
// and a code for the others (codec/zfp_codes.hpp).
//
// Loops over the four values count, since nvcc unrolls none over a range.
//
// There is no loop over planes here. n only grows, so planes form at most four runs: n = 0, where a
// plane is one zero bit; n = 1 and n = 2, where it is n bits and a zero; and n >= 3, where it is
// its four bits, as the test whether any coefficient is left is the fourth bit itself. The length
// of a run is a number of leading zeros. Between runs lies one plane in which n grows.
//
// Two cases that libzfp leaves undefined:
//   - a block with a NaN or an infinity has flag 1 and exponent field 0, which no finite block has,
//     and decodes to four NaNs;
//   - a block whose largest magnitude is below 2^-98 (float64: 2^-962) is written as zeros, since
//     its scale would overflow.
#pragma once

#include "codec/bits.hpp"
#include "codec/real_format.hpp"
#include "codec/zfp_codes.hpp"
#include "codec/zfp_planes.hpp"
#include "types/host_device.hpp"
#include "types/rounded.hpp"

#include <cstdint>
#include <type_traits>

namespace sennit::codec {

template <int kRate, typename Real>
struct ZfpShape {
  static constexpr int kBits = 4 * kRate;
  static constexpr int kHeaderBits = RealFormat<Real>::kExponentBits + 1;
  static constexpr int kPayloadBits = kBits - kHeaderBits;
  // As many as can matter: pieces of planes with two raw bits, and planes of four bits.
  static constexpr int kPiecesOfBlock = (kPayloadBits + kBitsInPiece - 1) / kBitsInPiece;
  static constexpr int kPiecesOfValue =
      (RealFormat<Real>::kWidth + kPlanesInPiece - 1) / kPlanesInPiece;
  static constexpr int kPieces = kPiecesOfBlock < kPiecesOfValue ? kPiecesOfBlock : kPiecesOfValue;
  static constexpr int kNibbles = (kPayloadBits + 3) / 4;
  using Word = std::conditional_t<kBits <= 32,
                                  std::uint32_t,
                                  std::conditional_t<kBits <= 64, std::uint64_t, Word128>>;
};

// Holds one block.
template <int kRate, typename Real>
using ZfpWord = typename ZfpShape<kRate, Real>::Word;

// The transform of four integers, and its inverse, which wraps around: what a cut has left of the
// coefficients may be of any size.
template <typename Int>
SENNIT_HOST_DEVICE inline void transform(Int (&values)[4]) {
  Int x = values[0];
  Int y = values[1];
  Int z = values[2];
  Int w = values[3];
  x = (x + w) >> 1;
  w -= x;
  z = (z + y) >> 1;
  y -= z;
  x = (x + z) >> 1;
  z -= x;
  w = (w + y) >> 1;
  y -= w;
  w += y >> 1;
  y -= w >> 1;
  values[0] = x;
  values[1] = y;
  values[2] = z;
  values[3] = w;
}

template <typename Int>
SENNIT_HOST_DEVICE inline void transform_back(Int (&values)[4]) {
  using Wrapping = std::make_unsigned_t<Int>;
  auto x = static_cast<Wrapping>(values[0]);
  auto y = static_cast<Wrapping>(values[1]);
  auto z = static_cast<Wrapping>(values[2]);
  auto w = static_cast<Wrapping>(values[3]);
  y += static_cast<Wrapping>(static_cast<Int>(w) >> 1);
  w -= static_cast<Wrapping>(static_cast<Int>(y) >> 1);
  y += w;
  w = 2 * w - y;
  z += x;
  x = 2 * x - z;
  y += z;
  z = 2 * z - y;
  w += x;
  x = 2 * x - w;
  values[0] = static_cast<Int>(x);
  values[1] = static_cast<Int>(y);
  values[2] = static_cast<Int>(z);
  values[3] = static_cast<Int>(w);
}

// Integers with an alternating sign of places, in which small numbers of both signs have zeros on
// top.
template <typename Real>
SENNIT_HOST_DEVICE inline BitsOf<Real> to_negabinary(typename RealFormat<Real>::Int value) {
  constexpr auto kOdd = static_cast<BitsOf<Real>>(0xaaaaaaaaaaaaaaaaU);
  return (static_cast<BitsOf<Real>>(value) + kOdd) ^ kOdd;
}
template <typename Real>
SENNIT_HOST_DEVICE inline typename RealFormat<Real>::Int from_negabinary(BitsOf<Real> bits) {
  constexpr auto kOdd = static_cast<BitsOf<Real>>(0xaaaaaaaaaaaaaaaaU);
  return static_cast<typename RealFormat<Real>::Int>((bits ^ kOdd) - kOdd);
}

// Writes the planes of four coefficients, run by run. The next plane is always the top bit of each.
template <int kRate, typename Real>
class ZfpWriter {
 public:
  using Shape = ZfpShape<kRate, Real>;
  using Word = typename Shape::Word;
  using Bits = BitsOf<Real>;

  SENNIT_HOST_DEVICE explicit ZfpWriter(const Bits (&coefficients)[4])
      : next_{coefficients[0], coefficients[1], coefficients[2], coefficients[3]} {}

  // All that fits, first bit on top.
  SENNIT_HOST_DEVICE Word written() {
    int shown = write_run_of_none();
    if (shown == 1) {
      shown = write_run_of_one();
    }
    if (shown == 2) {
      write_run_of_two();
    }
    write_nibbles();
    return word_;
  }

 private:
  // The functions for runs write the plane behind the run as well, and return how many coefficients
  // have shown a one then. Where no coefficient has any ones left, all that follows is zeros.
  SENNIT_HOST_DEVICE int write_run_of_none() {
    const int planes = leading_zeros(static_cast<Bits>(next_[0] | next_[1] | next_[2] | next_[3]));
    at_ = planes;
    skip(planes);
    return write_code<0>();
  }

  SENNIT_HOST_DEVICE int write_run_of_one() {
    const int planes = leading_zeros(static_cast<Bits>(next_[1] | next_[2] | next_[3]));
    // Also the raw bit of the plane behind the run, for which the code has a place left.
    write(spread_by_2(resized<Word>(first_bits(next_[0], planes + 1))));
    at_ += 2 * planes + 1;
    skip(planes);
    return write_code<1>();
  }

  SENNIT_HOST_DEVICE void write_run_of_two() {
    const int planes = leading_zeros(static_cast<Bits>(next_[2] | next_[3]));
    const Bits first = first_bits(next_[0], planes + 1);
    const Bits second = first_bits(next_[1], planes + 1);
    Word run = 0;
    SENNIT_UNROLL
    for (int piece = 0; piece < Shape::kPieces; ++piece) {
      constexpr std::uint32_t kInPiece = 0xffc00000U;
      const int begin = piece * kPlanesInPiece;
      const std::uint32_t one = first_word(static_cast<Bits>(first << begin)) & kInPiece;
      const std::uint32_t two = first_word(static_cast<Bits>(second << begin)) & kInPiece;
      run |= shifted_right(resized<Word>(spread_by_3(one) | spread_by_3(two) >> 1), 3 * begin);
    }
    write(run);
    at_ += 3 * planes + 2;
    skip(planes);
    write_code<2>();
  }

  SENNIT_HOST_DEVICE void write_nibbles() {
    Word nibbles = 0;
    SENNIT_UNROLL
    for (int begin = 0; begin < Shape::kNibbles; begin += 16) {
      const std::uint32_t planes[4] = {first_word(static_cast<Bits>(next_[0] << begin)),
                                       first_word(static_cast<Bits>(next_[1] << begin)),
                                       first_word(static_cast<Bits>(next_[2] << begin)),
                                       first_word(static_cast<Bits>(next_[3] << begin))};
      const Nibbles words = to_nibbles(planes);
      nibbles |= shifted_right(resized<Word>(words.first), 4 * begin);
      nibbles |= shifted_right(resized<Word>(words.second), 4 * begin + 32);
    }
    write(nibbles);
  }

  // The code of the next plane, where kShown coefficients have shown a one before.
  template <int kShown>
  SENNIT_HOST_DEVICE int write_code() {
    std::uint32_t rest = 0;
    SENNIT_UNROLL
    for (int i = 3; i >= kShown; --i) {
      rest = rest << 1 | first_word(next_[i]) >> 31;
    }
    const PlaneCode code = look_up_code<4 - kShown>(rest);
    write(resized<Word>(code.bits));
    at_ += code.length;
    skip(1);
    return rest == 0 ? 0 : kShown + 32 - leading_zeros(rest);
  }

  SENNIT_HOST_DEVICE void write(Word bits) { word_ |= shifted_right(bits, at_); }
  SENNIT_HOST_DEVICE void skip(int planes) {
    SENNIT_UNROLL
    for (int i = 0; i < 4; ++i) {  // NOLINT(modernize-loop-convert)
      next_[i] = shifted_left(next_[i], planes);
    }
  }

  Bits next_[4];
  Word word_ = 0;
  int at_ = 0;  // how many bits are written
};

// Four values as a block of 4 kRate bits, the first one lowest.
template <int kRate, typename Real>
SENNIT_HOST_DEVICE inline ZfpWord<kRate, Real> encode_zfp(const Real (&values)[4]) {
  using Format = RealFormat<Real>;
  using Shape = ZfpShape<kRate, Real>;
  using Word = typename Shape::Word;
  BitsOf<Real> most = 0;
  SENNIT_UNROLL
  for (int i = 0; i < 4; ++i) {  // NOLINT(modernize-loop-convert)
    const BitsOf<Real> magnitude = magnitude_of(values[i]);
    most = most > magnitude ? most : magnitude;
  }
  const int exponent = static_cast<int>(most >> Format::kMantissaBits);
  // With it the largest value has as many places before the point as the integers have, but two.
  constexpr int kScale = Format::kWidth - 3 + 2 * Format::kBias;
  constexpr int kLargestFinite = 2 * Format::kBias;
  if (exponent > kLargestFinite) {
    return 1;
  }
  if (kScale - exponent > kLargestFinite) {
    return 0;
  }
  const Real scale = power_of_two<Real>(kScale - exponent);
  typename Format::Int integers[4];
  SENNIT_UNROLL
  for (int i = 0; i < 4; ++i) {
    integers[i] = static_cast<typename Format::Int>(rounded::multiply(values[i], scale));
  }
  transform(integers);
  const BitsOf<Real> coefficients[4] = {to_negabinary<Real>(integers[0]),
                                        to_negabinary<Real>(integers[1]),
                                        to_negabinary<Real>(integers[2]),
                                        to_negabinary<Real>(integers[3])};
  const Word payload = reversed(ZfpWriter<kRate, Real>(coefficients).written());
  const auto block =
      static_cast<Word>(payload << Shape::kHeaderBits | static_cast<Word>((exponent + 1) << 1 | 1));
  return resized<Word>(block) & static_cast<Word>(~Word{0} >> (kWidth<Word> - Shape::kBits));
}

// Reads the planes of a block, run by run.
template <int kRate, typename Real>
class ZfpReader {
 public:
  using Shape = ZfpShape<kRate, Real>;
  using Word = typename Shape::Word;
  using Bits = BitsOf<Real>;

  // `payload` has its first bit on top and zeros behind its last; `table` is kPlaneTable's, or a
  // copy of it in faster memory.
  SENNIT_HOST_DEVICE ZfpReader(Word payload, const unsigned char* table)
      : word_(payload), table_(table) {}

  SENNIT_HOST_DEVICE void read(Bits (&coefficients)[4]) {
    int shown = read_run_of_none();
    if (shown == 1) {
      shown = read_run_of_one();
    }
    if (shown == 2) {
      read_run_of_two();
    }
    read_nibbles();
    SENNIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      coefficients[i] = read_[i];
    }
  }

 private:
  SENNIT_HOST_DEVICE int read_run_of_none() {
    plane_ = leading_zeros(word_);
    drop(plane_);
    return read_code<0>();
  }

  SENNIT_HOST_DEVICE int read_run_of_one() {
    constexpr Word kTests = static_cast<Word>(~Word{0}) / 3;  // 0101...
    const int planes = leading_zeros(static_cast<Word>(word_ & kTests)) / 2;
    const Word raw = gathered_by_2(first_bits(word_, 2 * planes + 1));
    add_planes(0, resized<Bits>(raw));
    plane_ += planes;
    drop(2 * planes + 1);
    return read_code<1>();
  }

  SENNIT_HOST_DEVICE void read_run_of_two() {
    constexpr Word kTests = static_cast<Word>(~Word{0}) / 7;  // 001001...
    const auto zeros = static_cast<unsigned>(leading_zeros(static_cast<Word>(word_ & kTests)));
    const auto planes = static_cast<int>(zeros / 3);
    Bits first = 0;
    Bits second = 0;
    SENNIT_UNROLL
    for (int piece = 0; piece < Shape::kPieces; ++piece) {
      const int begin = piece * kPlanesInPiece;
      const std::uint32_t bits = first_word(static_cast<Word>(word_ << (3 * begin))) & 0xfffffffcU;
      first |= shifted_right(resized<Bits>(gathered_by_3(bits)), begin);
      second |= shifted_right(resized<Bits>(gathered_by_3(bits << 1)), begin);
    }
    add_planes(0, first_bits(first, planes + 1));
    add_planes(1, first_bits(second, planes + 1));
    plane_ += planes;
    drop(3 * planes + 2);
    read_code<2>();
  }

  SENNIT_HOST_DEVICE void read_nibbles() {
    SENNIT_UNROLL
    for (int begin = 0; begin < Shape::kNibbles; begin += 16) {
      std::uint32_t planes[4];
      from_nibbles({first_word(shifted_left(word_, 4 * begin)),
                    first_word(shifted_left(word_, 4 * begin + 32))},
                   planes);
      SENNIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        add_planes(i, shifted_right(resized<Bits>(planes[i]), begin));
      }
    }
  }

  // The code of a plane in which coefficients from kShown on show their first one; how many have
  // shown one then. The codes of fewer than four coefficients are those of four without the zeros
  // that the first ones would have behind the test.
  template <int kShown>
  SENNIT_HOST_DEVICE int read_code() {
    const std::uint32_t seven = first_word(word_) >> 25;
    const std::uint32_t entry = table_[(seven & 0x40) | (seven & 0x3f) >> kShown];
    const int length = static_cast<int>(entry >> 4) - kShown;
    std::uint32_t named = entry & 15;
    // Where the block ends between a test and the one that it promises, the one stands where
    // reading has stopped; zeros behind the end have made it the last coefficient's.
    const int missing = length - bits_left_;
    if (missing > 0 && named >= 8) {
      named = (named & 7) | 8U >> missing;
    }
    drop(length);  // no bits, or less, where the block has ended before the code
    const Bits one = shifted_right(static_cast<Bits>(Bits{1} << (kWidth<Bits> - 1)), plane_);
    SENNIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      read_[i] |= (named >> i & 1) != 0 ? one : Bits{0};
    }
    ++plane_;
    return 32 - leading_zeros(named);
  }

  SENNIT_HOST_DEVICE void add_planes(int coefficient, Bits planes) {
    read_[coefficient] |= shifted_right(planes, plane_);
  }
  SENNIT_HOST_DEVICE void drop(int bits) {
    word_ = shifted_left(word_, bits);
    bits_left_ -= bits;
  }

  Word word_;  // what is not read yet
  const unsigned char* table_;
  Bits read_[4] = {};
  int plane_ = 0;
  int bits_left_ = Shape::kPayloadBits;
};

// A block as four values. `table` is kPlaneTable.entries, or a copy of it in faster memory.
template <int kRate, typename Real>
SENNIT_HOST_DEVICE inline void decode_zfp(ZfpWord<kRate, Real> block,
                                          const unsigned char* table,
                                          Real (&values)[4]) {
  using Format = RealFormat<Real>;
  using Shape = ZfpShape<kRate, Real>;
  using Word = typename Shape::Word;
  constexpr int kExponents = (1 << Format::kExponentBits) - 1;
  const bool is_zero = (block & 1) == 0;
  const int exponent = static_cast<int>(block >> 1) & kExponents;
  if (is_zero || exponent == 0) {
    SENNIT_UNROLL
    for (int i = 0; i < 4; ++i) {  // NOLINT(modernize-loop-convert)
      values[i] = is_zero ? Real{0} : not_a_number<Real>();
    }
    return;
  }
  BitsOf<Real> coefficients[4];
  ZfpReader<kRate, Real>(reversed(static_cast<Word>(block >> Shape::kHeaderBits)), table)
      .read(coefficients);
  typename Format::Int integers[4];
  SENNIT_UNROLL
  for (int i = 0; i < 4; ++i) {
    integers[i] = from_negabinary<Real>(coefficients[i]);
  }
  transform_back(integers);
  // What encode_zfp() multiplied with, inverted; it may be below the normal numbers.
  const int scale_exponent = exponent - (Format::kWidth - 2);
  constexpr auto kHalfOfLeast = BitsOf<Real>{1} << (Format::kMantissaBits - 1);
  const Real scale = scale_exponent > 0
                         ? power_of_two<Real>(scale_exponent)
                         : real_of<Real>(shifted_right(kHalfOfLeast, -scale_exponent));
  SENNIT_UNROLL
  for (int i = 0; i < 4; ++i) {
    values[i] = rounded::multiply(static_cast<Real>(integers[i]), scale);
  }
}

}  // namespace sennit::codec
