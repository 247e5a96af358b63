// The messages of a join over nodes, as payloads of a SecureStream. Decoders take what any process
// of the job may have written, also one of another version; they return nothing rather than a wrong
// value.
#pragma once

#include "world/rendezvous/frame.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

inline constexpr std::size_t kMaxRailAddress = 4096;
inline constexpr std::size_t kMaxNodeName = 512;
inline constexpr std::size_t kMaxHostAddress = 64;

enum class NodeMessageType : std::uint16_t {
  kHello = 1,     // to rank 0: who I am, where, and my settings
  kAccepted = 2,  // from rank 0: you are counted
  kPlaces = 3,    // from rank 0: which ranks are on which node, some of them
  kReady = 4,     // to rank 0: those of my node have met; with my rail address
  kRails = 5,     // from rank 0: rail addresses of some ranks
  kGo = 6,        // from rank 0: everybody has everything
  kFailure = 7,   // either way: the join has failed, and why
};

// Frames of `kPlaces` and `kRails` hold as many ranks as are sure to fit.
inline constexpr int kPlacesAFrame = 256;
inline constexpr int kRailsAFrame = 15;

struct NodeHello {
  Hello hello;
  pid_t pid = 0;        // on its own machine
  std::string node;     // equal for ranks that can share memory
  std::string machine;  // equal for ranks that see each other's processes
};

struct Place {
  int node = 0;
  int machine = 0;
  pid_t pid = 0;
  std::string host;
  std::string address;  // of the machine as rank 0 sees it; empty for rank 0's own
};

struct PlaceBatch {
  int first_rank = 0;
  std::vector<Place> places;
};

struct RailBatch {
  int first_rank = 0;
  std::vector<std::string> addresses;
};

std::string encode_node_hello(const NodeHello& hello);
std::optional<NodeHello> decode_node_hello(std::string_view payload);

std::string encode_places(const PlaceBatch& batch);
std::optional<PlaceBatch> decode_places(std::string_view payload);

std::string encode_rails(const RailBatch& batch);
std::optional<RailBatch> decode_rails(std::string_view payload);

}  // namespace sennit
