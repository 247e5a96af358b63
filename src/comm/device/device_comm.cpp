#include "comm/device/device_comm.hpp"

#include "comm/call_codec.hpp"
#include "comm/device/gpu_arguments.hpp"
#include "comm/device/varying_messages.hpp"
#include "exec/stream/copy_engines.hpp"
#include "memory/message_puts.hpp"
#include "select/device_paths.hpp"
#include "world/call_ledger.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace sennit {
namespace {

bool is_message(const DeviceComm::Call& call) {
  return call.operation.collective == Collective::kSendRecv;
}

std::string_view reason_of(Lack lack) {
  switch (lack) {
    case Lack::kHostRings:
      return "some rank cannot pin its rings in host memory, or captures and has not pinned them "
             "before";
    case Lack::kCopyEngines:
      return "of some rank a buffer cannot be mapped by others, or was not mapped before its "
             "stream "
             "captured, or the call works in place where it may not";
    case Lack::kOneSided:
      return "it works in place where that is not supported";
    case Lack::kNothing:
      break;
  }
  return "";
}

Status unavailable(const Operation& operation, Lack lack, const Status& without_it) {
  const std::string& protocol = operation.request.protocol;
  return fail(Code::kUnsupported,
              "{}{} cannot run as requested: {}. Without this: {}",
              name(operation.collective),
              protocol.empty() ? std::string() : fmt::format(" by protocol {}", protocol),
              reason_of(lack),
              without_it.message());
}

}  // namespace

DeviceComm::DeviceComm(CudaDriver& driver, int device, World& world, Options options)
    : driver_(driver),
      device_(device),
      world_(world),
      options_(std::move(options)),
      order_(driver) {}

Result<std::unique_ptr<DeviceComm>> DeviceComm::create(CudaDriver& driver,
                                                       int device,
                                                       World& world,
                                                       const Options& options,
                                                       const Exchange& exchange) {
  const DeviceScope scope(driver, device);
  SENNIT_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<DeviceComm> comm(new DeviceComm(driver, device, world, options));
  SENNIT_RETURN_IF_ERROR(comm->order_.open());
  SENNIT_ASSIGN_OR_RETURN(comm->token_,
                          driver.allocate(static_cast<std::size_t>(world.size()) * 16));
  SENNIT_ASSIGN_OR_RETURN(comm->context_,
                          GpuContext::create(driver, device, world, options, exchange));
  comm->executables_ = std::make_unique<Executables>(*comm->context_, world.rank(), world.size());
  comm->groups_ =
      std::make_unique<MessageGroups>(driver, *comm->context_, *comm->executables_, world.rank());
  comm->coded_ = std::make_unique<CodedCalls>(
      driver, world.rank(), world.size(), comm->context_->memory().has_a_process_each());
  comm->watch_ = std::make_unique<DeviceWatch>(world, *comm->context_, options.name);
  return comm;
}

DeviceComm::~DeviceComm() {
  (void)finalize();
  watch_.reset();
  executables_.reset();
  context_.reset();
  if (token_ != nullptr) {
    const DeviceScope scope(driver_, device_);
    (void)driver_.release(token_);
  }
}

double DeviceComm::deadline_of(const Operation& operation) const {
  return operation.deadline_s != 0 ? operation.deadline_s : options_.deadline_s;
}

GpuCall DeviceComm::gpu_call(const Operation& operation, void* stream) {
  return {.operation = operation,
          .stream = stream,
          .deadline_s = deadline_of(operation),
          .guard = *this};
}

std::function<Status()> DeviceComm::trouble_of(const Operation& operation) {
  return [this, &operation, begin = Clock::now()]() -> Status {
    const double deadline_s = deadline_of(operation);
    if (deadline_s > 0 && Clock::now() - begin > std::chrono::duration<double>(deadline_s)) {
      return watch_->explain_deadline(operation);
    }
    return watch_->look();
  };
}

