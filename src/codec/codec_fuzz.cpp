// Any bytes as those of any codec, type and count: refused, or decoded to values that all forms
// agree on, and that code again.
#include "base/check.hpp"
#include "codec/codec.hpp"
#include "codec/coder.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

namespace sennit {
namespace {

using Bytes = std::vector<unsigned char>;

struct Decoded {
  bool ok;
  Bytes values;
};

Decoded decoded_by(
    const codec::Coder& coder, Codec codec, Dtype dtype, const Bytes& coded, std::size_t count) {
  Decoded decoded{false, Bytes(count * size_bytes(dtype))};
  decoded.ok =
      coder.decode({codec, dtype, coded.data(), coded.size(), decoded.values.data(), count});
  return decoded;
}

void use(Codec codec, Dtype dtype, const Bytes& coded, std::size_t count) {
  Bytes values(count * size_bytes(dtype));
  const Status status = decode(codec, dtype, coded, values.data(), count);
  SENNIT_CHECK(status.ok() || status.code() == Code::kInvalidArgument, "another code");
  const Result<std::size_t> most = most_coded_bytes(codec, dtype, count);
  SENNIT_CHECK(most.ok(), "a length for what has been given");
  if (!is_lossless(codec) && coded.size() != *most) {
    SENNIT_CHECK(!status.ok(), "bytes of another length");
    return;
  }
  for (const codec::Coder& coder : codec::coders()) {
    const Decoded decoded = decoded_by(coder, codec, dtype, coded, count);
    SENNIT_CHECK(decoded.ok == status.ok(), "the forms do not agree on what is damaged");
    SENNIT_CHECK(!decoded.ok || decoded.values == values, "the forms decode other values");
  }
  if (!status.ok()) {
    return;
  }
  Bytes again(*most);
  again.resize(encode(codec, dtype, values.data(), count, again.data()));
  SENNIT_CHECK(decode(codec, dtype, again, values.data(), count).ok(), "what it made itself");
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;
  if (size < 4) {
    return 0;
  }
  const Codec codec = kCodecs[data[0] % kCodecs.size()];
  const Dtype dtype = kDtypes[data[1] % kDtypes.size()];
  if (!takes(codec, dtype)) {
    return 0;
  }
  Bytes coded(data + 4, data + size);
  // The count that was meant, or the one of so many bytes, so that lengths that vary are tried too.
  std::size_t count = data[2] | static_cast<std::size_t>(data[3]) << 8;
  if (!is_lossless(codec)) {
    const CodedBlocks block = blocks_of(codec, dtype);
    const std::size_t parts = kind_of(dtype) == Kind::kComplex ? 2 : 1;
    const auto group =
        static_cast<std::size_t>(block.bytes) * static_cast<std::size_t>(block.streams);
    const std::size_t groups = coded.size() / group;
    if (data[3] % 4 != 0) {
      coded.resize(groups * group);
      count = groups * static_cast<std::size_t>(block.values * block.streams) / parts;
    }
  }
  use(codec, dtype, coded, count);
  return 0;
}
