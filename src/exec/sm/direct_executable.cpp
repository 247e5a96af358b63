#include "exec/sm/direct_executable.hpp"

#include "exec/row_norm_call.hpp"
#include "exec/sm/norming_call.hpp"
#include "exec/sm/small_call.hpp"

#include <algorithm>
#include <utility>

namespace sennit::sm {
namespace {

// Byte of a range at which the last packets of the last block begin.
std::int64_t last_block(const Geometry& g, Packets packets) {
  return (std::int64_t{g.rounds} * g.blocks - 1) * g.warps * g.depth * payload_bytes(packets);
}

}  // namespace

DirectCall direct_call_of(const DirectProgram& program,
                          Packets packets,
                          const GpuCall& call,
                          std::uint64_t hash,
                          int most_blocks,
                          const Context& context) {
  const Operation& op = call.operation;
  const DeviceMemory& memory = context.memory;
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(op.dtype));
  DirectCall direct;
  direct.input = static_cast<const std::byte*>(op.send);
  direct.output = static_cast<std::byte*>(op.recv);
  direct.scalar = op.scaling.scalar;
  direct.scalar_on_device = static_cast<const std::byte*>(op.scalar_on_device);
  bind(program, op.count, element_bytes, direct);
  direct.on_host = !context.facts.reach;
  direct.states = memory.states();
  direct.error_word = memory.error_word_on_device();
  direct.packets = packets;
  direct.layout = memory.shape().layout(packets);
  direct.deadline_ns = call.deadline_ns();
  direct.fingerprint = fingerprint_of(words_of(op, hash));
  for (int rank = 0; rank < memory.ranks(); ++rank) {
    direct.fifos[static_cast<std::size_t>(rank)] = memory.fifo(rank);
  }
  const Geometry geometry = geometry_for(longest_range(program.problem, op.count, element_bytes),
                                         packets,
                                         memory.shape(),
                                         most_blocks);
  apply(geometry, direct);
  direct.all_heard = hears_all(direct, last_block(geometry, packets));
  return direct;
}

Result<std::unique_ptr<Executable>> DirectExecutable::compile(ProvedPlan proved,
                                                              const PlanKey& key,
                                                              Context& context) {
  SENNIT_ASSIGN_OR_RETURN(const DirectProgram program,
                          compile_direct(*proved.plan->strands.front().schedule, key.place));
  const Packets packets = packets_of(key.choice.protocol, context.facts);
  return std::unique_ptr<Executable>(
      new DirectExecutable(std::move(proved), program, packets, context));
}

// Of one hop, in packets that say for themselves when they have come. The kernel has 32 bits for
// places in a buffer.
bool DirectExecutable::normalises(const Operation& op) const {
  return op.rms_norm.has_value() && op.bytes() <= INT32_MAX && packets_ == Packets::kLl &&
         context_.facts.reach && program_.problem.ranks > 1 && program_.forward_to == 0 &&
         program_.arrive_from != 0;
}

Status DirectExecutable::launch_norming(const GpuCall& call, const DirectCall& direct) {
  const RowNormCall norm = row_norm_call(call.operation);
  NormingCall norming;
  SENNIT_CHECK(make_norming(direct, norm, norming), "normalises() has said so");
  SENNIT_ASSIGN_OR_RETURN(
      const void* const kernel,
      context_.kernels.normer(norming_kernel(call.operation.dtype), call.stream));
  const int most = std::min(context_.limits.within(call.operation.request).blocks,
                            context_.memory.shape().ll_blocks);
  return context_.driver.launch(
      kernel,
      {.blocks = static_cast<unsigned>(std::min<std::int64_t>(most, norm.row_count)),
       .threads = static_cast<unsigned>(row_threads(norm.row_bytes))},
      &norming,
      call.stream);
}

Result<Lack> DirectExecutable::enqueue(const GpuCall& call) {
  const Operation& op = call.operation;
  const DirectCall direct = direct_call_of(
      program_, packets_, call, hash(), context_.limits.within(op.request).blocks, context_);
  if (normalises(op)) {
    SENNIT_RETURN_IF_ERROR(launch_norming(call, direct));
    return Lack::kNothing;
  }
  SmallCall small;
  const bool is_small = packets_ == Packets::kLl && make_small(direct, small);
  const KernelKind kind = is_small ? KernelKind::kSmall : kernel_kind(packets_);
  const void* kernel = moving_kernel(kind);
  if (is_reduction(op.collective)) {
    SENNIT_ASSIGN_OR_RETURN(kernel, context_.kernels.reducer(kind, op.dtype, op.op, call.stream));
  }
  SENNIT_RETURN_IF_ERROR(
      context_.driver.launch(kernel,
                             {.blocks = static_cast<unsigned>(direct.blocks),
                              .threads = static_cast<unsigned>(direct.warps) * 32},
                             is_small ? static_cast<const void*>(&small) : &direct,
                             call.stream));
  return Lack::kNothing;
}

}  // namespace sennit::sm