Result<DeviceChoice> DeviceComm::choose(const Operation& operation, const Means& means) const {
  const DeviceFacts& facts = context_->facts();
  SENNIT_ASSIGN_OR_RETURN(DeviceChoice choice,
                          choose_for_devices(operation.collective,
                                             shape_of(operation, world_.size(), groups_of(facts)),
                                             operation.bytes(),
                                             operation.request,
                                             facts,
                                             means));
  if (choice.by_steps && is_reduction(operation.collective)) {
    choice.scaled = {.contributions = scales_contributions(operation.op),
                     .sums = finishes_sum(operation.op)};
  }
  return choice;
}

// What it refuses is refused on all ranks.
Result<Executable*> DeviceComm::next_candidate(const Operation& op, Candidates& candidates) {
  for (;;) {
    const Result<DeviceChoice> choice = choose(op, candidates.means);
    if (!choice.ok()) {
      return candidates.lack == Lack::kNothing ? choice.status()
                                               : unavailable(op, candidates.lack, choice.status());
    }
    SENNIT_ASSIGN_OR_RETURN(Executable* const executable, executables_->find(op, *choice));
    // Once the call is reported, some rank that the others do not know of may work in place.
    const bool is_out =
        executable->needs_separate_buffers() &&
        (candidates.is_reported || (op.request.protocol.empty() && !executable->refuses(op).ok()));
    if (!is_out) {
      return executable;
    }
    candidates.lack = candidates.is_reported ? candidates.lack : Lack::kOneSided;
    candidates.means = without(candidates.means, Lack::kOneSided);
  }
}

// The candidates in their order, until one is in the stream. The call is reported once, by the
// first of them; from then on a failure to enqueue is one of the communicator, since other ranks
// may wait for this one.
Status DeviceComm::collective(const Call& call) {
  const Operation& op = call.operation;
  if (op.varying) {
    return varying(call);
  }
  if (op.count == 0) {
    return {};
  }
  const DeviceFacts& facts = context_->facts();
  Candidates candidates{.means = is_reduction(op.collective) ? Means::of(facts, op.op)
                                                             : Means::of(facts)};
  for (;;) {
    SENNIT_ASSIGN_OR_RETURN(Executable* const executable, next_candidate(op, candidates));
    if (const Status refusal = executable->refuses(op); !refusal.ok()) {
      // In place is a matter of this rank alone. Ranks that do not refuse see by this entry that
      // they wait in vain; where all refuse, all go on.
      context_->ledger().report(words_of(op, CallWords::kRefused));
      return refusal;
    }
    if (!candidates.is_reported) {
      context_->ledger().report(words_of(op, executable->hash_of(op)));
      candidates.is_reported = true;
    }
    const Result<Lack> enqueued = executable->enqueue(gpu_call(op, call.stream));
    if (!enqueued.ok()) {
      return watch_->give_up(enqueued.status());
    }
    if (*enqueued == Lack::kNothing) {
      last_plan_ = &executable->proved();
      return executable->normalises(op) ? Status() : normalise(op, call.stream);
    }
    candidates.lack = *enqueued;
    candidates.means = without(candidates.means, *enqueued);
  }
}

// Also without elements: others may have something where this rank has nothing.
Status DeviceComm::varying(const Call& call) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const DeviceChoice choice, choose(op, Means::of(context_->facts())));
  SENNIT_ASSIGN_OR_RETURN(const ProvedPlan* const proved, executables_->find_proof(op, choice));
  const std::vector<Operation> blocks = messages_of_varying(op, world_.rank(), world_.size());
  std::vector<GpuCall> messages;
  messages.reserve(blocks.size());
  for (const Operation& block : blocks) {
    messages.push_back(gpu_call(block, call.stream));
  }
  Result<MessageGroups::Group> group = groups_->plan(messages);
  context_->ledger().report(words_of(op, group.ok() ? proved->hash : CallWords::kRefused));
  SENNIT_RETURN_IF_ERROR(group.status());
  const auto run = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(groups_->agree(group->messages));
    return groups_->enqueue(*group, call.stream);
  };
  last_plan_ = proved;
  const Status status = run();
  return status.ok() ? status : watch_->give_up(status);
}

