#include "codec/codec.hpp"

#include "codec/coder.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace sennit {
namespace {

using Bytes = std::vector<unsigned char>;

// Finite numbers of any type that codecs take: small multiples of 1/8.
Bytes numbers(Dtype dtype, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count * size_bytes(dtype));
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  const bool is_double = dtype == Dtype::kFloat64 || dtype == Dtype::kComplex128;
  const bool is_half = size_bytes(dtype) == 2;
  const std::size_t step = is_double ? 8 : is_half ? 2 : 4;
  for (std::size_t at = 0; at + step <= bytes.size(); at += step) {
    const float value = static_cast<float>(random() % 1024) / 8 - 64;
    if (is_double) {
      put(at, static_cast<double>(value));
    } else if (dtype == Dtype::kFloat16) {
      put(at, narrow(value, Float16{}));
    } else if (dtype == Dtype::kBfloat16) {
      put(at, narrow(value, Bfloat16{}));
    } else {
      put(at, value);
    }
  }
  return bytes;
}

template <typename Use>
void for_all_pairs(Use use) {
  for (const Codec codec : kCodecs) {
    for (const Dtype dtype : kDtypes) {
      if (takes(codec, dtype)) {
        SCOPED_TRACE(fmt::format("{} of {}", name(codec), name(dtype)));
        use(codec, dtype);
      }
    }
  }
}

TEST(Codec, HasANameAndASummaryInEachRow) {
  for (const Codec codec : kCodecs) {
    EXPECT_EQ(*parse_codec(name(codec)), codec);
    EXPECT_GT(summary(codec).size(), 10u);
  }
}

TEST(Codec, AnUnknownNameIsRefusedWithThoseThereAre) {
  const Status status = parse_codec("zfp:7").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "there is no codec 'zfp:7'; there are: zfp:4, zfp:8, zfp:16, zfp:24, zfp:32, q8, q16, "
            "mx8, exact");
}

TEST(Codec, ATypeThatItDoesNotTakeIsRefusedWithThoseItTakes) {
  EXPECT_EQ(check_codec(Codec::kQ8, Dtype::kInt32).message(),
            "codec q8 does not take int32; it takes float32, float16, bfloat16, complex64");
  EXPECT_EQ(check_codec(Codec::kExact, Dtype::kFloat32).message(),
            "codec exact does not take float32; it takes float16, bfloat16");
  EXPECT_EQ(check_codec(Codec::kZfp32, Dtype::kFloat32).message(),
            "codec zfp:32 does not take float32; it takes float64, complex128");
  EXPECT_EQ(most_coded_bytes(Codec::kQ16, Dtype::kBfloat16, 1).status().code(), Code::kUnsupported);
}

TEST(Codec, BytesAreThoseOfWholeBlocks) {
  EXPECT_EQ(*most_coded_bytes(Codec::kZfp8, Dtype::kFloat32, 5), 8u);
  EXPECT_EQ(*most_coded_bytes(Codec::kZfp8, Dtype::kComplex64, 5), 16u);
  EXPECT_EQ(*most_coded_bytes(Codec::kQ8, Dtype::kBfloat16, 33), 68u);
  EXPECT_EQ(*most_coded_bytes(Codec::kQ8, Dtype::kComplex64, 17), 68u);
  EXPECT_EQ(*most_coded_bytes(Codec::kQ16, Dtype::kFloat32, 32), 66u);
  EXPECT_EQ(*most_coded_bytes(Codec::kQ16, Dtype::kFloat64, 32), 68u);
  EXPECT_EQ(*most_coded_bytes(Codec::kMx8, Dtype::kFloat32, 64), 66u);
  EXPECT_EQ(*most_coded_bytes(Codec::kExact, Dtype::kBfloat16, 256), 512u + 12u);
  EXPECT_EQ(*most_coded_bytes(Codec::kExact, Dtype::kBfloat16, 33), 128u + 4u);
  for_all_pairs(
      [](Codec codec, Dtype dtype) { EXPECT_EQ(*most_coded_bytes(codec, dtype, 0), 0u); });
}

TEST(Codec, ACountThatNoMemoryHoldsIsRefused) {
  const auto huge = std::numeric_limits<std::size_t>::max() / 4;
  EXPECT_EQ(most_coded_bytes(Codec::kQ8, Dtype::kFloat32, huge).status().code(),
            Code::kInvalidArgument);
}

