#include "comm/device/device_comm.hpp"

#include "exec/sm/direct_kernels.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace sennit {
namespace {

// A dead rank must be told within seconds; asking is one system call.
constexpr std::chrono::milliseconds kWatchInterval{50};
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

template <int kRanks>
void apply(const sm::Geometry& geometry, sm::BasicDirectCall<kRanks>& call) {
  call.blocks = geometry.blocks;
  call.warps = geometry.warps;
  call.depth = geometry.depth;
  call.rounds = geometry.rounds;
}

}  // namespace

DeviceComm::DeviceComm(CudaDriver& driver, int device, World& world, Options options)
    : driver_(driver), device_(device), world_(world), options_(std::move(options)) {}

Result<std::unique_ptr<DeviceComm>> DeviceComm::create(int device,
                                                       World& world,
                                                       const Options& options,
                                                       const Exchange& exchange) {
  SENNIT_ASSIGN_OR_RETURN(CudaDriver * driver, cuda_driver());
  const DeviceScope scope(*driver, device);
  SENNIT_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<DeviceComm> comm(new DeviceComm(*driver, device, world, options));
  SENNIT_ASSIGN_OR_RETURN(
      comm->memory_,
      DeviceMemory::create(
          *driver,
          {.device = device, .rank = world.rank(), .ranks = world.size(), .blocks = options.blocks},
          exchange));
  SENNIT_RETURN_IF_ERROR(comm->preload());
  SENNIT_ASSIGN_OR_RETURN(comm->token_,
                          driver->allocate(static_cast<std::size_t>(world.size()) * 16));
  // No rank launches before all have loaded their kernels: loading waits for running ones.
  std::vector<char> all(static_cast<std::size_t>(world.size()));
  const char loaded = 1;
  SENNIT_RETURN_IF_ERROR(exchange(&loaded, all.data(), 1));
  comm->watcher_ =
      std::jthread([self = comm.get()](const std::stop_token& stop) { self->watch(stop); });
  return comm;
}

DeviceComm::~DeviceComm() {
  watcher_.request_stop();
  if (watcher_.joinable()) {
    watcher_.join();
  }
  if (token_ != nullptr) {
    const DeviceScope scope(driver_, device_);
    (void)driver_.release(token_);
  }
}

