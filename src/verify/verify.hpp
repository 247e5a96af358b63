// The verifier: decides, exactly, whether a plan is right. It speaks of the very object that the
// executor runs: after fusion, with its protocols and slot counts, for any number of tiles.
//
//   Result<Proof> proof = verify(plan);
//   if (!proof.ok()) { ... proof.status().message() says which rank, lane, step and block ... }
//
// What is proved, and how (docs/schedule_proofs.md has the derivations):
//  - live: the graph of steps with tile delays has no cycle of delay zero, so the plan ends for
//    every number of tiles and every order of execution;
//  - values: every output block holds each contribution exactly once, in the same expression tree
//    on all ranks (bit identity);
//  - races: any two accesses to one cell, one of them a write, are ordered by the same graph;
//    out of place, and in place on every rank;
//  - scratch: every read of a scratch cell is preceded by a write of the same tile;
//  - codecs: what a lossy one changes is changed once, on its way or at home; sums are made of such
//    contributions alone, and a sum that is coded before it is sent is kept as the others get it;
//  - choices at run time: all of this for every choice of paths that the senders of bundles may
//    make, and what a message carries does not depend on it; strands that are claimed compute the
//    same expression trees.
//
// What the proof takes for granted of whoever executes the plan, beyond schedule.hpp:
//  - a step that sends by direct_get frees its `in` slots once it has consumed them, and ends, for
//    lane successors and `after`, only when every reader has read its blocks;
//  - the messages of a bundle are taken in the order in which they were sent, and a path that
//    exposes (direct_get) is picked only with the consequence above;
//  - a message sent by direct_put is written when the sender runs, whether or not the recipient has
//    come to its step;
//  - `pre` scales what a step reads out of input blocks, and nothing else, and rounds it before it
//  is
//    reduced: contributions that are sent and those that are reduced at home are the same bits;
//  - what a step makes and sends on a channel with a codec is coded after it was scaled, and what
//  it
//    stores of it as well is what the readers decode; a recv passes on the bytes that came;
//    decode(encode(x)) depends on x and the codec alone;
//  - `home_codec` changes so what a copy or a reduction reads out of input blocks;
//  - a lane with burst b runs each step for b tiles at once: all messages in, all slots free.
//
// Thread-safe; nothing is shared between calls.
#pragma once

#include "schedule/plan.hpp"
#include "schedule/scaling.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sennit {

// Which protocols a channel may use with everything else unchanged.
struct ProtocolSet {
  bool slots = false;
  bool direct_get = false;
  bool direct_put = false;
};

struct Proof {
  std::uint64_t structure_hash = 0;
  bool in_place = false;         // holds as well when any of the ranks, or all, work in place
  std::string why_not_in_place;  // the first defect found when not
  ScaledParts scaled;            // in every output: its contributions, its sum, exactly once
  bool reproducible = false;     // all outputs have one expression tree, the canonical one of n
};

// Proves `plan` out of place, and finds out whether it also holds in place. A failure has the code
// kNotProved and names the first defect found.
Result<Proof> verify(const Plan& plan);

// The protocols that each channel of strand `strand_index` may use, all other channels bound as
// they are. Expensive: one proof a channel and protocol.
std::vector<ProtocolSet> legal_protocols(const Plan& plan, int strand_index);

// Blocks sent from rank to rank for one tile of a schedule: [from * ranks + to].
std::vector<std::int64_t> link_blocks(const Schedule& schedule);

// Messages in the longest dependent chain of one tile; -1 when steps wait for each other in a
// circle whatever the slots.
std::int64_t longest_chain(const Schedule& schedule);

}  // namespace sennit
