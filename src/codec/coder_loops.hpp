// The loops of encode() and decode(). Whoever includes this is one form of them, compiled for a
// kind of processor:
//
//   #define SENNIT_INLINE_ALL
//   #define SENNIT_CODER portable
//   #include "codec/coder_loops.hpp"
//
// SENNIT_INLINE_ALL keeps every function of the headers within this form (types/host_device.hpp).
#pragma once

#include "codec/coder.hpp"
#include "codec/schemes.hpp"

#include <cstring>

namespace sennit::codec {
namespace {

// Real numbers with gaps between each other, as bytes that need no alignment. They are read and
// written a block at a time.
template <typename Block, int kStreams>
class BlockLoop {
 public:
  using Element = typename Block::Element;
  static constexpr std::size_t kValues = Block::kValues;
  static constexpr std::size_t kStride = sizeof(Element) * kStreams;

  static std::size_t encode(const unsigned char* values, std::size_t count, unsigned char* coded) {
    unsigned char* to = coded;
    for (std::size_t begin = 0; begin < count; begin += kValues) {
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        Element block[kValues] = {};
        const std::size_t length = count - begin < kValues ? count - begin : kValues;
        load(values + begin * kStride + stream * sizeof(Element), length, block);
        Block::encode(block, to);
        to += Block::kBytes;
      }
    }
    return static_cast<std::size_t>(to - coded);
  }

  static void decode(const unsigned char* coded, unsigned char* values, std::size_t count) {
    for (std::size_t begin = 0; begin < count; begin += kValues) {
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        Element block[kValues];
        Block::decode(coded, block);
        coded += Block::kBytes;
        const std::size_t length = count - begin < kValues ? count - begin : kValues;
        store(block, length, values + begin * kStride + stream * sizeof(Element));
      }
    }
  }

 private:
  static void load(const unsigned char* from, std::size_t length, Element (&block)[kValues]) {
    if (kStreams == 1 && length == kValues) {
      std::memcpy(block, from, sizeof(block));
      return;
    }
    for (std::size_t i = 0; i < length; ++i) {
      std::memcpy(block + i, from + i * kStride, sizeof(Element));
    }
    if (length < kValues) {
      Block::pad(block, static_cast<int>(length));
    }
  }

  static void store(const Element (&block)[kValues], std::size_t length, unsigned char* to) {
    if (kStreams == 1 && length == kValues) {
      std::memcpy(to, block, sizeof(block));
      return;
    }
    for (std::size_t i = 0; i < length; ++i) {
      std::memcpy(to + i * kStride, block + i, sizeof(Element));
    }
  }
};

// `exact`: eight blocks at a time, first their headers, packed into words, then their planes.
template <typename Float>
class ExactLoop {
 public:
  static std::size_t encode(const unsigned char* values, std::size_t count, unsigned char* coded) {
    unsigned char* to = coded;
    for (std::size_t begin = 0; begin < count; begin += kGroupValues) {
      const std::size_t length = count - begin < kGroupValues ? count - begin : kGroupValues;
      to = encode_group(values + begin * sizeof(Float), length, to);
    }
    return static_cast<std::size_t>(to - coded);
  }

  static bool decode(const Decoding& task) {
    Cursor cursor{task.coded, task.bytes};
    auto* values = static_cast<unsigned char*>(task.values);
    for (std::size_t begin = 0; begin < task.count; begin += kGroupValues) {
      const std::size_t left = task.count - begin;
      const std::size_t length = left < kGroupValues ? left : kGroupValues;
      if (!decode_group(cursor, values + begin * sizeof(Float), length)) {
        return false;
      }
    }
    return cursor.left == 0;
  }

 private:
  using Block = ExactBlock<Float>;
  static constexpr std::size_t kGroupBlocks = 8;
  static constexpr std::size_t kGroupValues = kGroupBlocks * kExactValues;
  // Of a whole group; a shorter one has as many words as its headers need.
  static constexpr std::size_t kHeaderWords = kGroupBlocks * kExactHeaderBits / 32;

  struct Cursor {
    const unsigned char* at;
    std::size_t left;

    // The next words; false where there are not so many.
    bool take(std::uint32_t* words, std::size_t count) {
      const std::size_t bytes = count * sizeof(std::uint32_t);
      if (left < bytes) {
        return false;
      }
      std::memcpy(words, at, bytes);
      at += bytes;
      left -= bytes;
      return true;
    }
  };

  static std::size_t blocks_of(std::size_t length) {
    return (length + kExactValues - 1) / kExactValues;
  }
  static std::size_t header_words(std::size_t blocks) {
    return (blocks * kExactHeaderBits + 31) / 32;
  }

  static unsigned char* encode_group(const unsigned char* values,
                                     std::size_t length,
                                     unsigned char* to) {
    const std::size_t blocks = blocks_of(length);
    std::uint32_t headers[kHeaderWords + 1] = {};  // one more, so that a header may cross words
    unsigned char* const first = to;
    to += header_words(blocks) * sizeof(std::uint32_t);
    for (std::size_t block = 0; block < blocks; ++block) {
      Float elements[kExactValues];
      load(values, length, block, elements);
      std::uint32_t planes[kMostPlanes];
      const ExactHeader header = Block::encode(elements, planes);
      put_header(headers, block, header.bits());
      const auto bytes = static_cast<std::size_t>(Block::planes(header)) * sizeof(std::uint32_t);
      std::memcpy(to, planes, bytes);
      to += bytes;
    }
    std::memcpy(first, headers, header_words(blocks) * sizeof(std::uint32_t));
    return to;
  }

