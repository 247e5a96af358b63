// Any bytes as a frame, and as the payload of every frame type: nothing, or a value that is encoded
// as it was read.
#include "world/rendezvous/frame.hpp"

namespace sennit {
namespace {

template <typename T>
void decode_and_encode(std::optional<T> (*decode)(std::string_view),
                       std::string (*encode)(const T&),
                       std::string_view payload) {
  if (const std::optional<T> value = decode(payload); value) {
    SENNIT_CHECK(encode(*value) == payload, "it is encoded differently");
  }
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  static const KeyDigest kKey = digest_key("fuzz");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto frame = decode_frame(kKey, bytes); frame) {
    SENNIT_CHECK(encode_frame(kKey, *frame) == bytes, "a frame is encoded differently");
  }
  // A digest cannot be guessed, so payloads are tried without it too.
  decode_and_encode(&decode_hello, &encode_hello, bytes);
  decode_and_encode(&decode_members, &encode_members, bytes);
  decode_and_encode(&decode_segment, &encode_segment, bytes);
  decode_and_encode(&decode_failure, &encode_failure, bytes);
  return 0;
}
