#include "comm/device/device_comm.hpp"

#include "base/log.hpp"
#include "comm/device/group_order.hpp"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/small_call.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace sennit {
namespace {

constexpr sm::Packets kPairPackets = sm::Packets::kLl128;

sm::Packets packets_of(Protocol protocol) {
  return protocol == Protocol::kLl ? sm::Packets::kLl : sm::Packets::kLl128;
}

std::uint64_t deadline_ns(const Operation& operation, double default_s) {
  const double seconds = operation.deadline_s != 0 ? operation.deadline_s : default_s;
  return seconds > 0 ? static_cast<std::uint64_t>(seconds * 1e9) : 0;
}

// Byte of a range at which the last packets of the last block begin.
std::int64_t last_block(const sm::Geometry& g, sm::Packets packets) {
  return (std::int64_t{g.rounds} * g.blocks - 1) * g.warps * g.depth * payload_bytes(packets);
}

int root_of(const Operation& operation) {
  return is_rooted(operation.collective) ? operation.root : 0;
}

Shape shape_of(const Operation& operation, int ranks) {
  return {.ranks = ranks, .root = root_of(operation)};
}

// The streams of the calls but that of the first, each once.
std::vector<void*> other_streams(std::span<const DeviceComm::Call> calls) {
  std::vector<void*> others;
  for (const DeviceComm::Call& call : calls) {
    if (call.stream != calls.front().stream &&
        std::ranges::find(others, call.stream) == others.end()) {
      others.push_back(call.stream);
    }
  }
  return others;
}

template <int kRanks>
void apply(const sm::Geometry& geometry, sm::BasicDirectCall<kRanks>& call) {
  call.blocks = geometry.blocks;
  call.warps = geometry.warps;
  call.depth = geometry.depth;
  call.rounds = geometry.rounds;
}

}  // namespace

Result<DeviceComm::Options::CopyUse> parse_copy_engines(std::string_view text) {
  using CopyUse = DeviceComm::Options::CopyUse;
  for (const auto& [word, value] : {std::pair("auto", CopyUse::kAuto),
                                    std::pair("on", CopyUse::kOn),
                                    std::pair("off", CopyUse::kOff)}) {
    if (text == word) {
      return value;
    }
  }
  return fail(Code::kInvalidArgument, "SENNIT_COPY_ENGINES is '{}'; it can be auto, on, off", text);
}

DeviceComm::DeviceComm(CudaDriver& driver, int device, World& world, Options options)
    : driver_(driver),
      device_(device),
      world_(world),
      options_(std::move(options)),
      order_(driver),
      comparison_(world) {}

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
          {.device = device, .rank = world.rank(), .ranks = world.size(), .blocks = options.blocks},
          exchange));
  SENNIT_RETURN_IF_ERROR(comm->order_.open());
  SENNIT_RETURN_IF_ERROR(comm->preload());
  SENNIT_ASSIGN_OR_RETURN(comm->token_,
                          driver.allocate(static_cast<std::size_t>(world.size()) * 16));
  SENNIT_RETURN_IF_ERROR(comm->open_copy_engines(exchange));
  comm->start_watching();
  return comm;
}

// No rank launches before all have loaded their kernels, since loading waits for running ones: the
// exchange sees to that, too.
Status DeviceComm::open_copy_engines(const Exchange& exchange) {
  const bool wanted = options_.copy_engines == Options::CopyUse::kOn ||
                      (options_.copy_engines == Options::CopyUse::kAuto &&
                       memory_->has_a_process_each() && world_.size() > 1);
  if (wanted) {
    auto opened = CopyEngines::create(driver_, *memory_, world_);
    if (opened.ok()) {
      copy_engines_ = std::move(opened).value();
    } else {
      SENNIT_INFO("device", "no copy engines: {}", opened.status().message());
    }
  }
  const char mine = copy_engines_ != nullptr ? 1 : 0;
  std::vector<char> all(static_cast<std::size_t>(world_.size()));
  SENNIT_RETURN_IF_ERROR(exchange(&mine, all.data(), 1));
  if (std::ranges::find(all, 0) != all.end()) {
    copy_engines_.reset();
  }
  return {};
}

DeviceComm::~DeviceComm() {
  leave_watched();
  copy_engines_.reset();  // it knows the memory
  if (token_ != nullptr) {
    const DeviceScope scope(driver_, device_);
    (void)driver_.release(token_);
  }
}