Status DeviceComm::normalise(const Operation& operation, void* stream) {
  if (!operation.rms_norm) {
    return {};
  }
  const Status status = context_->normalise_rows(operation, stream);
  return status.ok() ? status : watch_->give_up(status);
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

// Together, in the stream of the first: sends and recvs that were posted together may need each
// other.
Status DeviceComm::messages(std::span<const Call> calls) {
  last_plan_ = nullptr;
  std::vector<CodedCalls::Message> coded;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SENNIT_ASSIGN_OR_RETURN(const std::optional<Codec> codec, codec_of(calls[i].operation));
    if (codec) {
      coded.push_back({calls[i].operation, *codec, i});
    }
  }
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Operation> of_bytes,
                          coded_->as_bytes(coded, calls.front().stream));
  std::vector<const Operation*> operations;
  for (const Call& call : calls) {
    operations.push_back(&call.operation);
  }
  for (std::size_t i = 0; i < coded.size(); ++i) {
    operations[coded[i].index] = &of_bytes[i];
  }
  std::vector<GpuCall> gpu_calls;
  gpu_calls.reserve(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    gpu_calls.push_back(gpu_call(*operations[i], calls[i].stream));
  }
  SENNIT_ASSIGN_OR_RETURN(MessageGroups::Group group, groups_->plan(gpu_calls));
  const auto run = [&]() -> Status {
    SENNIT_RETURN_IF_ERROR(groups_->agree(group.messages));
    void* const stream = calls.front().stream;
    const std::vector<void*> others = other_streams(calls);
    SENNIT_RETURN_IF_ERROR(order_.join(others, stream));
    SENNIT_RETURN_IF_ERROR(order_.before(stream));
    const auto enqueue_all = [&]() -> Status {
      SENNIT_RETURN_IF_ERROR(coded_->encode(coded, stream));
      SENNIT_RETURN_IF_ERROR(groups_->enqueue(group, stream));
      return coded_->decode(coded, stream);
    };
    const Status status = enqueue_all();
    // Also after a failure half way, as of collectives.
    const Status ordered = order_.after(stream);
    SENNIT_RETURN_IF_ERROR(status);
    SENNIT_RETURN_IF_ERROR(ordered);
    return order_.fork(stream, others);
  };
  const Status status = run();
  return status.ok() ? status : watch_->give_up(status);
}

Result<std::optional<Codec>> DeviceComm::codec_of(const Operation& op) const {
  const bool is_own = op.collective == Collective::kSendRecv && op.peer == world_.rank();
  if (is_own || (options_.codec_rules.empty() && !op.request.wants_codec())) {
    return std::optional<Codec>();
  }
  SENNIT_ASSIGN_OR_RETURN(
      const CallCodec found,
      call_codec(
          op, options_.codec_rules, options_.name, options_.reproducible || op.request.rank_order));
  if (!found.codec) {
    return std::optional<Codec>();
  }
  const Status refusal = coded_->check(op, *found.codec);
  if (!refusal.ok() && !found.is_by_rule) {
    return refusal;
  }
  return refusal.ok() ? found.codec : std::nullopt;
}

// Until bytes have moved a failure is one of this rank alone, as in collective().
Status DeviceComm::coded_collective(const Call& call, Codec codec) {
  const Operation& op = call.operation;
  if (op.count == 0 && !op.varying) {
    return {};
  }
  bool is_reported = false;
  bool has_moved = false;
  const Status status = coded_->run(op, codec, call.stream, [&](const Operation& of_bytes) {
    is_reported = true;
    const Status moved = collective({.operation = of_bytes, .stream = call.stream});
    has_moved = has_moved || moved.ok();
    return moved;
  });
  if (!status.ok() && !is_reported) {
    context_->ledger().report(words_of(op, CallWords::kRefused, codec));
  }
  if (!status.ok()) {
    return has_moved ? watch_->give_up(status) : status;
  }
  return normalise(op, call.stream);
}

