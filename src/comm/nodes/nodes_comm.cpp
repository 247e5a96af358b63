#include "comm/nodes/nodes_comm.hpp"

#include "base/seconds.hpp"
#include "comm/call_codec.hpp"
#include "comm/derive.hpp"
#include "comm/device/gpu_arguments.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace sennit {
namespace {

std::string name_of_ranks(const std::string& name, const std::vector<int>& ranks) {
  return fmt::format("{}, ranks {}", name, fmt::join(ranks, " "));
}

// Tests that end a rank, and hooks, count and follow the calls of the program.
CommConfig inner_config(const CommConfig& config, const std::string& name) {
  CommConfig result = config;
  result.name = name;
  result.codec.clear();  // what the calls of the program have is resolved before
  result.die_at.reset();
  result.idle = {};
  return result;
}

// Of host ranks, between the nodes. Paths and machine files that the config names are for GPUs.
CommConfig host_config(const CommConfig& config, const std::string& name) {
  CommConfig result = inner_config(config, name);
  result.device = "host";
  result.paths = CommConfig().paths;
  result.machine.clear();
  result.gpu_profile.clear();
  return result;
}

// Why not all members of a communicator to be made from `parent` will come.
Status check_members(const World& parent, const std::vector<int>& members) {
  for (const int rank : members) {
    const RankState state = parent.line(rank).state.load(std::memory_order_acquire);
    if (state == RankState::kAborted || state == RankState::kFailed) {
      return fail(Code::kAborted,
                  "{} gave up while the communicator was made; its own error says why",
                  parent.peers().describe(rank));
    }
  }
  return {};
}

}  // namespace

NodesComm::NodesComm(CudaDriver& driver, int device, const Communicator& parent, NodeShape shape)
    : driver_(driver),
      device_(device),
      config_(parent.config()),
      shape_(std::move(shape)),
      order_(driver) {}

Result<std::unique_ptr<NodesComm>> NodesComm::create(CudaDriver& driver,
                                                     int device,
                                                     const std::shared_ptr<Communicator>& parent,
                                                     const MakeDeviceComm& make_device_comm) {
  const DeviceScope scope(driver, device);
  SENNIT_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<NodesComm> comm(
      new NodesComm(driver,
                    device,
                    *parent,
                    {.rank = parent->rank(), .nodes = parent->world().nodes_of_ranks()}));
  SENNIT_ASSIGN_OR_RETURN(comm->codec_rules_, CodecRules::parse(parent->config().codec));
  SENNIT_RETURN_IF_ERROR(comm->order_.open());
  SENNIT_ASSIGN_OR_RETURN(auto slots, CrossingSlots::create(driver, 0));
  comm->slots_.push_back(std::move(slots));
  SENNIT_RETURN_IF_ERROR(comm->join(parent, make_device_comm));
  return comm;
}

Status NodesComm::join(const std::shared_ptr<Communicator>& parent,
                       const MakeDeviceComm& make_device_comm) {
  const std::string key = parent->world().identity().key;
  SENNIT_ASSIGN_OR_RETURN(const CudaDevice gpu, driver_.describe(device_));
  const auto join_as = [parent](const std::string& what,
                                const std::vector<int>& members,
                                const CommConfig& config) -> CrossingThread::Join {
    return [=] {
      return join_members(
          parent, what, members, config, [=] { return check_members(parent->world(), members); });
    };
  };
  std::vector<int> all;
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    all.push_back(rank);
  }
  const int places = shape_.ranks_a_node();
  std::vector<int> counterparts;
  for (int rank = places > 0 ? shape_.rank % places : 0; places > 1 && rank < shape_.ranks();
       rank += places) {
    counterparts.push_back(rank);
  }
  CommConfig hosts = host_config(config_, config_.name + ", hosts");
  hosts.gpu_bus_id = gpu.pci_bus_id;
  CrossingThread::Options options{.name = config_.name,
                                  .join_all = join_as(key + "/hosts", all, hosts),
                                  .counterparts = counterparts,
                                  .trouble_in_node = [this] { return node_->trouble(); },
                                  .end_node =
                                      [this] {
                                        if (node_ != nullptr) {
                                          node_->abort();
                                        }
                                      }};
  if (!counterparts.empty()) {
    CommConfig config = host_config(config_, name_of_ranks(config_.name, counterparts));
    config.first_place = shape_.rank % places;
    config.gpu_bus_id = gpu.pci_bus_id;
    options.join_counterparts = join_as(key + "/counterparts", counterparts, config);
  }
  crossings_ = std::make_unique<CrossingThread>(std::move(options));
  const std::vector<int> local = shape_.local();
  CommConfig config = inner_config(config_, name_of_ranks(config_.name, local));
  const auto make_node = [&]() -> Status {
    SENNIT_ASSIGN_OR_RETURN(node_ranks_, join_as(key + "/node", local, config)());
    SENNIT_ASSIGN_OR_RETURN(node_, make_device_comm(node_ranks_));
    return {};
  };
  const Status made = make_node();
  if (!made.ok()) {
    parent->abort();  // also the join of the other thread ends by this
  }
  const Status joined = crossings_->await_join();
  if (made.ok() && joined.ok()) {
    crossings_->start_watching();
  }
  return made.ok() ? joined : made;
}

