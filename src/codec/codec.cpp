#include "codec/codec.hpp"

#include "base/check.hpp"
#include "base/vectors.hpp"
#include "codec/coder.hpp"
#include "codec/schemes.hpp"

#include <fmt/ranges.h>

#include <limits>
#include <vector>

namespace sennit {
namespace {

template <typename Scheme, typename T>
CodedBlocks blocks_of_type() {
  if constexpr (!Scheme::template kTakes<T>) {
    return {};
  } else if constexpr (codec::kIsExact<Scheme>) {
    return {codec::kExactValues, 1, 1, codec::kExactValues * static_cast<int>(sizeof(T)), 0.0};
  } else {
    using Block = typename Scheme::template Block<T>;
    return {Block::kValues,
            Scheme::template kStreams<T>,
            codec::RealPart<T>::kParts,
            Block::kBytes,
            Block::kError};
  }
}

template <typename Scheme>
CodedBlocks blocks_of_scheme(Dtype dtype) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return blocks_of_type<Scheme, c_type>();
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return {};
}

bool has_bit_instructions() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("bmi2") != 0;
#else
  return false;
#endif
}

// The headers of `exact` stand before their blocks, eight at a time, in whole words.
std::size_t exact_header_bytes(std::size_t blocks) {
  return blocks / 8 * codec::kExactHeaderBits +
         (blocks % 8 * codec::kExactHeaderBits + 31) / 32 * 4;
}

}  // namespace

std::span<const codec::Coder> codec::coders() {
  static constexpr std::array<Coder, 2> kForms = {Coder{portable::encode, portable::decode},
                                                  Coder{avx2::encode, avx2::decode}};
  static const std::size_t kUsable = has_bit_instructions() ? 2 : 1;
  return std::span(kForms).first(kUsable);
}

std::string_view name(Codec codec) {
  switch (codec) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) \
  case Codec::enumerator:                                      \
    return name;
#include "codec/codecs.def"
#undef SENNIT_CODEC
  }
  return "?";
}

std::string_view summary(Codec codec) {
  switch (codec) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) \
  case Codec::enumerator:                                      \
    return summary;
#include "codec/codecs.def"
#undef SENNIT_CODEC
  }
  return "?";
}

Result<Codec> parse_codec(std::string_view text) {
  std::vector<std::string_view> names;
  for (const Codec codec : kCodecs) {
    if (name(codec) == text) {
      return codec;
    }
    names.push_back(name(codec));
  }
  return fail(Code::kInvalidArgument,
              "there is no codec '{}'; there are: {}",
              text,
              fmt::join(names, ", "));
}

bool takes(Codec codec, Dtype dtype) { return blocks_of(codec, dtype).values != 0; }

Status check_codec(Codec codec, Dtype dtype) {
  if (takes(codec, dtype)) {
    return {};
  }
  std::vector<std::string_view> types;
  for (const Dtype known : kDtypes) {
    if (takes(codec, known)) {
      types.push_back(name(known));
    }
  }
  return fail(Code::kUnsupported,
              "codec {} does not take {}; it takes {}",
              name(codec),
              name(dtype),
              fmt::join(types, ", "));
}

bool is_lossless(Codec codec) { return codec == Codec::kExact; }

CodedBlocks blocks_of(Codec codec, Dtype dtype) {
  switch (codec) {
#define SENNIT_CODEC(name, value, enumerator, scheme, summary) \
  case Codec::enumerator:                                      \
    return blocks_of_scheme<codec::scheme>(dtype);
#include "codec/codecs.def"
#undef SENNIT_CODEC
  }
  return {};
}

Result<std::size_t> most_coded_bytes(Codec codec, Dtype dtype, std::size_t count) {
  SENNIT_RETURN_IF_ERROR(check_codec(codec, dtype));
  if (count >
      static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / size_bytes(dtype) / 2) {
    return fail(Code::kInvalidArgument,
                "{} elements of {} are more than memory can hold: check the count",
                count,
                name(dtype));
  }
  const CodedBlocks block = blocks_of(codec, dtype);
  const auto values = static_cast<std::size_t>(block.values);
  const auto streams = static_cast<std::size_t>(block.streams);
  const std::size_t numbers = count * static_cast<std::size_t>(block.numbers) / streams;
  const std::size_t blocks = (numbers + values - 1) / values * streams;
  const std::size_t headers = codec == Codec::kExact ? exact_header_bytes(blocks) : 0;
  return blocks * static_cast<std::size_t>(block.bytes) + headers;
}

std::size_t encode(Codec codec, Dtype dtype, const void* values, std::size_t count, void* coded) {
  static const codec::Coder kBest = codec::coders().back();
  SENNIT_CHECK(takes(codec, dtype), "a codec is asked for a type only after check_codec()");
  return kBest.encode({codec, dtype, values, count, static_cast<unsigned char*>(coded)});
}

Status decode(Codec codec,
              Dtype dtype,
              std::span<const unsigned char> coded,
              void* values,
              std::size_t count) {
  static const codec::Coder kBest = codec::coders().back();
  SENNIT_ASSIGN_OR_RETURN(const std::size_t most, most_coded_bytes(codec, dtype, count));
  if (is_lossless(codec) ? coded.size() > most : coded.size() != most) {
    return fail(Code::kInvalidArgument,
                "{} {} take {}{} bytes in {}, but {} bytes are given: decode with the count, the "
                "type and the codec of encoding",
                count,
                name(dtype),
                is_lossless(codec) ? "at most " : "",
                most,
                name(codec),
                coded.size());
  }
  if (!kBest.decode({codec, dtype, coded.data(), coded.size(), values, count})) {
    return fail(Code::kInvalidArgument,
                "these {} bytes are not {} {} in {}: they are damaged, or of another count or type",
                coded.size(),
                count,
                name(dtype),
                name(codec));
  }
  return {};
}

}  // namespace sennit