Status DeviceComm::make(const Call& call) {
  if (call.operation.collective == Collective::kBarrier) {
    return barrier(call.stream);
  }
  SENNIT_ASSIGN_OR_RETURN(const std::optional<Codec> codec, codec_of(call.operation));
  return codec ? coded_collective(call, *codec) : collective(call);
}

Status DeviceComm::enqueue(std::span<const Call> calls) {
  SENNIT_RETURN_IF_ERROR(trouble());
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
    SENNIT_RETURN_IF_ERROR(
        check_gpu_call(driver_, device_, call.operation, world_.rank(), world_.size()));
    SENNIT_RETURN_IF_ERROR(codec_of(call.operation).status());
  }
  map_registered_buffers(calls);
  if (!calls.empty() && std::ranges::all_of(calls, is_message)) {
    SENNIT_RETURN_IF_ERROR(messages(calls));
    return record_completions(calls);
  }
  std::vector<Call> sends_and_recvs;
  for (const Call& call : calls) {
    if (is_message(call)) {
      sends_and_recvs.push_back(call);
      continue;
    }
    SENNIT_RETURN_IF_ERROR(order_.before(call.stream));
    const Status status = make(call);
    // Also after a failure half way: finalize() waits for what is in the stream by then.
    const Status ordered = order_.after(call.stream);
    SENNIT_RETURN_IF_ERROR(status);
    SENNIT_RETURN_IF_ERROR(ordered);
    SENNIT_RETURN_IF_ERROR(record_completions({&call, 1}));
  }
  if (!sends_and_recvs.empty()) {
    SENNIT_RETURN_IF_ERROR(messages(sends_and_recvs));
  }
  return record_completions(sends_and_recvs);
}

void DeviceComm::expect_use_of(void* memory, std::size_t bytes) {
  if (context_->message_puts() == nullptr || !failure().ok()) {
    return;
  }
  const DeviceScope scope(driver_, device_);
  if (scope.status().ok()) {
    context_->message_puts()->announce_to_all(static_cast<std::byte*>(memory), bytes);
  }
}

std::uint64_t DeviceComm::add_symmetric(void* memory, std::size_t bytes) {
  expect_use_of(memory, bytes);
  CopyEngines* const engines = context_->copy_engines();
  if (engines == nullptr) {
    return 0;
  }
  // Peers map allocations one by one. So a window over several counts and holds nothing.
  auto* const begin = static_cast<std::byte*>(memory);
  const Result<Allocation> around = driver_.allocation_of(begin);
  const bool is_one = around.ok() && begin + bytes <= around->base + around->bytes;
  return engines->symmetric_memory().add(begin, is_one ? bytes : 0);
}

void DeviceComm::remove_symmetric(std::uint64_t number) {
  if (CopyEngines* const engines = context_->copy_engines(); engines != nullptr) {
    engines->symmetric_memory().remove(number);
  }
}

void DeviceComm::map_registered_buffers(std::span<const Call> calls) {
  MessagePuts* const buffers = context_->message_puts();
  if (buffers == nullptr) {
    return;
  }
  buffers->keep_up();
  const auto may_be_captured = [&](const Call& call) {
    const Result<bool> is_capturing = driver_.is_capturing(call.stream);
    return !is_capturing.ok() || *is_capturing;
  };
  if (buffers->has_announcements() && std::ranges::none_of(calls, may_be_captured)) {
    buffers->map_all_announced();
  }
}

// The watch ends what waits in vain, so it lives on until nothing waits, and is there before
// anything does. Once it has been stopped, because the process ends, CUDA is about to end all that
// is in streams.
Status DeviceComm::finalize() {
  if (watch_ == nullptr || !watch_->is_watching()) {
    return {};
  }
  is_finalized_ = true;
  const DeviceScope scope(driver_, device_);
  const bool had_failed = !failure().ok();
  if (options_.deadline_s >= 0) {
    watch_->abandon_at(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(options_.finalize_s)));
  }
  return watch_->end_of_finalize(had_failed, order_.drain());
}

}  // namespace sennit
