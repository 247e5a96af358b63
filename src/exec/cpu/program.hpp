// Program: one rank's part of a proved plan, with everything looked up that does not change from
// call to call: rings, message numbers, waits between lanes. Made once a plan, run by Job.
#pragma once

#include "schedule/plan.hpp"
#include "verify/verify.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sennit {

// The block of the problem that gives a length; a space of its own matters only where lengths vary.
struct LengthOf {
  Space space = Space::kInput;
  int index = 0;
};

// A block, and where it lies if it is scratch.
struct Piece {
  Space space = Space::kInput;
  int index = 0;
  // Scratch: tile t of a strand copy lies at offset + (t mod depth) * instance_bytes.
  std::int64_t offset = 0;
  std::int64_t instance_bytes = 0;
  int depth = 1;
};

// One ring between this rank and a peer, as a rule one direction of one channel.
struct ProgramLink {
  int peer = 0;
  int port = 0;  // of the rings from writer to reader
  bool outgoing = false;
  // 0 where the plan does not say: on the paths of a bundle, and on rings of orders and claims.
  int messages_per_tile = 0;
  int strand = 0;
  int copy = 0;
  Path path = PathKind::kShm;
  Protocol protocol = Protocol::kSlots;
  // Where lengths vary: the blocks of each message of a tile, as this rank knows them, and whether
  // a message is left out of the tiles beyond its longest block.
  std::vector<std::vector<LengthOf>> messages{};
  bool skips = false;
};

// This rank's end of a bundle.
struct ProgramBundle {
  int first_link = 0;  // one link a path, in the order of the channel's paths
  int paths = 0;
  bool outgoing = false;
  int messages_per_tile = 0;
  int channel = 0;
  int strand = 0;
  int copy = 0;
  int ask = -1;  // links of the reader's choice, see exec/cpu/bundle.hpp; -1: the sender chooses
  int order = -1;
};

// A message of a step.
struct MessageRef {
  int link = 0;   // index into Program::links
  int index = 0;  // among the link's messages of one tile
  Protocol protocol = Protocol::kSlots;
  int bundle = -1;  // index into Program::bundles, which then gives link and protocol
  std::optional<Codec> codec{};
};

// Step `step` of lane `lane` (of the same strand copy) must have finished tile t - delay.
struct Wait {
  int lane = 0;  // index into Program::lanes
  int step = 0;
  int delay = 0;
};

struct ProgramStep {
  StepKind kind = StepKind::kToken;
  std::vector<Piece> from;
  std::vector<Piece> to;
  std::vector<LengthOf> lengths_of;  // of the step's messages, block by block
  std::vector<MessageRef> in;
  std::vector<MessageRef> out;
  std::vector<int> order;
  bool pre = false;
  bool post = false;
  std::vector<Wait> waits;
  std::optional<Codec> home_codec{};  // of what it reads out of input blocks, if it keeps that
  bool is_coded = false;              // it has that, or a message with a codec
};

struct ProgramLane {
  int strand = 0;
  int copy = 0;  // runs tiles copy, copy + width, ...
  int burst = 1;
  int schedule_lane = 0;  // index in the schedule, for messages and traces
  std::vector<ProgramStep> steps;
};

struct Program {
  std::shared_ptr<const Plan> plan;
  std::uint64_t plan_hash = 0;
  Proof proof;
  int rank = 0;
  std::vector<ProgramLink> links;
  std::vector<ProgramBundle> bundles;
  std::vector<int> log_links;  // of a claimed plan: the leader's to all others, or the one from it
  std::vector<ProgramLane> lanes;
  // Indices of lanes in the order in which they are tried. Those that begin with a send come first:
  // peers wait for it, and a fetch out of a peer's memory may take long.
  std::vector<std::size_t> turns;
  std::int64_t scratch_bytes = 0;
  std::vector<Codec> codecs;  // of its steps
  std::size_t most_coded_operands = 1;
};

struct ProgramLimits {
  int ports = 1;
  std::uint32_t slots = 1;
  std::size_t slot_bytes = 0;
  int first_port = 0;
};

// The part of `rank`. Refused (kNotProved) unless `proof` speaks of exactly this plan; kUnsupported
// for what the cpu engine or these limits cannot carry.
Result<Program> compile(std::shared_ptr<const Plan> plan,
                        const Proof& proof,
                        int rank,
                        const ProgramLimits& limits);

}  // namespace sennit
