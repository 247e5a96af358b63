// Schedule: the program of a collective for one tile, as plain data.
//
// For each rank it holds lanes of steps; lanes of different ranks are joined by channels. A tile is
// the same small range of every block at once; the program runs for tile 0, 1, 2, ... A schedule
// knows no size, no dtype and no device. docs/schedule.md explains it with a worked example;
// Builder (schedule/builder.hpp) makes one, to_text (schedule/text.hpp) prints one.
//
// What a step may assume, exactly:
//  - It starts when its predecessor in the lane, its `after` steps of the same tile, and all users
//    of the scratch instances it touches at tile t - depth have finished, every `in` message is
//    full, and every `out` channel has a free slot.
//  - At its end its sources may be overwritten, its results are visible to lane successors and to
//    steps that name it in `after`, its `in` slots are free again, its `out` messages are full.
//  - Rounding happens once, at the end of a step: no pass splits or joins reductions.
#pragma once

#include "schedule/problem.hpp"
#include "types/types.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

enum class Space : std::uint8_t { kInput, kOutput, kScratch };

// A block of the step's own rank.
struct Block {
  Space space = Space::kInput;
  int scratch = 0;  // index into Schedule::scratch when space is kScratch, else 0
  int index = 0;

  bool operator==(const Block&) const = default;
  auto operator<=>(const Block&) const = default;
};

inline Block input_block(int index) { return {Space::kInput, 0, index}; }
inline Block output_block(int index) { return {Space::kOutput, 0, index}; }
inline Block scratch_block(int scratch, int index) { return {Space::kScratch, scratch, index}; }

enum class Place : std::uint8_t { kDevice, kHost };

// Memory that every rank has for the duration of a call. Tile t uses instance t mod depth. Of a cut
// vector, scratch block i is as long as block i and holds no other.
struct Scratch {
  std::string name;
  int blocks = 1;
  int depth = 1;
  Place place = Place::kDevice;

  bool operator==(const Scratch&) const = default;
};

enum class StepKind : std::uint8_t {
  kSend,        // from -> out
  kRecv,        // in -> to, and on to out (a fused recv + send)
  kRecvReduce,  // reduce(from and the in messages) -> to and out
  kCopy,        // from -> to
  kReduce,      // reduce(groups of from) -> to and out
  kToken,       // in and out messages without data
};

// Step `step` of lane `lane` of the same rank, at the same tile.
struct StepRef {
  int lane = 0;
  int step = 0;

  bool operator==(const StepRef&) const = default;
  auto operator<=>(const StepRef&) const = default;
};

// One record for every kind. A message is a list of k blocks with one flag; the lists `from`, `to`
// and the message correspond element by element.
//   kSend:       from[k], out[>= 1]
//   kRecv:       in[1], to[k], out[any]; `to` may be empty when the message only passes through
//   kRecvReduce: in[>= 1], from[k] or empty, to[k] or empty, out[any]; operands are `from` (if
//                there), then the messages in the order of `in`
//   kCopy:       from[k], to[k]
//   kReduce:     from[m * k], to[k], out[any]; operand j is from[j * k .. j * k + k)
//   kToken:      in[any], out[any]
struct Step {
  StepKind kind = StepKind::kToken;
  std::vector<Block> from{};
  std::vector<Block> to{};
  std::vector<int> in{};     // channels, indices into Schedule::channels
  std::vector<int> out{};    // channels
  std::vector<int> order{};  // operands of a reduction, first to last; empty: as they stand
  bool pre = false;          // what is read out of input blocks is scaled, and rounded, first
  bool post = false;         // the result is the finished sum, and is scaled before it is rounded
  std::vector<StepRef> after{};

  bool operator==(const Step&) const = default;
};

// What a lane needs of the engine that runs it.
enum class Need : std::uint8_t { kMove, kReduce };

struct Lane {
  Need need = Need::kMove;
  std::vector<Step> steps;

  bool operator==(const Lane&) const = default;
};

struct LaneId {
  int rank = 0;
  int lane = 0;

  bool operator==(const LaneId&) const = default;
  auto operator<=>(const LaneId&) const = default;
};

// A FIFO of messages from one lane to one lane on each reading rank (one reader: a pair; several:
// a hub, written once and read by all).
struct Channel {
  LaneId writer;
  std::vector<LaneId> readers;
  // Every block goes straight from its owner to its final place, so both ends know its length.
  // Where lengths vary, tiles beyond the longest block of a message are without that message.
  bool single_hop = false;

  bool operator==(const Channel&) const = default;
};

struct Schedule {
  std::string algorithm;
  Problem problem;
  std::vector<Scratch> scratch;
  std::vector<Channel> channels;
  std::vector<std::vector<Lane>> ranks;  // [rank][lane]

  bool operator==(const Schedule&) const = default;
};

// Number of messages a tile that the step lists of `channel`'s writer (or reader) name.
int messages_per_tile(const Schedule& schedule, int channel);

// Blocks in the largest message of the schedule; 0 when there is none with data.
int largest_message_blocks(const Schedule& schedule);

// The messages of `channel` lie in blocks of the writer when they are sent, and are stored, not
// reduced or passed on unseen, by every reader: what the direct protocols need.
bool is_stored_whole(const Schedule& schedule, int channel);

// Structure alone: names are words, indices in range, list lengths as the kinds demand, channels
// used only by their own lanes and equally often at both ends. What passes can be printed, hashed
// and given to the verifier; it may still be wrong in every way that a proof is for.
Status check_structure(const Schedule& schedule);

inline constexpr std::array kPlaces = {Place::kDevice, Place::kHost};
inline constexpr std::array kNeeds = {Need::kMove, Need::kReduce};
inline constexpr std::array kStepKinds = {StepKind::kSend,
                                          StepKind::kRecv,
                                          StepKind::kRecvReduce,
                                          StepKind::kCopy,
                                          StepKind::kReduce,
                                          StepKind::kToken};

std::string_view name(StepKind kind);
std::string_view name(Space space);
std::string_view name(Place place);
std::string_view name(Need need);

}  // namespace sennit