NodesComm::~NodesComm() {
  (void)finalize();
  crossings_.reset();
  node_.reset();
  const DeviceScope scope(driver_, device_);
  for (void* const memory : scratches_) {
    (void)driver_.release(memory);
  }
  slots_.clear();
}

Status NodesComm::enqueue(std::span<const Call> calls) {
  SENNIT_RETURN_IF_ERROR(trouble());
  if (is_finalized_ && !calls.empty()) {
    return fail(Code::kInvalidUsage,
                "{} on communicator '{}' after finalize",
                sennit::name_of(calls.front().operation),
                config_.name);
  }
  const DeviceScope scope(driver_, device_);
  SENNIT_RETURN_IF_ERROR(scope.status());
  for (const Call& call : calls) {
    SENNIT_RETURN_IF_ERROR(
        check_gpu_call(driver_, device_, call.operation, shape_.rank, shape_.ranks()));
  }
  std::vector<Call> sends_and_recvs;
  for (const Call& call : calls) {
    if (call.operation.collective == Collective::kSendRecv) {
      sends_and_recvs.push_back(call);
      continue;
    }
    SENNIT_RETURN_IF_ERROR(collective(call));
    SENNIT_RETURN_IF_ERROR(record_completions({&call, 1}));
  }
  if (!sends_and_recvs.empty()) {
    SENNIT_RETURN_IF_ERROR(messages(sends_and_recvs));
  }
  return record_completions(sends_and_recvs);
}

Status NodesComm::collective(const Call& call) {
  const Operation& op = call.operation;
  if (op.count == 0 && !op.varying && op.collective != Collective::kBarrier) {
    return {};
  }
  const bool in_rank_order = config_.reproducible || op.request.rank_order;
  const Result<std::byte*> memory = scratch(scratch_bytes(op, shape_, in_rank_order), call.stream);
  if (!memory.ok()) {
    return memory.status().code() == Code::kUnsupported ? memory.status()
                                                        : crossings_->fail(memory.status());
  }
  Crossing crossing = cross(op, shape_, in_rank_order, *memory);
  SENNIT_RETURN_IF_ERROR(name_call(op, crossing.calls.front()));
  if (op.scalar_on_device != nullptr && scales_contributions(crossing.calls.front().operation.op)) {
    return fail(Code::kUnsupported,
                "{} on communicator '{}': its ranks are on several nodes, and hosts cannot read "
                "the scalar of its operator in device memory; give the scalar in host memory",
                sennit::name_of(op),
                config_.name);
  }
  SENNIT_RETURN_IF_ERROR(order_.before(call.stream));
  const Status status = make(crossing, call.stream);
  // Also after a failure half way: finalize() waits for what is in the stream by then.
  const Status ordered = order_.after(call.stream);
  SENNIT_RETURN_IF_ERROR(status);
  SENNIT_RETURN_IF_ERROR(ordered);
  return node_->normalise(op, call.stream);
}

Status NodesComm::messages(std::span<const Call> calls) {
  std::vector<const Operation*> operations;
  operations.reserve(calls.size());
  for (const Call& call : calls) {
    operations.push_back(&call.operation);
  }
  Crossing crossing = cross_messages(operations, shape_);
  for (HostCall& call : crossing.calls) {
    Operation named = call.operation;
    named.count = call.elements;
    SENNIT_RETURN_IF_ERROR(name_call(named, call));
  }
  void* const stream = calls.front().stream;
  const std::vector<void*> others = other_streams(calls);
  SENNIT_RETURN_IF_ERROR(order_.join(others, stream));
  SENNIT_RETURN_IF_ERROR(order_.before(stream));
  const Status status = make(crossing, stream);
  const Status ordered = order_.after(stream);
  SENNIT_RETURN_IF_ERROR(status);
  SENNIT_RETURN_IF_ERROR(ordered);
  return order_.fork(stream, others);
}

