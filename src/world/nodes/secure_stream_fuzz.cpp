// Any bytes from the other end of a connection between nodes. The first byte chooses the end that
// is tried, and whether the proofs have been given before; the next how the rest is cut. A stream
// never opens for bytes that were made without its key, and hands on no message of them; payloads
// are decoded as what they may be.
#include "world/nodes/node_frame.hpp"
#include "world/nodes/root_place.hpp"
#include "world/nodes/secure_stream.hpp"

#include <algorithm>
#include <utility>

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

void feed_in_pieces(SecureStream& stream, std::string_view bytes, std::size_t piece) {
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    stream.feed(bytes.substr(at, piece));
    SENNIT_CHECK(!stream.next(), "a message of a stranger");
  }
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  if (size < 2) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t piece = std::max<std::size_t>(data[1], 1);
  const StreamKey key{7};
  SecureStream guest = SecureStream::guest(key, 1, SecureStream::Nonce{1});
  SecureStream root = SecureStream::root(key, SecureStream::Nonce{2});
  const bool is_open = (data[0] & 2) != 0;
  if (is_open) {
    root.feed(std::exchange(guest.output(), {}));
    guest.feed(std::exchange(root.output(), {}));
    root.feed(std::exchange(guest.output(), {}));
  }
  SecureStream& tried = (data[0] & 1) != 0 ? root : guest;
  feed_in_pieces(tried, bytes, piece);
  SENNIT_CHECK(is_open || tried.state() != SecureStream::State::kOpen, "a stranger is let in");
  // A code cannot be guessed, so payloads are tried without it too.
  decode_and_encode(&decode_node_hello, &encode_node_hello, bytes);
  decode_and_encode(&decode_places, &encode_places, bytes);
  decode_and_encode(&decode_rails, &encode_rails, bytes);
  if (const auto place = parse_root(bytes, "key", PortRange()); place.ok()) {
    SENNIT_CHECK(!place->hosts.empty() && !place->ports.empty(), "a root without a place");
  }
  return 0;
}
