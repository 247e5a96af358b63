#include "comm/device/device_comm.hpp"

#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/small_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace sennit {
namespace {

// Byte of a range at which the last packets of the last block begin.
std::int64_t last_block(const sm::Geometry& g, sm::Packets packets) {
  return (std::int64_t{g.rounds} * g.blocks - 1) * g.warps * g.depth * payload_bytes(packets);
}

int root_of(const Operation& operation) {
  return is_rooted(operation.collective) ? operation.root : 0;
}

// `groups`: of the ranks, for algorithms that look at them.
Shape shape_of(const Operation& operation, int ranks, const std::vector<std::vector<int>>& groups) {
  if (operation.collective == Collective::kSendRecv) {
    return {.ranks = 2};
  }
  return {
      .ranks = ranks, .root = root_of(operation), .groups = groups, .varying = operation.varying};
}

// Of a rank in the schedule: a send_recv has a sender, 0, and a receiver.
int place_of(const Operation& operation, int rank) {
  const bool is_pair = operation.collective == Collective::kSendRecv;
  return is_pair ? (operation.is_send ? 0 : 1) : rank;
}

}  // namespace

sm::Packets DeviceComm::packets_of(Protocol protocol) const {
  return protocol == Protocol::kLl      ? sm::Packets::kLl
         : protocol == Protocol::kLl128 ? sm::Packets::kLl128
         : facts_.nvlink                ? sm::Packets::kSlots
                                        : sm::Packets::kPlain;
}

DeviceComm::DeviceComm(CudaDriver& driver, int device, World& world, Options options)
    : driver_(driver),
      device_(device),
      world_(world),
      options_(std::move(options)),
      order_(driver),
      comparison_(world),
      message_comparison_(world) {}

Result<std::unique_ptr<DeviceComm>> DeviceComm::create(CudaDriver& driver,
                                                       int device,
                                                       World& world,
                                                       const Options& options,
                                                       const Exchange& exchange) {
  const DeviceScope scope(driver, device);
  SENNIT_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<DeviceComm> comm(new DeviceComm(driver, device, world, options));
  SENNIT_ASSIGN_OR_RETURN(
      comm->memory_,
      DeviceMemory::create(
          driver,
          {.device = device, .rank = world.rank(), .ranks = world.size(), .group = options.group},
          {.blocks = options.blocks,
           .nvlink = options.nvlink,
           .groups_by = options.groups_by,
           .host = world.host_arenas()},
          exchange));
  SENNIT_RETURN_IF_ERROR(comm->order_.open());
  SENNIT_RETURN_IF_ERROR(comm->preload());
  SENNIT_ASSIGN_OR_RETURN(comm->token_,
                          driver.allocate(static_cast<std::size_t>(world.size()) * 16));
  SENNIT_RETURN_IF_ERROR(comm->open_copy_engines(exchange));
  comm->start_watching();
  return comm;
}

DeviceComm::~DeviceComm() {
  (void)finalize();
  leave_watched();
  message_puts_.reset();  // both know the memory
  copy_engines_.reset();
  if (token_ != nullptr) {
    const DeviceScope scope(driver_, device_);
    (void)driver_.release(token_);
  }
}

Status DeviceComm::preload() {
  for (const int calls : {sm::kFewPairCalls, sm::kMaxPairCalls}) {
    for (const bool on_host : {false, true}) {
      SENNIT_RETURN_IF_ERROR(driver_.preload(sm::pairs_kernel(calls, on_host)));
    }
  }
  for (const int calls : {sm::kFewSmallPairs, sm::kMaxSmallPairs}) {
    for (const int parts : {1, 2}) {
      SENNIT_RETURN_IF_ERROR(driver_.preload(sm::small_pairs_kernel(calls, parts)));
    }
  }
  for (const sm::KernelKind kind : sm::kKernelKinds) {
    SENNIT_RETURN_IF_ERROR(driver_.preload(sm::moving_kernel(kind)));
    for (const Dtype dtype : kDtypes) {
      for (const ReduceOp op : kReduceOps) {
        if (const void* kernel = sm::reducing_kernel(kind, dtype, op); kernel != nullptr) {
          SENNIT_RETURN_IF_ERROR(driver_.preload(kernel));
        }
      }
    }
  }
  return {};
}