Status DeviceComm::preload() {
  for (const sm::Packets packets : {sm::Packets::kLl, sm::Packets::kLl128}) {
    SENNIT_RETURN_IF_ERROR(driver_.preload(sm::moving_kernel(packets)));
    SENNIT_RETURN_IF_ERROR(driver_.preload(sm::pairs_kernel(packets)));
    for (const Dtype dtype : kDtypes) {
      for (const ReduceOp op : kReduceOps) {
        if (const void* kernel = sm::reducing_kernel(packets, dtype, op); kernel != nullptr) {
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

Result<const DeviceComm::Program*> DeviceComm::find(const Operation& operation) {
  const int root = is_rooted(operation.collective) ? operation.root : 0;
  const Shape shape{.ranks = world_.size(), .root = root};
  const std::int64_t bytes =
      operation.count * static_cast<std::int64_t>(size_bytes(operation.dtype));
  SENNIT_ASSIGN_OR_RETURN(const DeviceChoice choice,
                          choose_for_devices(operation.collective, shape, bytes, operation.wishes));
  const Key key{operation.collective, root, choice};
  if (const auto known = programs_.find(key); known != programs_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, make_device_plan(choice, shape));
  SENNIT_ASSIGN_OR_RETURN(const Proof proof, verify(*plan));
  SENNIT_ASSIGN_OR_RETURN(const sm::DirectProgram direct,
                          sm::compile_direct(*plan->strands.front().schedule, world_.rank()));
  return &programs_.emplace(key, Program{direct, plan_hash(*plan), packets_of(choice.protocol)})
              .first->second;
}

Status DeviceComm::collective(const Call& call) {
  const Operation& op = call.operation;
  SENNIT_RETURN_IF_ERROR(check(op));
  if (op.count == 0) {
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(const Program* program, find(op));
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(op.dtype));
  sm::DirectCall direct;
  direct.input = static_cast<const std::byte*>(op.send);
  direct.output = static_cast<std::byte*>(op.recv);
  direct.scalar = op.scaling.scalar;
  sm::bind(program->direct, op.count, element_bytes, direct);
  direct.states = memory_->states();
  direct.board = memory_->board_on_device();
  direct.shape = memory_->shape();
  direct.deadline_ns = deadline_ns(op, options_.deadline_s);
  direct.fingerprint = fingerprint_of(words_of(op, program->plan_hash));
  for (int rank = 0; rank < world_.size(); ++rank) {
    direct.arenas[static_cast<std::size_t>(rank)] = memory_->arena(rank);
  }
  const sm::Geometry geometry =
      sm::geometry_for(sm::longest_range(program->direct.problem, op.count, element_bytes),
                       program->packets,
                       memory_->shape(),
                       memory_->block_limit());
  apply(geometry, direct);
  direct.all_heard = sm::hears_all(direct, last_block(geometry, program->packets));
  const void* kernel = is_reduction(op.collective)
                           ? sm::reducing_kernel(program->packets, op.dtype, op.op)
                           : sm::moving_kernel(program->packets);
  return driver_.launch(kernel,
                        {.blocks = static_cast<unsigned>(geometry.blocks),
                         .threads = static_cast<unsigned>(geometry.warps) * 32},
                        &direct,
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
  call.shape = memory_->pair_shape();
  call.ranks = 2;
  call.rank = op.is_send ? 0 : 1;
  if (op.is_send) {
    call.push[1] = {.begin = 0, .length = bytes};
    call.push_to = 0b10;
  } else {
    call.arrive[0] = {.begin = 0, .length = bytes};
    call.arrive_from = 0b01;
  }
  // One send and one recv with every other rank run at once. Both ends come to the same number,
  // whatever else their groups hold.
  const int limit = memory_->block_limit() / (2 * std::max(1, world_.size() - 1));
  apply(sm::geometry_for(bytes, kPairPackets, memory_->pair_shape(), std::max(1, limit)), call);
  call.deadline_ns = deadline_ns(op, options_.deadline_s);
  call.fingerprint = fingerprint_of(words_of(op, 0));
  return call;
}

// One kernel for all: sends and recvs that were posted together may need each other.
Status DeviceComm::pairs(std::span<const Call> calls, void* stream) {
  if (calls.size() > sm::kMaxPairCalls) {
    return fail(Code::kUnsupported,
                "a group has {} sends and recvs on one stream; GPU ranks take up to {}",
                calls.size(),
                sm::kMaxPairCalls);
  }
  sm::PairCalls pairs;
  int used = 0;
  for (const Call& call : calls) {
    SENNIT_RETURN_IF_ERROR(check(call.operation));
    if (call.operation.count > 0) {
      sm::PairCall& pair = pairs.calls[static_cast<std::size_t>(used++)];
      pair = pair_call(call.operation);
      pairs.blocks = std::max(pairs.blocks, pair.blocks);
    }
  }
  if (used == 0) {
    return {};
  }
  return driver_.launch(
      sm::pairs_kernel(kPairPackets),
      {.blocks = static_cast<unsigned>(used * pairs.blocks), .threads = sm::kThreads},
      &pairs,
      stream);
}

Status DeviceComm::enqueue(std::span<const Call> calls) {
  SENNIT_RETURN_IF_ERROR(failure());
  const DeviceScope scope(driver_, device_);
  SENNIT_RETURN_IF_ERROR(scope.status());
  std::vector<std::pair<void*, std::vector<Call>>> by_stream;
  for (const Call& call : calls) {
    if (call.operation.collective == Collective::kSendRecv) {
      auto at = std::ranges::find(by_stream, call.stream, &decltype(by_stream)::value_type::first);
      if (at == by_stream.end()) {
        at = by_stream.insert(by_stream.end(), {call.stream, {}});
      }
      at->second.push_back(call);
      continue;
    }
    SENNIT_RETURN_IF_ERROR(call.operation.collective == Collective::kBarrier ? barrier(call.stream)
                                                                             : collective(call));
  }
  for (const auto& [stream, sends_and_recvs] : by_stream) {
    SENNIT_RETURN_IF_ERROR(pairs(sends_and_recvs, stream));
  }
  return {};
}

Status DeviceComm::failure() {
  const std::scoped_lock lock(mutex_);
  if (failure_.ok()) {
    const auto trouble = std::atomic_ref(memory_->board().trouble).load(std::memory_order_acquire);
    failure_ = trouble == sm::Trouble::kNone ? Status() : explain(trouble);
  }
  return failure_;
}

Status DeviceComm::explain(sm::Trouble trouble) const {
  const std::string where = fmt::format("a GPU call on communicator '{}', rank {} of {}",
                                        options_.name,
                                        world_.rank(),
                                        world_.size());
  const std::string next = "abort() it, then shrink() to the survivors, or exit";
  ErrorDetail detail;
  detail.comm = options_.name;
  detail.rank = world_.rank();
  detail.size = world_.size();
  detail.next = next;
  if (!dead_.empty()) {
    detail.blamed_ranks = dead_;
    detail.evidence = "its process has ended";
    return {
        Code::kRankFailed,
        fmt::format("{}, failed: {} died. Next: {}", where, world_.describe(dead_.front()), next),
        detail};
  }
  if (trouble == sm::Trouble::kDeadline) {
    const sm::Board& board = memory_->board();
    const auto peer = static_cast<int>(board.peer);
    detail.blamed_ranks = {peer};
    detail.evidence = fmt::format(
        "its part of round {} of thread block {} did not come", board.round, board.block);
    return {Code::kDeadlineExceeded,
            fmt::format("{}, waited for {} until its deadline: {}. Next: {}",
                        where,
                        world_.describe(peer),
                        detail.evidence,
                        next),
            detail};
  }
  return {Code::kAborted, fmt::format("communicator '{}' was aborted", options_.name), detail};
}

void DeviceComm::abort() {
  std::atomic_ref(memory_->board().abort).store(1, std::memory_order_release);
}

// Kernels wait for as long as their deadline allows; what cannot end is ended here.
void DeviceComm::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(kWatchInterval);
    std::vector<int> dead = world_.dead_ranks();
    bool over = !dead.empty();
    for (int rank = 0; rank < world_.size(); ++rank) {
      const RankState state = world_.line(rank).state.load(std::memory_order_acquire);
      over = over || state == RankState::kAborted || state == RankState::kFailed;
    }
    if (over) {
      {
        const std::scoped_lock lock(mutex_);
        dead_ = std::move(dead);
      }
      abort();
    }
  }
}

}  // namespace sennit
