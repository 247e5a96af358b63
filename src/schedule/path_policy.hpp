// Path policies: how the sender of a bundle picks the path of a message.
//
// A policy is a value and a pick a pure function of what the sender sees, so a pick that had to
// wait is simply made again. Every policy is right (the proof of a bundle speaks of every choice);
// they differ in speed alone, and ranks need not agree on one.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace sennit {

enum class PathRule : std::uint8_t {
  kLeastLoaded,  // of the paths with a free slot, the one that would be through with this message
                 // first if it goes on as fast as it did
  kFixed,        // always the path `path`
  kRoundRobin,   // one path after the other
  kRandom,       // by `seed`
};

struct PathPolicy {
  PathRule rule = PathRule::kLeastLoaded;
  int path = 0;
  std::uint64_t seed = 0;

  bool operator==(const PathPolicy&) const = default;
};

// What the sender of a message sees of one path.
struct PathView {
  bool free = true;  // has a slot for the message now
  // On all bundles of this rank in this call: messages under way, and those already taken. At any
  // moment all paths have had the same time, so what they carried in it says how fast they are.
  std::int64_t under_way = 0;
  std::int64_t taken = 0;
};

// Which message it is: its number on its channel, and a number that identifies the channel.
struct MessageId {
  std::uint64_t number = 0;
  std::uint64_t channel = 0;
};

// The index of a path. It may have no free slot; the message then waits.
int pick(const PathPolicy& policy, const MessageId& message, std::span<const PathView> paths);

// "least_loaded", "fixed:1", "round_robin", "random" or "random:7".
Result<PathPolicy> parse_path_policy(std::string_view text);

}  // namespace sennit
