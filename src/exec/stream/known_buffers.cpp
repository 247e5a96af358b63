#include "exec/stream/known_buffers.hpp"

#include <utility>

namespace sennit::stream {
namespace {

// Whether every rank receives.
bool has_outputs_everywhere(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kBroadcast:
      return true;
    default:
      return false;
  }
}

std::vector<std::byte*> of_ranks(const std::vector<Buffers>& buffers,
                                 std::byte* Buffers::* member) {
  std::vector<std::byte*> found;
  found.reserve(buffers.size());
  for (const Buffers& of_rank : buffers) {
    found.push_back(of_rank.*member);
  }
  return found;
}

}  // namespace

WindowPlace KnownBuffers::place_of(const Call& call) const {
  const sennit::Operation& op = call.operation;
  // A premul_sum has a scalar of each rank, which the others learn when they meet.
  const bool may_be_known = call.is_uniform && has_outputs_everywhere(op.collective) &&
                            !scales_contributions(op.op) &&
                            (call.program.may_be_in_place() || !is_in_place(op, rank_, ranks_));
  return may_be_known ? memory_.place_of(op.recv, buffer_needs(op, rank_, ranks_).output_bytes)
                      : WindowPlace();
}

WindowPlace KnownBuffers::known_place(const Call& call) const {
  const WindowPlace place = place_of(call);
  const bool is_known = memory_.knows(place) && call.staging_bytes <= known_staging_bytes_;
  return is_known ? place : WindowPlace();
}

std::vector<Buffers> KnownBuffers::buffers_at(const WindowPlace& place) const {
  std::vector<Buffers> buffers;
  for (std::byte* const output : memory_.buffers_at(place)) {
    buffers.push_back({.output = output});
  }
  for (std::size_t rank = 0; rank < staging_of_ranks_.size(); ++rank) {
    buffers[rank].staging = staging_of_ranks_[rank];
  }
  return buffers;
}

void KnownBuffers::learn(const Call& call,
                         const std::vector<Buffers>& buffers,
                         bool are_at_one_place) {
  if (call.is_uniform && call.program.exposes_staging()) {
    staging_of_ranks_ = of_ranks(buffers, &Buffers::staging);
    known_staging_bytes_ = call.staging_bytes;
  }
  if (are_at_one_place) {
    std::vector<std::byte*> outputs = of_ranks(buffers, &Buffers::output);
    outputs[static_cast<std::size_t>(rank_)] = static_cast<std::byte*>(call.operation.recv);
    memory_.learn(place_of(call), std::move(outputs));
  }
}

}  // namespace sennit::stream
