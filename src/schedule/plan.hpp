// Strand and Plan: a schedule bound to the machine, and several of them sharing one message.
//
// A plan is a pure function of what all ranks share; structure_hash() names what a proof speaks of,
// plan_hash() travels in the fingerprint of every call.
#pragma once

#include "codec/tables.hpp"
#include "machine/path.hpp"
#include "schedule/schedule.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sennit {

enum class Protocol : std::uint8_t {
  kSlots,      // the writer fills a slot, the reader empties it
  kDirectGet,  // the reader takes the blocks out of the writer's own buffer
  kDirectPut,  // the writer puts the blocks into the reader's own buffer
  kLl,         // a flag next to every word
  kLl128,      // a flag in every 128-byte line
};

enum class Engine : std::uint8_t { kCpu, kSm, kStream };

inline constexpr std::size_t kMaxBundlePaths = 4;

// Who picks the path of a bundle's message.
enum class Chooser : std::uint8_t {
  kSender,
  // The sender asks, and the reader answers with a path; it may have the message sent again on the
  // other one of two. The sending step ends when the reader says so.
  kReader,
};

// How the messages of one channel travel. Several paths are a bundle: each message takes one of
// them, and the order of messages is that of their sequence numbers, whatever their paths.
struct ChannelBinding {
  std::vector<Path> paths{PathKind::kShm};  // at most kMaxBundlePaths, no two the same
  Protocol protocol = Protocol::kSlots;     // see protocol_on
  int slots = 2;                            // of each path
  Chooser chooser = Chooser::kSender;       // of a bundle
  // What the messages are coded by, block by block. A message that a step passes on as it came is
  // not coded again.
  std::optional<Codec> codec{};

  bool operator==(const ChannelBinding&) const = default;
};

// The protocol of the messages that take `path`. It is the binding's own; in a bundle, paths that
// do not reach into the peer's buffers (PathKindInfo::single_copy) carry slots where it is a direct
// one.
Protocol protocol_on(const ChannelBinding& binding, PathKind path);
// Whether some message may use, or every message uses, this protocol.
bool may_use(const ChannelBinding& binding, Protocol protocol);
bool always_uses(const ChannelBinding& binding, Protocol protocol);
// Whether a sending step lasts until its message has been taken: always, or on some of its paths.
bool holds(const ChannelBinding& binding);
bool may_hold(const ChannelBinding& binding);
// Messages that can lie in the slots of all paths together.
int capacity(const ChannelBinding& binding);

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
  // An interpreter kernel runs the steps one by one (exec/sm/step_call.hpp). No matter for the
  // proof, but ranks of another kernel would wait in other buffers.
  bool by_steps = false;
  // One rank runs the operations of all (exec/stream/leader_operations.hpp).
  bool by_leader = false;
  int share = 1;  // weight of this strand's part of every block, against the other strands'
  // Steps that copy or reduce input blocks of their own rank take decode(encode(x)) in place of x,
  // so that a rank's own contribution has the bits that the other ranks get of it.
  std::optional<Codec> home_codec{};

  bool operator==(const Strand& other) const;
};

// How the strands of a plan share the message.
enum class Division : std::uint8_t {
  kStatic,  // each carries a contiguous part of every block, by its share
  // A leader gives one grain after the other to the strand that has credit. Only strands that
  // compute the same expression trees may be chosen so; the verifier decides.
  kClaimed,
};

struct Plan {
  std::vector<Strand> strands;
  Division division = Division::kStatic;

  [[nodiscard]] const Problem& problem() const { return strands.front().schedule->problem; }
  bool operator==(const Plan&) const = default;
};

// Whether a channel, or a rank at home, codes values: what an executor has to be able to do.
bool has_codec(const Plan& plan);
// Of the first channel that has one: what people are shown.
std::optional<Codec> codec_of(const Plan& plan);

// Codes a strand's messages and, where all ranks have to get the same bits of a lossy codec, what a
// rank keeps of its own: everywhere but where each part has one receiver (all_to_all, gather,
// scatter, send_recv). There, what stays at home is exact.
void set_codec(Strand& strand, Codec codec);
// Tiles of a strand with a codec are multiples of this, 128 values of the largest type, so that no
// block of a codec lies in two.
inline constexpr std::int64_t kCodedTileAlignBytes = 2048;

// Every channel on `path` by `protocol` with `slots`, every lane on `engine`.
Strand bind(std::shared_ptr<const Schedule> schedule,
            PathKind path,
            Protocol protocol,
            int slots,
            Engine engine);

// Structure of schedules and bindings alone; see check_structure(const Schedule&).
Status check_structure(const Plan& plan);

// The rank that gives out the grains of a claimed plan.
int leader(const Plan& plan);
// The unit of a claim, in bytes of every block: the least common multiple of the strands' tiles.
std::int64_t grain_bytes(const Plan& plan);

// Everything that the proof depends on: all but tile sizes, shares and width, which change neither
// order nor values (copies share nothing, tiles are any number).
std::uint64_t structure_hash(const Plan& plan);
// Everything.
std::uint64_t plan_hash(const Plan& plan);

// Which part of every block a strand of a static plan carries, by the shares of all.
struct Portion {
  std::int64_t before = 0;  // shares of the strands before it
  std::int64_t share = 1;
  std::int64_t total = 1;

  // Of a block of `length` elements: contiguous, begun on 128-byte boundaries.
  [[nodiscard]] ElementRange of(std::int64_t length, std::int64_t element_bytes) const;
};
Portion portion_of(const Plan& plan, int index);

// The part of a block of `length` elements that strand `index` carries: its portion. In a claimed
// plan it may be any of its grains, so the part is the whole.
ElementRange strand_range(const Plan& plan,
                          int index,
                          std::int64_t length,
                          std::int64_t element_bytes);

inline constexpr std::array kProtocols = {
    Protocol::kSlots, Protocol::kDirectGet, Protocol::kDirectPut, Protocol::kLl, Protocol::kLl128};
inline constexpr std::array kEngines = {Engine::kCpu, Engine::kSm, Engine::kStream};
inline constexpr std::array kChoosers = {Chooser::kSender, Chooser::kReader};
inline constexpr std::array kDivisions = {Division::kStatic, Division::kClaimed};

std::string_view name(Protocol protocol);
std::string_view name(Engine engine);
std::string_view name(Chooser chooser);
std::string_view name(Division division);
Result<Protocol> parse_protocol(std::string_view text);

}  // namespace sennit
