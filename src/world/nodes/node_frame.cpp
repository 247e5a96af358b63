#include "world/nodes/node_frame.hpp"

#include "world/nodes/secure_stream.hpp"
#include "world/rendezvous/wire.hpp"

namespace sennit {
namespace {

constexpr std::size_t kPlaceBytes = 4 + 4 + 4 + 2 + kMaxHostNameBytes + 2 + kMaxHostAddress;
static_assert(6 + kPlacesAFrame * kPlaceBytes <= kMaxNodePayload);
static_assert(6 + kRailsAFrame * (2 + kMaxRailAddress) <= kMaxNodePayload);

bool is_batch(int first_rank, int count, int most) {
  return first_rank >= 0 && count <= most && first_rank + count <= kMaxRanks;
}

}  // namespace

std::string encode_node_hello(const NodeHello& hello) {
  WireWriter out;
  out.number<std::int32_t>(hello.pid);
  out.text(hello.node);
  out.text(hello.machine);
  out.bytes(encode_hello(hello.hello));
  return out.take();
}

std::optional<NodeHello> decode_node_hello(std::string_view payload) {
  WireReader in(payload);
  NodeHello result;
  result.pid = in.number<std::int32_t>();
  result.node = in.text(kMaxNodeName);
  result.machine = in.text(kMaxNodeName);
  const std::size_t before =
      sizeof(std::int32_t) + 2 * sizeof(std::uint16_t) + result.node.size() + result.machine.size();
  if (!in.good() || result.pid < 0) {
    return std::nullopt;
  }
  const std::optional<Hello> hello = decode_hello(payload.substr(before));
  if (!hello) {
    return std::nullopt;
  }
  result.hello = *hello;
  return result;
}

std::string encode_places(const PlaceBatch& batch) {
  WireWriter out;
  out.number<std::int32_t>(batch.first_rank);
  out.number(static_cast<std::uint16_t>(batch.places.size()));
  for (const Place& place : batch.places) {
    out.number<std::int32_t>(place.node);
    out.number<std::int32_t>(place.machine);
    out.number<std::int32_t>(place.pid);
    out.text(place.host);
    out.text(place.address);
  }
  return out.take();
}

std::optional<PlaceBatch> decode_places(std::string_view payload) {
  WireReader in(payload);
  PlaceBatch batch;
  batch.first_rank = in.number<std::int32_t>();
  const int count = in.number<std::uint16_t>();
  if (!is_batch(batch.first_rank, count, kPlacesAFrame)) {
    return std::nullopt;
  }
  for (int index = 0; index < count && in.good(); ++index) {
    Place place;
    place.node = in.number<std::int32_t>();
    place.machine = in.number<std::int32_t>();
    place.pid = in.number<std::int32_t>();
    place.host = in.text(kMaxHostNameBytes);
    place.address = in.text(kMaxHostAddress);
    // A node has the number of nodes below it, and no more of these than ranks; so has a machine.
    const int most = batch.first_rank + index;
    if (place.node < 0 || place.node > most || place.machine < 0 || place.machine > most ||
        place.pid < 0) {
      return std::nullopt;
    }
    batch.places.push_back(std::move(place));
  }
  return in.complete() ? std::optional(std::move(batch)) : std::nullopt;
}

std::string encode_rails(const RailBatch& batch) {
  WireWriter out;
  out.number<std::int32_t>(batch.first_rank);
  out.number(static_cast<std::uint16_t>(batch.addresses.size()));
  for (const std::string& address : batch.addresses) {
    out.text(address);
  }
  return out.take();
}

std::optional<RailBatch> decode_rails(std::string_view payload) {
  WireReader in(payload);
  RailBatch batch;
  batch.first_rank = in.number<std::int32_t>();
  const int count = in.number<std::uint16_t>();
  if (!is_batch(batch.first_rank, count, kRailsAFrame)) {
    return std::nullopt;
  }
  for (int index = 0; index < count && in.good(); ++index) {
    batch.addresses.push_back(in.text(kMaxRailAddress));
  }
  return in.complete() ? std::optional(std::move(batch)) : std::nullopt;
}

}  // namespace sennit