// A rule's codec is left out where the call cannot have it; one that the call names is refused
// then.
Status NodesComm::name_call(const Operation& operation, HostCall& call) const {
  const bool is_reproducible = config_.reproducible || operation.request.rank_order;
  SENNIT_ASSIGN_OR_RETURN(const CallCodec found,
                          call_codec(operation, codec_rules_, config_.name, is_reproducible));
  call.operation.request.codec = found.codec ? name(*found.codec) : "none";
  if (found.codec && found.is_by_rule && call.elements > 0) {
    Operation probe = call.operation;
    if (probe.varying) {
      probe.inputs.resize(call.inputs.size());
      probe.outputs.resize(call.outputs.size());
    }
    if (!crossings_->prepare(probe, call.among_counterparts).ok()) {
      call.operation.request.codec = "none";
    }
  }
  // Parts of calls of different lengths must not match.
  if (!call.operation.varying && operation.collective != Collective::kSendRecv) {
    call.operation.stands_for =
        words_of(operation, 0, call.operation.request.codec == "none" ? std::nullopt : found.codec);
  }
  return {};
}

// What all ranks refuse is refused before anything is in the stream; any other failure is one of
// the communicator, since other ranks may wait for this one.
Status NodesComm::make(const Crossing& crossing, void* stream) {
  const std::vector<CrossingPart> parts = parts_of(crossing, CrossingSlots::kSlotBytes);
  if (const Status room = make_room(parts, stream); !room.ok()) {
    const bool is_common = room.code() == Code::kUnsupported && crossing.calls.front().can_be_cut;
    return is_common ? room : crossings_->fail(room);
  }
  SENNIT_ASSIGN_OR_RETURN(const bool is_captured, driver_.is_capturing(stream));
  SENNIT_ASSIGN_OR_RETURN(std::vector<CrossingThread::Part> calls, prepare(parts, is_captured));
  const std::uint64_t parts_before = parts_;
  const auto enqueue_all = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(run_in_node(crossing.before, stream));
    const bool share_memory = std::ranges::any_of(
        parts, [](const CrossingPart& part) { return part.bytes > CrossingSlots::kSlotBytes; });
    const std::size_t ahead = std::min(parts.size(), share_memory ? 1 : CrossingSlots::kSlots);
    for (std::size_t i = 0; i < ahead; ++i) {
      SENNIT_RETURN_IF_ERROR(copy_in(parts[i], std::move(calls[i]), stream));
    }
    SENNIT_RETURN_IF_ERROR(run_in_node(crossing.meanwhile, stream));
    const std::uint64_t first = parts_ - ahead + 1;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      SENNIT_RETURN_IF_ERROR(copy_out(parts[i], first + i, is_captured, stream));
      if (const std::size_t next = i + ahead; next < parts.size()) {
        SENNIT_RETURN_IF_ERROR(copy_in(parts[next], std::move(calls[next]), stream));
      }
    }
    return run_in_node(crossing.after, stream);
  };
  const Status status = enqueue_all();
  // The first of the calls in the node may be refused, by all its ranks.
  return status.ok() || parts_ == parts_before ? status : crossings_->fail(status);
}

// With the buffers that they are going to have.
Result<std::vector<CrossingThread::Part>> NodesComm::prepare(const std::vector<CrossingPart>& parts,
                                                             bool is_captured) {
  std::vector<CrossingThread::Part> prepared;
  prepared.reserve(parts.size());
  for (const CrossingPart& part : parts) {
    CrossingThread::Part& made = prepared.emplace_back();
    made.number = parts_ + prepared.size();
    made.slots = slots_.back().get();
    made.is_replay = is_captured;
    std::byte* const memory = slots_.back()->memory(made.number, part.bytes);
    for (const CrossingPart::Call& call : part.calls) {
      Operation op = call.operation;
      op.send = memory + call.input_at;
      op.recv = memory + call.output_at;
      SENNIT_ASSIGN_OR_RETURN(auto work, crossings_->prepare(op, call.among_counterparts));
      made.calls.push_back(
          {.work = std::move(work), .among_counterparts = call.among_counterparts});
    }
  }
  return prepared;
}

Status NodesComm::run_in_node(const std::vector<Operation>& operations, void* stream) {
  std::vector<Call> calls;
  calls.reserve(operations.size());
  for (const Operation& operation : operations) {
    calls.push_back({.operation = operation, .stream = stream});
  }
  return calls.empty() ? Status() : node_->enqueue(calls);
}

Status NodesComm::copy_in(const CrossingPart& part, CrossingThread::Part&& calls, void* stream) {
  parts_ = calls.number;
  std::byte* const memory = slots_.back()->memory(calls.number, part.bytes);
  for (const CrossingPart::Copy& copy : part.inputs) {
    SENNIT_RETURN_IF_ERROR(driver_.copy_async(memory + copy.at, copy.device, copy.bytes, stream));
  }
  if (calls.is_replay) {
    captured_.push_back(std::make_unique<Captured>(Captured{crossings_.get(), std::move(calls)}));
    return driver_.events().call_host(&NodesComm::replay, captured_.back().get(), stream);
  }
  const WordStep begun{WordStep::Kind::kStore, slots_.back()->begun_on_device(), calls.number};
  SENNIT_RETURN_IF_ERROR(driver_.walk_words({&begun, 1}, stream));
  crossings_->post(std::move(calls));
  return {};
}