Status DeviceComm::check(const Operation& operation) const {
  SENNIT_RETURN_IF_ERROR(check_arguments(operation, world_.rank(), world_.size()));
  const BufferUse use = buffer_use(operation, world_.rank(), world_.size());
  for (const auto& [pointer, is_used] :
       {std::pair(operation.send, use.send),
        std::pair(static_cast<const void*>(operation.recv), use.recv)}) {
    if (!is_used) {
      continue;
    }
    SENNIT_ASSIGN_OR_RETURN(const PointerFacts facts, driver_.facts_of(pointer));
    if (facts.kind == MemoryKind::kPageable) {
      return fail(Code::kInvalidArgument,
                  "{}: the {} buffer is ordinary host memory, which a GPU cannot reach; use device "
                  "or pinned memory",
                  name(operation.collective),
                  pointer == operation.send ? "send" : "recv");
    }
    if (facts.kind == MemoryKind::kDevice && facts.device != device_) {
      return fail(Code::kInvalidArgument,
                  "{}: the {} buffer lies on device {}, but this rank works on device {}",
                  name(operation.collective),
                  pointer == operation.send ? "send" : "recv",
                  facts.device,
                  device_);
    }
  }
  return {};
}

DeviceComm::Key DeviceComm::key_of(const Operation& operation, const DeviceChoice& choice) const {
  return {operation.collective,
          root_of(operation),
          place_of(operation, world_.rank()),
          operation.varying,
          choice};
}

double DeviceComm::deadline_of(const Operation& operation) const {
  return operation.deadline_s != 0 ? operation.deadline_s : options_.deadline_s;
}

std::uint64_t DeviceComm::deadline_ns(const Operation& operation) const {
  const double seconds = deadline_of(operation);
  return seconds > 0 ? static_cast<std::uint64_t>(seconds * 1e9) : 0;
}

std::uint32_t DeviceComm::deadline_ms(const Operation& operation) const {
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil(deadline_of(operation) * 1e3), 0.0, kMost));
}

Result<DeviceChoice> DeviceComm::choose(const Operation& operation,
                                        const DeviceFacts& facts) const {
  SENNIT_ASSIGN_OR_RETURN(DeviceChoice choice,
                          choose_for_devices(operation.collective,
                                             shape_of(operation, world_.size(), facts.groups),
                                             operation.bytes(),
                                             operation.wishes,
                                             facts));
  if (choice.by_steps && is_reduction(operation.collective)) {
    choice.scaled = {.contributions = scales_contributions(operation.op),
                     .sums = finishes_sum(operation.op)};
  }
  return choice;
}

Result<DeviceComm::Proved> DeviceComm::prove(const Operation& operation,
                                             const DeviceChoice& choice) const {
  SENNIT_ASSIGN_OR_RETURN(
      std::shared_ptr<const Plan> plan,
      make_device_plan(choice, shape_of(operation, world_.size(), facts_.groups), facts_));
  SENNIT_ASSIGN_OR_RETURN(Proof proof, verify(*plan));
  return Proved{std::move(plan), std::move(proof)};
}

Result<const DeviceComm::Program*> DeviceComm::find(const Operation& operation,
                                                    const DeviceChoice& choice) {
  const Key key = key_of(operation, choice);
  if (const auto known = programs_.find(key); known != programs_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const Proved proved, prove(operation, choice));
  const Plan& plan = *proved.plan;
  SENNIT_ASSIGN_OR_RETURN(const sm::DirectProgram direct,
                          sm::compile_direct(*plan.strands.front().schedule, key.place));
  return &programs_.emplace(key, Program{direct, plan_hash(plan), packets_of(choice.protocol)})
              .first->second;
}

// Before anything that waits: whoever waits for this rank can see what it has called.
void DeviceComm::announce(const Operation& operation, std::uint64_t plan_hash) {
  world_.device_line(world_.rank()).collectives.enter(++calls_, words_of(operation, plan_hash));
}

Status DeviceComm::give_up(const Status& status) {
  const Status why = [&] {
    const std::scoped_lock lock(mutex_);
    failure_ = cause_.ok() ? status : cause_;
    return failure_;
  }();
  abort();
  return why;
}

