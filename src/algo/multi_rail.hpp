// The exchange of the multi-rail rows, where groups are nodes.
//
// What a rank has for another node goes to its counterpart there, so that every rank drives a
// network card (a rail) of its own; the counterpart hands it on within its node. What a rank has
// for its own node goes there directly. In round d node j sends to node j + d.
//
// A rank has four lanes: one sends to its node and runs ahead, one sends by rail, one takes from
// the rail and hands on, and one takes what its node hands over. Suresh et al. finish the exchange
// within nodes before anything is handed on; here a member takes tile t of both before tile t + 1
// of either, so the exchange within the node is ahead by as many tiles as channels have slots.
#pragma once

#include "algo/groups.hpp"
#include "schedule/builder.hpp"

#include <functional>

namespace sennit::algo {

// The `index`-th message that comes by rail to rank `at`.
struct RailMessage {
  int at = 0;
  int source = 0;
  int index = 0;
};

// In which blocks the messages lie. Whatever comes from a rank ends in the output block of its
// number.
struct RailBlocks {
  std::function<Blocks(int node)> for_node;                     // of the sender, by rail
  std::function<Block(int member)> for_member;                  // of the sender, within the node
  std::function<Blocks(const RailMessage&)> landing;            // where a message by rail is stored
  std::function<Block(const RailMessage&, int member)> handed;  // what of it `member` gets
};

void add_multi_rail_exchange(Builder& b, const Groups& groups, const RailBlocks& blocks);

// Closed forms of both rows: blocks that one member hands to another (its own for it, and one from
// each rank that it stands for), and rounds.
std::int64_t multi_rail_blocks_within(const Groups& groups, int from);
std::int64_t multi_rail_rounds(const Shape& shape);

}  // namespace sennit::algo