  static bool decode_group(Cursor& cursor, unsigned char* values, std::size_t length) {
    const std::size_t blocks = blocks_of(length);
    std::uint32_t headers[kHeaderWords + 1] = {};
    if (!cursor.take(headers, header_words(blocks))) {
      return false;
    }
    for (std::size_t block = 0; block < blocks; ++block) {
      const ExactHeader header = ExactHeader::of_bits(get_header(headers, block));
      std::uint32_t planes[kMostPlanes] = {};
      if (!Block::is_valid(header) ||
          !cursor.take(planes, static_cast<std::size_t>(Block::planes(header)))) {
        return false;
      }
      Float elements[kExactValues];
      Block::decode(header, planes, elements);
      const std::size_t begin = block * kExactValues;
      const std::size_t left = length - begin;
      std::memcpy(values + begin * sizeof(Float),
                  elements,
                  (left < kExactValues ? left : kExactValues) * sizeof(Float));
    }
    return true;
  }

  // The last value again behind the last one, which costs no width.
  static void load(const unsigned char* values,
                   std::size_t length,
                   std::size_t block,
                   Float (&elements)[kExactValues]) {
    const std::size_t begin = block * kExactValues;
    const std::size_t left = length - begin;
    const std::size_t count = left < kExactValues ? left : kExactValues;
    std::memcpy(elements, values + begin * sizeof(Float), count * sizeof(Float));
    for (std::size_t i = count; i < kExactValues; ++i) {
      elements[i] = elements[count - 1];
    }
  }

  static void put_header(std::uint32_t* headers, std::size_t block, std::uint32_t bits) {
    const std::size_t at = block * kExactHeaderBits;
    const std::uint64_t shifted = static_cast<std::uint64_t>(bits) << (at % 32);
    headers[at / 32] |= static_cast<std::uint32_t>(shifted);
    headers[at / 32 + 1] |= static_cast<std::uint32_t>(shifted >> 32);
  }
  static std::uint32_t get_header(const std::uint32_t* headers, std::size_t block) {
    const std::size_t at = block * kExactHeaderBits;
    const std::uint64_t words = headers[at / 32] | static_cast<std::uint64_t>(headers[at / 32 + 1])
                                                       << 32;
    return static_cast<std::uint32_t>(words >> (at % 32)) & ((1U << kExactHeaderBits) - 1);
  }
};

// How many numbers of a stream `count` elements are.
template <typename Scheme, typename T>
constexpr std::size_t kNumbers = static_cast<std::size_t>(RealPart<T>::kParts) /
                                 static_cast<std::size_t>(Scheme::template kStreams<T>);

template <typename Scheme, Dtype kDtype>
std::size_t encode_elements(const Encoding& task) {
  using T = Element<kDtype>;
  const auto* values = static_cast<const unsigned char*>(task.values);
  if constexpr (!Scheme::template kTakes<T>) {
    return 0;
  } else if constexpr (kIsExact<Scheme>) {
    return ExactLoop<T>::encode(values, task.count, task.coded);
  } else {
    using Loop = BlockLoop<typename Scheme::template Block<T>, Scheme::template kStreams<T>>;
    return Loop::encode(values, task.count * kNumbers<Scheme, T>, task.coded);
  }
}

template <typename Scheme, Dtype kDtype>
bool decode_elements(const Decoding& task) {
  using T = Element<kDtype>;
  auto* values = static_cast<unsigned char*>(task.values);
  if constexpr (!Scheme::template kTakes<T>) {
    return false;
  } else if constexpr (kIsExact<Scheme>) {
    return ExactLoop<T>::decode(task);
  } else {
    using Loop = BlockLoop<typename Scheme::template Block<T>, Scheme::template kStreams<T>>;
    Loop::decode(task.coded, values, task.count * kNumbers<Scheme, T>);
    return true;
  }
}

template <typename Scheme>
std::size_t encode_by(const Encoding& task) {
  switch (task.dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return encode_elements<Scheme, Dtype::enumerator>(task);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return 0;
}

template <typename Scheme>
bool decode_by(const Decoding& task) {
  switch (task.dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return decode_elements<Scheme, Dtype::enumerator>(task);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return false;
}

}  // namespace

std::size_t SENNIT_CODER::encode(const Encoding& task) {
  switch (task.codec) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) \
  case Codec::enumerator:                                      \
    return encode_by<scheme>(task);
#include "codec/codecs.def"
#undef SENNIT_CODEC
  }
  return 0;
}

bool SENNIT_CODER::decode(const Decoding& task) {
  switch (task.codec) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) \
  case Codec::enumerator:                                      \
    return decode_by<scheme>(task);
#include "codec/codecs.def"
#undef SENNIT_CODEC
  }
  return false;
}

}  // namespace sennit::codec