Status DeviceComm::preload() {
  for (const sm::Packets packets : {sm::Packets::kLl, sm::Packets::kLl128}) {
    SENNIT_RETURN_IF_ERROR(driver_.preload(sm::pairs_kernel(packets)));
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
  if (is_reduction(operation.collective)) {
    SENNIT_RETURN_IF_ERROR(check_operator(operation.dtype, operation.op));
  }
  if (operation.varying) {
    return fail(Code::kUnsupported, "{} runs on host ranks so far", name_of(operation));
  }
  SENNIT_RETURN_IF_ERROR(check_buffers(operation, world_.rank(), world_.size()));
  for (const void* pointer : {operation.send, static_cast<const void*>(operation.recv)}) {
    if (pointer == nullptr || operation.count == 0) {
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

Result<DeviceChoice> DeviceComm::choose(const Operation& operation, bool copy_engines) const {
  return choose_for_devices(
      operation.collective,
      shape_of(operation, world_.size()),
      operation.count * static_cast<std::int64_t>(size_bytes(operation.dtype)),
      operation.wishes,
      copy_engines);
}

Result<std::shared_ptr<const Plan>> DeviceComm::prove(const Operation& operation,
                                                      const DeviceChoice& choice) const {
  SENNIT_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                          make_device_plan(choice, shape_of(operation, world_.size())));
  SENNIT_RETURN_IF_ERROR(verify(*plan).status());
  return plan;
}

Result<const DeviceComm::Program*> DeviceComm::find(const Operation& operation,
                                                    const DeviceChoice& choice) {
  const Key key{operation.collective, root_of(operation), choice};
  if (const auto known = programs_.find(key); known != programs_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const auto plan, prove(operation, choice));
  SENNIT_ASSIGN_OR_RETURN(const sm::DirectProgram direct,
                          sm::compile_direct(*plan->strands.front().schedule, world_.rank()));
  return &programs_.emplace(key, Program{direct, plan_hash(*plan), packets_of(choice.protocol)})
              .first->second;
}

Result<const DeviceComm::Copying*> DeviceComm::find_copying(const Operation& operation,
                                                            const DeviceChoice& choice) {
  const Key key{operation.collective, root_of(operation), choice};
  if (const auto known = copyings_.find(key); known != copyings_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const auto plan, prove(operation, choice));
  SENNIT_ASSIGN_OR_RETURN(stream::StreamProgram program,
                          stream::compile_stream(*plan->strands.front().schedule, world_.rank()));
  return &copyings_.emplace(key, Copying{std::move(program), plan_hash(*plan)}).first->second;
}

// Before anything that waits: whoever waits for this rank can see what it has called.
void DeviceComm::announce(const Operation& operation, std::uint64_t plan_hash) {
  world_.device_line(world_.rank()).enter(++calls_, words_of(operation, plan_hash));
}

Result<bool> DeviceComm::copy(const Call& call, const DeviceChoice& choice) {
  SENNIT_ASSIGN_OR_RETURN(const Copying* copying, find_copying(call.operation, choice));
  announce(call.operation, copying->plan_hash);
  const auto begin = Clock::now();
  const double deadline_s =
      call.operation.deadline_s != 0 ? call.operation.deadline_s : options_.deadline_s;
  Result<bool> copied = copy_engines_->run(
      {.operation = call.operation,
       .program = copying->program,
       .stream = call.stream,
       .trouble = [&]() -> Status {
         if (deadline_s > 0 && Clock::now() - begin > std::chrono::duration<double>(deadline_s)) {
           return told(explain_absence());
         }
         return look();
       }});
  if (!copied.ok()) {
    // Others may wait for what this rank has not put into its streams.
    {
      const std::scoped_lock lock(mutex_);
      failure_ = copied.status();
    }
    world_.my_line().fail(copied.status().code(), -1);
    abort();
  }
  return copied;
}

Status DeviceComm::collective(const Call& call) {
  const Operation& op = call.operation;
  SENNIT_RETURN_IF_ERROR(check(op));
  if (op.count == 0) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(DeviceChoice choice, choose(op, copy_engines_ != nullptr));
  if (choice.protocol == Protocol::kDirectGet) {
    SENNIT_ASSIGN_OR_RETURN(const bool is_done, copy(call, choice));
    if (is_done) {
      return {};
    }
    if (!op.wishes.protocol.empty()) {
      return fail(
          Code::kUnsupported,
          "{}: protocol direct_get cannot reach the buffers of all ranks, or works in place "
          "where it may not",
          name(op.collective));
    }
    SENNIT_ASSIGN_OR_RETURN(choice, choose(op, false));
    SENNIT_ASSIGN_OR_RETURN(const Program* const program, find(op, choice));
    return launch(call, *program);
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
  direct.states = memory_->states();
  direct.board = memory_->board_on_device();
  direct.layout = memory_->shape().layout(program.packets);
  direct.deadline_ns = deadline_ns(op, options_.deadline_s);
  direct.fingerprint = fingerprint_of(words_of(op, program.plan_hash));
  for (int rank = 0; rank < world_.size(); ++rank) {
    direct.arenas[static_cast<std::size_t>(rank)] = memory_->arena(rank);
  }
  const sm::Geometry geometry =
      sm::geometry_for(sm::longest_range(program.direct.problem, op.count, element_bytes),
                       program.packets,
                       memory_->shape(),
                       memory_->block_limit());
  apply(geometry, direct);
  direct.all_heard = sm::hears_all(direct, last_block(geometry, program.packets));
  sm::SmallCall small;
  const bool is_small = program.packets == sm::Packets::kLl && sm::make_small(direct, small);
  const sm::KernelKind kind = is_small ? sm::KernelKind::kSmall : sm::kernel_kind(program.packets);
  return driver_.launch(is_reduction(op.collective) ? sm::reducing_kernel(kind, op.dtype, op.op)
                                                    : sm::moving_kernel(kind),
                        {.blocks = static_cast<unsigned>(geometry.blocks),
                         .threads = static_cast<unsigned>(geometry.warps) * 32},
                        is_small ? static_cast<const void*>(&small) : &direct,
                        call.stream);
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

sm::PairCall DeviceComm::pair_call(const Operation& op) const {
  const int from = op.is_send ? world_.rank() : op.peer;
  const int to = op.is_send ? op.peer : world_.rank();
  const DeviceMemory::Pair pair = memory_->pair(from, to);
  const std::int64_t bytes = op.count * static_cast<std::int64_t>(size_bytes(op.dtype));
  sm::PairCall call;
  call.input = static_cast<const std::byte*>(op.send);
  call.output = static_cast<std::byte*>(op.recv);
  call.states = pair.states;
  call.board = memory_->board_on_device();
  call.arenas = {pair.sender, pair.receiver};
  call.layout = memory_->pair_shape().layout(kPairPackets);
  call.ranks = 2;
  call.rank = op.is_send ? 0 : 1;
  if (op.is_send) {
    call.push[1] = {.begin = 0, .length = bytes};
    call.push_to = 0b10;
  } else {
    call.arrive[0][0] = {.begin = 0, .length = bytes};
    call.arrive_from[0] = 0b01;
  }
  // A send and a recv fill a GPU. Both ends come to the same number, whatever else their groups
  // hold.
  const int limit = memory_->block_limit() / 2;
  apply(sm::geometry_for(bytes, kPairPackets, memory_->pair_shape(), std::max(1, limit)), call);
  call.deadline_ns = deadline_ns(op, options_.deadline_s);
  call.fingerprint = fingerprint_of(words_of(op, 0));
  return call;
}

// One kernel for all, in the stream of the first: sends and recvs that were posted together may
// need each other.
Status DeviceComm::pairs(std::span<const Call> calls) {
  if (calls.size() > sm::kMaxPairCalls) {
    return fail(Code::kUnsupported,
                "a group has {} sends and recvs; GPU ranks take up to {}",
                calls.size(),
                sm::kMaxPairCalls);
  }
  std::vector<PairEnd> ends;
  std::vector<const Operation*> operations;
  for (const Call& call : calls) {
    SENNIT_RETURN_IF_ERROR(check(call.operation));
    if (call.operation.count > 0) {
      ends.push_back({call.operation.peer, call.operation.is_send});
      operations.push_back(&call.operation);
    }
  }
  sm::PairCalls pairs;
  int used = 0;
  for (const std::vector<std::size_t>& chain : group_order(ends, world_.rank(), world_.size())) {
    for (const std::size_t index : chain) {
      sm::PairCall& pair = pairs.calls[static_cast<std::size_t>(used++)];
      pair = pair_call(*operations[index]);
      pairs.blocks = std::max(pairs.blocks, pair.blocks);
    }
    pairs.begin[static_cast<std::size_t>(++pairs.chains)] = static_cast<std::int16_t>(used);
  }
  if (pairs.chains == 0) {
    return {};
  }
  // No more than fit beside the ranks that share the GPU, but a send and a recv in any case.
  pairs.lanes = std::min(pairs.chains, std::max(2, memory_->block_limit() / pairs.blocks));
  void* const stream = calls.front().stream;
  const std::vector<void*> others = other_streams(calls);
  SENNIT_RETURN_IF_ERROR(order_.join(others, stream));
  SENNIT_RETURN_IF_ERROR(order_.before(stream));
  SENNIT_RETURN_IF_ERROR(driver_.launch(
      sm::pairs_kernel(kPairPackets),
      {.blocks = static_cast<unsigned>(pairs.lanes * pairs.blocks), .threads = sm::kThreads},
      &pairs,
      stream));
  SENNIT_RETURN_IF_ERROR(order_.after(stream));
  return order_.fork(stream, others);
}

Status DeviceComm::enqueue(std::span<const Call> calls) {
  SENNIT_RETURN_IF_ERROR(failure());
  if (std::atomic_ref(memory_->board().abort).load(std::memory_order_acquire) != 0) {
    const std::scoped_lock lock(mutex_);
    failure_ = explain(sm::Trouble::kAborted);
    return failure_;
  }
  const DeviceScope scope(driver_, device_);
  SENNIT_RETURN_IF_ERROR(scope.status());
  std::vector<Call> messages;
  for (const Call& call : calls) {
    if (call.operation.collective == Collective::kSendRecv) {
      messages.push_back(call);
      continue;
    }
    SENNIT_RETURN_IF_ERROR(order_.before(call.stream));
    SENNIT_RETURN_IF_ERROR(call.operation.collective == Collective::kBarrier ? barrier(call.stream)
                                                                             : collective(call));
    SENNIT_RETURN_IF_ERROR(order_.after(call.stream));
  }
  return pairs(messages);
}

}  // namespace sennit