TEST(Codec, AllFormsMakeTheSameBytesAndValues) {
  for_all_pairs([](Codec codec, Dtype dtype) {
    for (std::size_t count = 0; count < 300; count += 1 + count / 40) {
      const Bytes values = numbers(dtype, count, static_cast<unsigned>(count));
      Bytes first_coded;
      Bytes first_decoded;
      for (const codec::Coder& coder : codec::coders()) {
        Bytes coded(*most_coded_bytes(codec, dtype, count));
        coded.resize(coder.encode({codec, dtype, values.data(), count, coded.data()}));
        Bytes decoded(values.size());
        ASSERT_TRUE(
            coder.decode({codec, dtype, coded.data(), coded.size(), decoded.data(), count}));
        if (&coder == codec::coders().data()) {
          first_coded = coded;
          first_decoded = decoded;
        }
        ASSERT_EQ(coded, first_coded) << count;
        ASSERT_EQ(decoded, first_decoded) << count;
      }
    }
  });
}

// Also that nothing is written behind either end, and that memory of any alignment will do.
TEST(Codec, WritesWhatItIsAskedForAtAnyAlignment) {
  static constexpr unsigned char kGuard = 0xa5;
  for_all_pairs([](Codec codec, Dtype dtype) {
    constexpr std::size_t kCount = 77;
    const Bytes values = numbers(dtype, kCount, 41);
    Bytes coded(*most_coded_bytes(codec, dtype, kCount));
    coded.resize(encode(codec, dtype, values.data(), kCount, coded.data()));
    Bytes decoded(values.size());
    ASSERT_TRUE(decode(codec, dtype, coded, decoded.data(), kCount).ok());
    for (std::size_t shift = 1; shift < 16; shift += 2) {
      Bytes moved(shift + values.size());
      std::memcpy(moved.data() + shift, values.data(), values.size());
      Bytes there(shift + *most_coded_bytes(codec, dtype, kCount) + 1, kGuard);
      const std::size_t bytes =
          encode(codec, dtype, moved.data() + shift, kCount, there.data() + shift);
      ASSERT_EQ(Bytes(there.begin() + static_cast<std::ptrdiff_t>(shift),
                      there.begin() + static_cast<std::ptrdiff_t>(shift + bytes)),
                coded);
      ASSERT_EQ(there[shift - 1], kGuard);
      ASSERT_EQ(there.back(), kGuard);
      Bytes back(shift + values.size() + 1, kGuard);
      ASSERT_TRUE(
          decode(codec, dtype, std::span(there).subspan(shift, bytes), back.data() + shift, kCount)
              .ok());
      ASSERT_EQ(std::memcmp(back.data() + shift, decoded.data(), decoded.size()), 0);
      ASSERT_EQ(back[shift - 1], kGuard);
      ASSERT_EQ(back.back(), kGuard);
    }
  });
}

TEST(Codec, ABlockDoesNotDependOnItsNeighbours) {
  for_all_pairs([](Codec codec, Dtype dtype) {
    constexpr std::size_t kCount = 256;
    const Bytes values = numbers(dtype, 2 * kCount, 42);
    const auto decoded = [&](std::size_t begin, std::size_t count) {
      const unsigned char* from = values.data() + begin * size_bytes(dtype);
      Bytes coded(*most_coded_bytes(codec, dtype, count));
      coded.resize(encode(codec, dtype, from, count, coded.data()));
      Bytes back(count * size_bytes(dtype));
      EXPECT_TRUE(decode(codec, dtype, coded, back.data(), count).ok());
      return back;
    };
    Bytes halves = decoded(0, kCount);
    const Bytes second = decoded(kCount, kCount);
    halves.insert(halves.end(), second.begin(), second.end());
    EXPECT_EQ(decoded(0, 2 * kCount), halves);
  });
}

TEST(Codec, LosesNothingWhereItSaysSo) {
  for_all_pairs([](Codec codec, Dtype dtype) {
    const Bytes values = numbers(dtype, 500, 43);
    Bytes coded(*most_coded_bytes(codec, dtype, 500));
    coded.resize(encode(codec, dtype, values.data(), 500, coded.data()));
    Bytes back(values.size());
    ASSERT_TRUE(decode(codec, dtype, coded, back.data(), 500).ok());
    if (is_lossless(codec)) {
      EXPECT_EQ(back, values);
      EXPECT_EQ(blocks_of(codec, dtype).error, 0);
    } else {
      EXPECT_GT(blocks_of(codec, dtype).error, 0);
    }
  });
}

TEST(Codec, BytesOfAnotherLengthAreRefusedWithBothLengths) {
  const Bytes coded(67);
  float values[33];
  const Status status = decode(Codec::kQ8, Dtype::kFloat32, coded, values, 33);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "33 float32 take 68 bytes in q8, but 67 bytes are given: decode with the count, the "
            "type and the codec of encoding");
}

}  // namespace
}  // namespace sennit
