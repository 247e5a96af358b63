// The calls of a DeviceComm in which kernels reach into the buffers of other ranks.
#include "comm/device/device_comm.hpp"
#include "exec/sm/direct_kernels.hpp"

#include <algorithm>

namespace sennit {
namespace {

sm::Elements elements_of(const Operation& operation) {
  return {operation.count, static_cast<std::int64_t>(size_bytes(operation.dtype))};
}

bool begins_a_unit(const void* buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer) % 16 == 0;
}

}  // namespace

Result<const DeviceComm::Putting*> DeviceComm::find_putting(const Operation& operation,
                                                            const DeviceChoice& choice) {
  const Key key = key_of(operation, choice);
  if (const auto known = puttings_.find(key); known != puttings_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const Proved proved, prove(operation, choice));
  const Plan& plan = *proved.plan;
  SENNIT_ASSIGN_OR_RETURN(const sm::PutProgram program,
                          sm::compile_put(*plan.strands.front().schedule, key.place));
  return &puttings_.emplace(key, Putting{program, plan_hash(plan), proved.proof.in_place})
              .first->second;
}

// As far as this rank knows. Units of 16 bytes are moved whole.
bool DeviceComm::can_put(const Operation& operation, const Putting& putting) const {
  return begins_a_unit(operation.send) && begins_a_unit(operation.recv) &&
         sm::lies_alike(putting.program, elements_of(operation)) &&
         (putting.may_be_in_place || !is_in_place(operation, world_.rank(), world_.size()));
}

Result<bool> DeviceComm::put(const Call& call, const DeviceChoice& choice) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const Putting* const putting, find_putting(op, choice));
  announce(op, putting->plan_hash);
  const Result<bool> is_put = put_announced(call, *putting);
  return is_put.ok() ? is_put : give_up(is_put.status());
}

Result<bool> DeviceComm::put_announced(const Call& call, const Putting& putting) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(call.stream));
  SENNIT_ASSIGN_OR_RETURN(const auto peers,
                          copy_engines_->agreement().reach({.output = op.recv,
                                                            .takes_part = can_put(op, putting),
                                                            .is_capturing = is_capturing,
                                                            .trouble = trouble_of(op)}));
  if (!peers) {
    return false;
  }
  SENNIT_RETURN_IF_ERROR(launch_put(call, putting, *peers));
  return true;
}

Status DeviceComm::launch_put(const Call& call,
                              const Putting& putting,
                              const std::vector<stream::Buffers>& peers) {
  const Operation& op = call.operation;
  const sm::Elements elements = elements_of(op);
  sm::PutBuffers buffers{.input = static_cast<const std::byte*>(op.send), .outputs = {}};
  sm::PutCall put;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const bool is_own = rank == world_.rank();
    buffers.outputs[at] = is_own ? static_cast<std::byte*>(op.recv) : peers[at].output;
    put.words[at] = memory_->put_words(rank);
  }
  sm::bind(putting.program, elements, buffers, put);
  put.source_words = static_cast<std::uint32_t>(memory_->shape().most_blocks());
  put.calls = memory_->put_calls();
  put.board = memory_->board_on_device();
  put.deadline_ns = deadline_ns(op);
  put.fingerprint = fingerprint_of(words_of(op, putting.plan_hash));
  // Of the longest range, and so the same on all ranks.
  const std::int64_t chunks =
      sm::chunks_of(0, sm::longest_range(putting.program.own.problem, op.count, elements.bytes));
  put.blocks = static_cast<std::int32_t>(std::clamp<std::int64_t>(
      chunks, 1, std::min(memory_->block_limit(), memory_->shape().most_blocks())));
  return driver_.launch(sm::moving_kernel(sm::KernelKind::kPut),
                        {.blocks = static_cast<unsigned>(put.blocks), .threads = sm::kThreads},
                        &put,
                        call.stream);
}

}  // namespace sennit