// In the stream of a replay, before it awaits the word.
void NodesComm::replay(void* captured) {
  const auto& self = *static_cast<const Captured*>(captured);
  self.part.slots->set_replayed(self.part.number, 0);
  self.thread->post(self.part);
}

Status NodesComm::copy_out(const CrossingPart& part,
                           std::uint64_t number,
                           bool is_captured,
                           void* stream) {
  const CrossingSlots& slots = *slots_.back();
  const WordStep ended =
      is_captured ? WordStep{WordStep::Kind::kAwait, slots.replayed_on_device(number), 1}
                  : WordStep{WordStep::Kind::kAwait, slots.ended_on_device(number), number};
  SENNIT_RETURN_IF_ERROR(driver_.walk_words({&ended, 1}, stream));
  const std::byte* const memory = slots_.back()->memory(number, part.bytes);
  for (const CrossingPart::Copy& copy : part.outputs) {
    SENNIT_RETURN_IF_ERROR(driver_.copy_async(copy.device, memory + copy.at, copy.bytes, stream));
  }
  return {};
}

Status NodesComm::check_not_captured(void* stream, std::size_t bytes, std::string_view what) const {
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
  return is_capturing
             ? fail(Code::kUnsupported,
                    "communicator '{}' lacks {} bytes of {} memory for this call, and its stream "
                    "captures: make the same call once before the capture",
                    config_.name,
                    bytes,
                    what)
             : Status();
}

// Calls that cannot be cut may need more memory.
Status NodesComm::make_room(const std::vector<CrossingPart>& parts, void* stream) {
  std::size_t most = 0;
  for (const CrossingPart& part : parts) {
    most = std::max(most, part.bytes);
  }
  if (most <= slots_.back()->most_bytes()) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(check_not_captured(stream, most, "pinned"));
  SENNIT_ASSIGN_OR_RETURN(auto slots, CrossingSlots::create(driver_, std::bit_ceil(most)));
  slots_.push_back(std::move(slots));
  return {};
}

// Calls of one communicator never run at once, so they share it.
Result<std::byte*> NodesComm::scratch(std::size_t bytes, void* stream) {
  if (bytes > scratch_bytes_) {
    SENNIT_RETURN_IF_ERROR(check_not_captured(stream, bytes, "device"));
    SENNIT_ASSIGN_OR_RETURN(void* const memory, driver_.allocate(std::bit_ceil(bytes)));
    scratches_.push_back(memory);
    scratch_bytes_ = std::bit_ceil(bytes);
  }
  return scratches_.empty() ? nullptr : static_cast<std::byte*>(scratches_.back());
}

std::uint64_t NodesComm::add_symmetric(void* memory, std::size_t bytes) {
  expect_use_of(memory, bytes);
  return 0;
}

void NodesComm::expect_use_of(void* memory, std::size_t bytes) {
  node_->expect_use_of(memory, bytes);
}

Status NodesComm::failure() {
  SENNIT_RETURN_IF_ERROR(crossings_->failure());
  const Status in_node = node_->failure();
  return in_node.ok() ? in_node : crossings_->failure_of_node(in_node);
}

Status NodesComm::trouble() {
  SENNIT_RETURN_IF_ERROR(crossings_->failure());
  const Status in_node = node_->trouble();
  return in_node.ok() ? in_node : crossings_->failure_of_node(in_node);
}

void NodesComm::abort() {
  (void)crossings_->fail(fail(Code::kAborted, "communicator '{}' was aborted", config_.name));
}

// The thread goes on while the GPU calls of the node are waited for, since these may wait for it.
Status NodesComm::finalize() {
  const bool is_running = crossings_ != nullptr && crossings_->is_running();
  if (is_finalized_ || !is_running || node_ == nullptr) {
    return {};
  }
  is_finalized_ = true;
  const DeviceScope scope(driver_, device_);
  const bool had_failed = !failure().ok();
  if (config_.deadline_s >= 0) {
    crossings_->abandon_at(Clock::now() + clock_span(GpuOptions().finalize_s));
  }
  const Status ended_in_node = node_->finalize();
  Status drained = order_.drain();
  const Status failed = crossings_->failure();
  if (!drained.ok()) {
    crossings_->give_up();  // CUDA has failed, and streams may never come to their parts
  }
  crossings_->stop();
  // Others may wait for what this rank does not go on with.
  if (!failed.ok() || !ended_in_node.ok()) {
    node_ranks_->abort();
  }
  node_ranks_->finalize();
  if (had_failed) {
    return drained;
  }
  SENNIT_RETURN_IF_ERROR(failed);
  SENNIT_RETURN_IF_ERROR(ended_in_node);
  return drained;
}

}  // namespace sennit
