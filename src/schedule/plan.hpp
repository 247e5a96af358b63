// Strand and Plan: a schedule bound to the machine, and several of them sharing one message.
//
// A plan is a pure function of what all ranks share; structure_hash() names what a proof speaks of,
// plan_hash() travels in the fingerprint of every call.
#pragma once

#include "machine/path_kind.hpp"
#include "schedule/schedule.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace sennit {

enum class Protocol : std::uint8_t {
  kSlots,      // the writer fills a slot, the reader empties it
  kDirectGet,  // the reader takes the blocks out of the writer's own buffer
  kDirectPut,  // the writer puts the blocks into the reader's own buffer
  kLl,         // a flag beside every word
  kLl128,      // a flag in every 128-byte line
};

enum class Engine : std::uint8_t { kCpu, kSm, kStream };

// How the messages of one channel travel.
struct ChannelBinding {
  std::vector<PathKind> paths{PathKind::kShm};  // several: a bundle, the sender picks per message
  Protocol protocol = Protocol::kSlots;
  int slots = 2;

  bool operator==(const ChannelBinding&) const = default;
};

struct LaneBinding {
  Engine engine = Engine::kCpu;
  int burst = 1;  // this many consecutive tiles are one unit: one copy, one flag

  bool operator==(const LaneBinding&) const = default;
};

struct Strand {
  std::shared_ptr<const Schedule> schedule;
  std::vector<ChannelBinding> channels;         // one a channel of the schedule
  std::vector<std::vector<LaneBinding>> lanes;  // [rank][lane]
  std::int64_t tile_bytes = 64 * 1024;          // per block
  int width = 1;  // copies of the lanes; copy j runs tiles j, j + width, ...
  int share = 1;  // weight of this strand's part of every block, against the other strands'

  bool operator==(const Strand& other) const;
};

struct Plan {
  std::vector<Strand> strands;

  [[nodiscard]] const Problem& problem() const { return strands.front().schedule->problem; }
  bool operator==(const Plan&) const = default;
};

// Every channel on `path` by `protocol` with `slots`, every lane on `engine`.
Strand bind(std::shared_ptr<const Schedule> schedule,
            PathKind path,
            Protocol protocol,
            int slots,
            Engine engine);

// Structure of schedules and bindings alone; see check_structure(const Schedule&).
Status check_structure(const Plan& plan);

// Everything that the proof depends on: all but tile sizes, shares and width, which change neither
// order nor values (copies share nothing, tiles are any number).
std::uint64_t structure_hash(const Plan& plan);
// Everything.
std::uint64_t plan_hash(const Plan& plan);

// The part of a block of `length` elements that strand `index` carries: contiguous, begun on
// 128-byte boundaries, in proportion to the shares.
ElementRange strand_range(const Plan& plan,
                          int index,
                          std::int64_t length,
                          std::int64_t element_bytes);

inline constexpr std::array kProtocols = {
    Protocol::kSlots, Protocol::kDirectGet, Protocol::kDirectPut, Protocol::kLl, Protocol::kLl128};
inline constexpr std::array kEngines = {Engine::kCpu, Engine::kSm, Engine::kStream};

std::string_view name(Protocol protocol);
std::string_view name(Engine engine);
Result<Protocol> parse_protocol(std::string_view text);

}  // namespace sennit
