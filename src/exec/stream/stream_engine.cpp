#include "exec/stream/stream_engine.hpp"

#include "exec/stream/call_operations.hpp"
#include "exec/stream/leader_operations.hpp"
#include "exec/stream/staging_sizes.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sennit::stream {

Result<std::unique_ptr<StreamEngine>> StreamEngine::create(CudaDriver& driver,
                                                           std::vector<RankWords*> words,
                                                           std::int64_t staging_bytes) {
  std::unique_ptr<StreamEngine> engine(new StreamEngine(driver, std::move(words), staging_bytes));
  SENNIT_RETURN_IF_ERROR(engine->player_.reserve(kDirectStreams));
  return engine;
}

Status StreamEngine::use_rings(host::Rings rings) {
  SENNIT_RETURN_IF_ERROR(player_.reserve(kCallStreams));
  rings_ = std::move(rings);
  return {};
}

Status StreamEngine::run(const PlanProgram& program, const StreamCall& call, void* stream) {
  if (!program.by_leader.empty()) {
    list_.clear();
    append_by_leader(program.by_leader, program.rank, call, list_);
    return play(program.rank, call, stream, kLeaderBlocks);
  }
  const bool needs_rings = std::ranges::any_of(program.strands, [](const StrandProgram& strand) {
    const auto* const straight = std::get_if<StreamProgram>(&strand.program);
    return straight == nullptr || straight->uses_rings;
  });
  if (needs_rings && rings_.shape.slots == 0) {
    return fail(Code::kInternalError, "a strand through host memory has no rings");
  }
  if (const StreamProgram* const alone = program.alone()) {
    return run(*alone, call, stream);
  }
  list_.clear();
  append_call(program, call, rings_.shape, list_);
  return play(program.rank, call, stream);
}

Status StreamEngine::run(const StreamProgram& program, const StreamCall& call, void* stream) {
  const std::int64_t rounds =
      rounds_of(program, call.extent(), staging_.most_bytes(), rings_.shape);
  // The last round has what does not divide evenly.
  const Portion last{.before = rounds - 1, .share = 1, .total = rounds};
  if (program.uses_rings && longest_range(program.problem, last, call.extent()) >
                                static_cast<std::int64_t>(rings_.shape.bytes())) {
    return fail(Code::kUnsupported,
                "copies through host memory do not fit into rings of {} bytes: set "
                "SENNIT_HOST_RING_BYTES to more, or request a path without host",
                rings_.shape.bytes());
  }
  for (std::int64_t round = 0; round < rounds; ++round) {
    list_.clear();
    append_round(program, call, {.index = round, .count = rounds}, list_);
    SENNIT_RETURN_IF_ERROR(play(program.rank, call, stream));
  }
  return {};
}

std::int64_t StreamEngine::staging_needs(const StreamProgram& program, const Extent& extent) const {
  if (!program.is_staged()) {
    return 0;
  }
  std::int64_t room = 0;  // for the contribution of one rank
  const std::int64_t rounds = rounds_of(program, extent, staging_.most_bytes(), rings_.shape);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Portion portion{.before = round, .share = 1, .total = rounds};
    room = std::max(room, staging_room(program.problem, portion, extent));
  }
  return (program.problem.ranks - 1) * room;
}

// Where the memory of ranks lies: this rank's own, and that of others as it is mapped here.
Status StreamEngine::play(int rank, const StreamCall& call, void* stream, unsigned most_blocks) {
  std::array<std::byte*, kMaxRanks> inputs{};
  std::array<std::byte*, kMaxRanks> outputs{};
  std::array<std::byte*, kMaxRanks> stagings{};
  for (std::size_t peer = 0; peer < call.peers.size(); ++peer) {
    inputs[peer] = call.peers[peer].input;
    outputs[peer] = call.peers[peer].output;
    stagings[peer] = call.peers[peer].staging;
  }
  const auto own = static_cast<std::size_t>(rank);
  inputs[own] = const_cast<std::byte*>(call.input);  // is only read
  outputs[own] = call.output;
  stagings[own] = staging_.memory();
  return player_.play(list_,
                      {.memories = {inputs, outputs, stagings, rings_.bases},
                       .reduce = call.reduction,
                       .copy = call.copy,
                       .most_blocks = most_blocks,
                       .peers = call.peers},
                      stream);
}

}  // namespace sennit::stream
