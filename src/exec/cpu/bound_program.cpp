#include "exec/cpu/bound_program.hpp"

#include <utility>

namespace sennit {

BoundProgram::BoundProgram(Program program, HostRank& rank, std::span<const int> rank_of_role)
    : program_(std::move(program)), rank_(&rank) {
  links_.reserve(program_.links.size());
  for (const ProgramLink& link : program_.links) {
    const int peer =
        rank_of_role.empty() ? link.peer : rank_of_role[static_cast<std::size_t>(link.peer)];
    const int reader = link.outgoing ? peer : rank.rank;
    const bool crosses = link.path.kind == PathKind::kRail && rank.is_on_another_node(peer);
    const int card = link.path.card != Path::kReadersCard ? link.path.card : rank.rail_to(reader);
    links_.push_back(
        {.ring = link.outgoing ? rank.rings.ring(rank.rank, peer, link.port)
                               : rank.rings.ring(peer, rank.rank, link.port),
         .bell = &rank.bells[peer],
         .position = link.outgoing ? &rank.sent(peer, link.port) : &rank.received(peer, link.port),
         .credit = link.outgoing ? &rank.credit(peer, link.port) : nullptr,
         .stores = link.outgoing ? &rank.stores(peer, link.port) : nullptr,
         .memory = &rank.peers[static_cast<std::size_t>(peer)],
         .line = rank.lines == nullptr ? nullptr : &rank.lines[peer],
         .peer = peer,
         .port = link.port,
         .messages_per_tile = link.messages_per_tile,
         .path = link.path,
         .protocol = link.protocol,
         .rail = crosses ? card : -1});
  }
}

}  // namespace sennit