Status DeviceComm::collective(const Call& call) {
  const Operation& op = call.operation;
  if (op.varying) {
    return exchange_varying(call);  // others may have something where this rank has nothing
  }
  if (op.count == 0) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(DeviceChoice choice, choose(op, facts_));
  if (choice.by_steps) {
    return run_steps(call, choice);
  }
  if (is_for_streams(choice)) {
    SENNIT_ASSIGN_OR_RETURN(const bool is_done, copy(call, choice));
    if (is_done) {
      return {};
    }
    // What it refuses it refuses on all ranks, which have agreed so far.
    SENNIT_ASSIGN_OR_RETURN(const bool is_put, put_instead(call));
    if (is_put) {
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(choice, choose_kernel(op));
    const Result<const Program*> program = find(op, choice);
    return program.ok() ? launch(call, **program) : give_up(program.status());
  }
  if (choice.protocol == Protocol::kDirectPut) {
    SENNIT_ASSIGN_OR_RETURN(const bool is_done, put(call, choice));
    if (is_done) {
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(choice, choose_kernel(op));
  }
  SENNIT_ASSIGN_OR_RETURN(const Program* const program, find(op, choice));
  announce(op, program->plan_hash);
  return launch(call, *program);
}

Status DeviceComm::launch(const Call& call, const Program& program) {
  const Operation& op = call.operation;
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(op.dtype));
  sm::DirectCall direct;
  direct.input = static_cast<const std::byte*>(op.send);
  direct.output = static_cast<std::byte*>(op.recv);
  direct.scalar = op.scaling.scalar;
  direct.scalar_on_device = static_cast<const std::byte*>(op.scalar_on_device);
  sm::bind(program.direct, op.count, element_bytes, direct);
  direct.on_host = !facts_.nvlink;
  direct.states = memory_->states();
  direct.board = memory_->board_on_device();
  direct.packets = program.packets;
  direct.layout = memory_->shape().layout(program.packets);
  direct.deadline_ns = deadline_ns(op);
  direct.fingerprint = fingerprint_of(words_of(op, program.plan_hash));
  for (int rank = 0; rank < world_.size(); ++rank) {
    direct.arenas[static_cast<std::size_t>(rank)] = memory_->arena(rank);
  }
  const sm::Geometry geometry =
      sm::geometry_for(sm::longest_range(program.direct.problem, op.count, element_bytes),
                       program.packets,
                       memory_->shape(),
                       memory_->block_limit());
  sm::apply(geometry, direct);
  direct.all_heard = sm::hears_all(direct, last_block(geometry, program.packets));
  sm::SmallCall small;
  const bool is_small = program.packets == sm::Packets::kLl && sm::make_small(direct, small);
  const sm::KernelKind kind = is_small ? sm::KernelKind::kSmall : sm::kernel_kind(program.packets);
  const Status launched =
      driver_.launch(is_reduction(op.collective) ? sm::reducing_kernel(kind, op.dtype, op.op)
                                                 : sm::moving_kernel(kind),
                     {.blocks = static_cast<unsigned>(geometry.blocks),
                      .threads = static_cast<unsigned>(geometry.warps) * 32},
                     is_small ? static_cast<const void*>(&small) : &direct,
                     call.stream);
  return launched.ok() ? launched : give_up(launched);
}

// An all_gather of nothing in particular: no rank leaves before all have come.
Status DeviceComm::barrier(void* stream) {
  Operation gather;
  gather.collective = Collective::kAllGather;
  gather.send = static_cast<std::byte*>(token_) + static_cast<std::ptrdiff_t>(world_.rank()) * 16;
  gather.recv = token_;
  gather.count = 16;
  gather.dtype = Dtype::kUint8;
  return collective({.operation = gather, .stream = stream});
}

Status DeviceComm::enqueue(std::span<const Call> calls) {
  SENNIT_RETURN_IF_ERROR(failure());
  if (std::atomic_ref(memory_->board().abort).load(std::memory_order_acquire) != 0) {
    // A kernel says why before it says that others shall leave.
    const auto trouble = std::atomic_ref(memory_->board().trouble).load(std::memory_order_acquire);
    const std::scoped_lock lock(mutex_);
    failure_ = explain(trouble == sm::Trouble::kNone ? sm::Trouble::kAborted : trouble);
    return failure_;
  }
  if (is_finalized_ && !calls.empty()) {
    return fail(Code::kInvalidUsage,
                "{} on communicator '{}' after finalize",
                name_of(calls.front().operation),
                options_.name);
  }
  const DeviceScope scope(driver_, device_);
  SENNIT_RETURN_IF_ERROR(scope.status());
  // Before anything of a group is made: a wrong argument anywhere stops all of it.
  for (const Call& call : calls) {
    SENNIT_RETURN_IF_ERROR(check(call.operation));
  }
  keep_up_with_loans(calls);
  const auto is_message = [](const Call& call) {
    return call.operation.collective == Collective::kSendRecv;
  };
  if (!calls.empty() && std::ranges::all_of(calls, is_message)) {
    return messages(calls);
  }
  std::vector<Call> sends_and_recvs;
  for (const Call& call : calls) {
    if (is_message(call)) {
      sends_and_recvs.push_back(call);
      continue;
    }
    SENNIT_RETURN_IF_ERROR(order_.before(call.stream));
    const Status status =
        call.operation.collective == Collective::kBarrier ? barrier(call.stream) : collective(call);
    // Also after a failure half way: finalize() waits for what is in the stream by then.
    const Status ordered = order_.after(call.stream);
    SENNIT_RETURN_IF_ERROR(status);
    SENNIT_RETURN_IF_ERROR(ordered);
  }
  return sends_and_recvs.empty() ? Status() : messages(sends_and_recvs);
}

}  // namespace sennit
