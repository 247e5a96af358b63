#include "exec/sm/reading_executable.hpp"

#include "exec/sm/direct_executable.hpp"
#include "select/read_choice.hpp"

#include <algorithm>
#include <utility>

namespace sennit::sm {
namespace {

// The part begins at the same distance from a multiple of 16 bytes in the buffers of all ranks that
// say so.
bool is_aligned(const DirectCall& direct) {
  const auto is_on_unit = [](const std::byte* buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer) % 16 == 0;
  };
  return is_on_unit(direct.input) && is_on_unit(direct.output) &&
         (direct.own_from.begin - direct.own_to.begin) % 16 == 0;
}

}  // namespace

Result<std::unique_ptr<Executable>> ReadingExecutable::compile(ProvedPlan proved,
                                                               const PlanKey& key,
                                                               Context& context) {
  SENNIT_ASSIGN_OR_RETURN(const DirectProgram program,
                          compile_direct(*proved.plan->strands.front().schedule, key.place));
  const int words = context.memory.fifos().plan().put_blocks / kAddressesOfBlock;
  const int blocks = reading_blocks(key.collective, program.problem.ranks, context.facts);
  return std::unique_ptr<Executable>(new ReadingExecutable(
      std::move(proved),
      program,
      std::max(1, std::min({blocks, words, kMostReadingBlocks, context.limits.blocks})),
      context));
}

// Where other ranks see the buffers of this one, if they do.
Status ReadingExecutable::find_buffers(const GpuCall& call, ReadingCall& reading) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, context_.driver.is_capturing(call.stream));
  const DirectCall& direct = reading.direct;
  const auto bytes = static_cast<std::int64_t>(size_bytes(op.dtype)) * op.count;
  const std::int64_t input_bytes =
      op.collective == Collective::kReduceScatter ? bytes * direct.ranks : bytes;
  // In memory that the ranks share; nobody writes an input.
  auto* const input = static_cast<std::byte*>(const_cast<void*>(op.send));
  reading.is_reached = is_aligned(direct);
  for (int rank = 0; rank < direct.ranks; ++rank) {
    if (rank == direct.rank) {
      continue;
    }
    ReadingCall::Peer& peer = reading.peers[static_cast<std::size_t>(rank)];
    peer.as_sender = context_.memory.pair(rank, /*sends=*/true).put;
    peer.as_receiver = context_.memory.pair(rank, /*sends=*/false).put;
    if (!is_capturing) {
      context_.message_puts->map_buffer_of(rank);
    }
    peer.input = context_.message_puts->address_at(rank, {.memory = input, .bytes = input_bytes});
    if (reading.stores_in_peers()) {
      peer.output = context_.message_puts->address_at(
          rank, {.memory = static_cast<std::byte*>(op.recv), .bytes = bytes});
    }
    reading.is_reached = reading.is_reached && peer.input != nullptr &&
                         (peer.output != nullptr || !reading.stores_in_peers());
  }
  return {};
}

// Reported as a message to and from each other rank, too, since it uses their words.
Result<Lack> ReadingExecutable::enqueue(const GpuCall& call) {
  const Operation& op = call.operation;
  ReadingCall reading{.direct = direct_call_of(program_,
                                               Packets::kSlots,
                                               call,
                                               hash(),
                                               context_.limits.within(op.request).blocks,
                                               context_),
                      .readers = op.request.within(readers_)};
  SENNIT_RETURN_IF_ERROR(find_buffers(call, reading));
  SENNIT_ASSIGN_OR_RETURN(
      const void* const kernel,
      context_.kernels.reducer(KernelKind::kReads, op.dtype, op.op, call.stream));
  const CallWords words = words_of(op, hash());
  for (int rank = 0; rank < reading.direct.ranks; ++rank) {
    if (rank != reading.direct.rank) {
      context_.ledger.report_message(rank, /*is_send=*/true, words);
      context_.ledger.report_message(rank, /*is_send=*/false, words);
    }
  }
  SENNIT_RETURN_IF_ERROR(context_.driver.launch(
      kernel,
      {.blocks = static_cast<unsigned>(reading.launched_blocks()), .threads = kThreads},
      &reading,
      call.stream));
  return Lack::kNothing;
}

}  // namespace sennit::sm
