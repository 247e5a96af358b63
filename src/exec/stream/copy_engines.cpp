#include "exec/stream/copy_engines.hpp"

#include "base/log.hpp"
#include "exec/stream/copies.hpp"
#include "exec/stream/leader_operations.hpp"
#include "exec/stream/leader_wait.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

namespace sennit {
namespace {

// Watchers look 20 times a second.
constexpr std::chrono::milliseconds kHearing{250};

stream::Extent extent_of(const Operation& op) {
  return {op.count, static_cast<std::int64_t>(size_bytes(op.dtype))};
}

}  // namespace

CopyEngines::CopyEngines(CudaDriver& driver,
                         const DeviceMemory& memory,
                         World& world,
                         bool copies_by_kernel)
    : driver_(driver),
      memory_(memory),
      world_(world),
      copies_by_kernel_(copies_by_kernel),
      buffers_(driver, memory, world),
      agreement_(world, buffers_),
      known_(world.rank(), world.size()) {}

Result<std::unique_ptr<CopyEngines>> CopyEngines::create(CudaDriver& driver,
                                                         const DeviceMemory& memory,
                                                         World& world,
                                                         bool copies_by_kernel) {
  if (world.size() > stream::kMaxRanks) {
    return fail(Code::kUnsupported, "copy engines serve up to {} ranks", stream::kMaxRanks);
  }
  std::unique_ptr<CopyEngines> self(new CopyEngines(driver, memory, world, copies_by_kernel));
  SENNIT_ASSIGN_OR_RETURN(std::vector<stream::RankWords*> words, self->map_words());
  stream::RankWords& mine = *words[static_cast<std::size_t>(world.rank())];
  self->own_words_ = &mine;
  SENNIT_ASSIGN_OR_RETURN(self->messages_, MessageCopies::create(driver, memory, world, words));
  SENNIT_ASSIGN_OR_RETURN(self->engine_, stream::StreamEngine::create(driver, std::move(words)));
  SENNIT_RETURN_IF_ERROR(self->probe(mine));
  SENNIT_RETURN_IF_ERROR(self->preload_kernels());
  return self;
}

CopyEngines::~CopyEngines() {
  const DeviceScope scope(driver_, memory_.device());
  engine_.reset();  // its streams use the words, as do those of messages
  messages_.reset();
}

Result<std::byte*> CopyEngines::map_part(std::byte* memory, std::size_t bytes) {
  SENNIT_ASSIGN_OR_RETURN(mapped_.emplace_back(), HeldMemory::pin(driver_, memory, bytes));
  return mapped_.back()->on_device();
}

Result<std::vector<stream::RankWords*>> CopyEngines::map_words() {
  std::vector<stream::RankWords*> words;
  for (int rank = 0; rank < world_.size(); ++rank) {
    auto* const host = reinterpret_cast<std::byte*>(&world_.stream_words()[rank]);
    SENNIT_ASSIGN_OR_RETURN(std::byte* const address, map_part(host, sizeof(stream::RankWords)));
    words.push_back(reinterpret_cast<stream::RankWords*>(address));
  }
  return words;
}

Status CopyEngines::map_rings() {
  host::Rings rings{.shape = world_.gpu_staging().shape, .bases = {}};
  host::advise_huge_pages(world_.gpu_staging().ring(0), rings.shape.bytes() * world_.size());
  for (int rank = 0; rank < world_.size(); ++rank) {
    SENNIT_ASSIGN_OR_RETURN(std::byte* const base,
                            map_part(world_.gpu_staging().ring(rank), rings.shape.bytes()));
    rings.bases.push_back(base);
  }
  SENNIT_INFO("device",
              "path host: {} slots of {} bytes of pinned host memory for each of {} ranks",
              rings.shape.slots,
              rings.shape.slot_bytes,
              world_.size());
  return engine_->use_rings(std::move(rings));
}

Result<bool> CopyEngines::open_rings(void* stream, const std::function<Status()>& trouble) {
  if (has_rings_) {
    return true;
  }
  SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
  if (!has_rings_here_ && !is_capturing && ring_retries_.is_due()) {
    const std::size_t mapped_before = mapped_.size();
    const Status status = map_rings();
    has_rings_here_ = status.ok();
    if (!has_rings_here_) {
      SENNIT_INFO("device", "no path host: {}", status.message());
      mapped_.resize(mapped_before);
    }
  }
  SENNIT_ASSIGN_OR_RETURN(has_rings_, agreement_.do_all_agree(has_rings_here_, trouble));
  return has_rings_;
}

// Not every device takes word steps, and no attribute that the runtime knows says so.
Status CopyEngines::probe(stream::RankWords& mine) {
  SENNIT_ASSIGN_OR_RETURN(void* const stream, driver_.create_stream());
  const WordStep step{WordStep::Kind::kStore, &mine.running, stream::kIdle};
  Status status = driver_.walk_words({&step, 1}, stream);
  if (status.ok()) {
    status = driver_.synchronize(stream);
  }
  const Status destroyed = driver_.destroy_stream(stream);
  return status.ok() ? destroyed : status;
}

bool CopyEngines::can_run(const Call& call, bool is_capturing) {
  const Operation& op = call.operation;
  if (!call.program.may_be_in_place() && is_in_place(op, world_.rank(), world_.size())) {
    return false;
  }
  // The others could not read a scalar in memory of this device.
  return !is_reduction(op.collective) ||
         (op.scalar_on_device == nullptr && can_reduce(call, is_capturing));
}

// As with other kernels: a first launch may wait for what is in the streams already.
Status CopyEngines::preload_kernels() {
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (const void* const kernel = stream::reduction_kernel(dtype, op); kernel != nullptr) {
        SENNIT_RETURN_IF_ERROR(driver_.preload(kernel));
      }
    }
  }
  const void* const copies = stream::copies_kernel();
  return copies == nullptr ? Status() : driver_.preload(copies);
}

// The memory that reductions need is taken when it is first needed, which a capture does not allow.
// Reductions of threads of one process were seen to hang. A kernel that is launched next to waits
// is the likely reason (docs/decisions/0043-streams-that-share-queues.md).
bool CopyEngines::can_reduce(const Call& call, bool is_capturing) {
  if (!memory_.has_a_process_each()) {
    return false;
  }
  if (!call.program.by_leader.empty()) {
    return true;
  }
  const stream::Staging& staging = engine_->staging();
  const std::int64_t needed = staging_needs(call);
  if (needed <= staging.bytes() || is_capturing) {
    return needed <= staging.bytes();
  }
  if (call.operation.request.protocol.empty() && !staging_retries_.is_due()) {
    return false;
  }
  const Status status = engine_->reserve_staging(needed);
  if (status.ok()) {
    staging_retries_ = {};
    SENNIT_INFO("device", "{} bytes of GPU memory stage reductions", staging.bytes());
  } else {
    SENNIT_INFO("device", "reductions take kernels: {}", status.message());
  }
  return status.ok();
}

bool CopyEngines::becomes_idle(void* stream) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point until =
      impatient_calls_ > 0 ? now : std::max(idle_by_, now + stream::idle_patience(world_.size()));
  for (;;) {
    const Result<bool> idle = driver_.events().is_idle(stream);
    if (!idle.ok() || *idle || Clock::now() >= until) {
      return idle.ok() && *idle;
    }
  }
}

// Waiting in vain delays all, so all do it in the same calls, and seldom. Several in a row, since
// the GPU may have to change to the leader's process first, which makes one call late.
void CopyEngines::note_idle(bool are_all_idle) {
  constexpr int kInVain = 3;
  constexpr int kImpatientCalls = 32;
  if (impatient_calls_ > 0) {
    --impatient_calls_;
    return;
  }
  in_vain_ = are_all_idle ? 0 : in_vain_ + 1;
  if (in_vain_ == kInVain) {
    in_vain_ = 0;
    impatient_calls_ = kImpatientCalls;
  }
}

bool CopyEngines::await_leader_on_host(std::uint64_t number, std::size_t bytes) {
  const std::chrono::nanoseconds patience =
      stream::leader_patience(world_.size(), world_.size() * static_cast<std::int64_t>(bytes));
  const Clock::time_point until = Clock::now() + patience;
  if (world_.rank() == stream::kLeader) {
    idle_by_ = until;
    return false;
  }
  stream::RankWords& own = world_.stream_words()[world_.rank()];
  if (patience.count() == 0 || !stream::await_leader(own, until)) {
    return false;
  }
  // Partner: has_calls().
  std::atomic_ref(own.ended).store(number, std::memory_order_release);
  return true;
}

stream::KnownBuffers::Call CopyEngines::for_known(const Call& call) const {
  return {
      .operation = call.operation,
      .program = call.program,
      .is_uniform = call.is_uniform,
      .staging_bytes = call.is_uniform && call.program.exposes_staging() ? staging_needs(call) : 0};
}

std::int64_t CopyEngines::staging_needs(const Call& call) const {
  return engine_->staging_needs(*call.program.alone(), extent_of(call.operation));
}

Result<std::optional<Agreement::Reached>> CopyEngines::reach(const Call& call, bool is_capturing) {
  const WindowPlace place = known_place(call);
  if (place.window == 0) {
    return meet(call, is_capturing);
  }
  return std::optional(Agreement::Reached{.buffers = known_.buffers_at(place)});
}

Result<std::optional<Agreement::Reached>> CopyEngines::meet(const Call& call, bool is_capturing) {
  const Operation& op = call.operation;
  const stream::PlanProgram& program = call.program;
  Agreement::Request request{.is_capturing = is_capturing, .trouble = call.trouble};
  const BufferNeeds needs = buffer_needs(op, world_.rank(), world_.size());
  request.takes_part = can_run(call, is_capturing);
  request.place = known_.place_of(for_known(call));
  const bool is_output_shown = program.exposes_output() || request.place.window != 0;
  request.output = {is_output_shown ? op.recv : nullptr, needs.output_bytes};
  request.input = {program.has_input_read() ? op.send : nullptr, needs.input_bytes};
  if (program.exposes_staging()) {
    request.staging = {engine_->staging().memory(), engine_->staging().bytes()};
  }
  request.scalar = op.scaling.scalar;
  request.takes_slow = op.request.name_a_way();
  const bool is_led = !program.by_leader.empty();
  request.is_idle = is_led && !is_capturing && becomes_idle(call.stream);
  SENNIT_ASSIGN_OR_RETURN(auto reached, agreement_.reach(request));
  if (!reached) {
    known_.forget_staging();
    return reached;
  }
  if (is_led) {
    note_idle(reached->are_all_idle);
  }
  known_.learn(for_known(call), reached->buffers, reached->is_symmetric);
  return reached;
}

Result<bool> CopyEngines::run(const Call& call) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const bool capturing, driver_.is_capturing(call.stream));
  SENNIT_ASSIGN_OR_RETURN(const auto reached, reach(call, capturing));
  if (!reached) {
    return false;
  }
  const stream::Extent extent = extent_of(op);
  stream::StreamCall streamed{.input = static_cast<const std::byte*>(op.send),
                              .output = static_cast<std::byte*>(op.recv),
                              .peers = reached->buffers,
                              .count = extent.count,
                              .element_bytes = extent.element_bytes,
                              .deadline_ms = call.deadline_ms,
                              .are_all_idle = reached->are_all_idle,
                              .is_captured = capturing};
  if (is_reduction(op.collective)) {
    streamed.reduction = stream::reduction_kernel(op.dtype, op.op);
  }
  // A call that requests copy engines keeps all SMs. Between threads of one process kernels next to
  // waits were seen to hang (docs/decisions/0043-streams-that-share-queues.md).
  if (copies_by_kernel_ && op.request.protocol.empty() && memory_.has_a_process_each()) {
    streamed.copy = stream::copies_kernel();
  }
  SENNIT_ASSIGN_OR_RETURN(streamed.number, begin_call(capturing));
  const BufferNeeds needs = buffer_needs(op, world_.rank(), world_.size());
  if (streamed.are_all_idle &&
      await_leader_on_host(streamed.number, needs.input_bytes + needs.output_bytes)) {
    return true;
  }
  if (const Status status = engine_->run(call.program, streamed, call.stream); !status.ok()) {
    end_begun_call(streamed.number, call.stream);
    return status;
  }
  return true;
}

Status CopyEngines::run(stream::MessageEngine::Group group) {
  SENNIT_ASSIGN_OR_RETURN(group.is_captured, driver_.is_capturing(group.stream));
  SENNIT_ASSIGN_OR_RETURN(group.number, begin_call(group.is_captured));
  const Status status = messages_->engine().run(group);
  if (!status.ok()) {
    end_begun_call(group.number, group.stream);
  }
  return status;
}

// Either this sees that it is closed, or who has closed it sees in has_calls() that there is a
// call: both write one and then read the other, in one order for all.
Result<std::uint64_t> CopyEngines::begin_call(bool is_capturing) {
  const std::uint64_t number = is_capturing ? 0 : ++calls_;
  if (is_closed_) {
    return fail(Code::kAborted, "the communicator was given up meanwhile");
  }
  return number;
}

// What was begun of it comes before what the stream holds from now on, and without these words the
// watcher would take it for running for ever. A stream that takes no words either runs nothing.
void CopyEngines::end_begun_call(std::uint64_t number, void* stream) {
  const std::array<WordStep, 2> words{
      WordStep{.word = &own_words_->running, .value = stream::kIdle},
      WordStep{.word = &own_words_->ended, .value = number}};
  const bool is_counted = number != 0;
  const Status status = driver_.walk_words({words.data(), is_counted ? 2U : 1U}, stream);
  if (!status.ok() && is_counted) {
    calls_.compare_exchange_strong(number, number - 1);
  }
}

void CopyEngines::release() {
  const std::scoped_lock lock(release_mutex_);
  stream::RankWords& words = world_.stream_words()[world_.rank()];
  words.release_others();
  const Clock::time_point now = Clock::now();
  released_at_ = released_at_.value_or(now);
  if (now - *released_at_ >= kHearing) {
    words.release_puts();
  }
}

bool CopyEngines::has_calls() const {
  stream::RankWords& words = world_.stream_words()[world_.rank()];
  // Partner: the stores of this device's streams, in end_call().
  const auto now = [](std::uint64_t& word) {
    return std::atomic_ref(word).load(std::memory_order_acquire);
  };
  return now(words.ended) != calls_ || now(words.running) != stream::kIdle;
}

std::optional<CopyEngines::Running> CopyEngines::running() {
  const std::atomic_ref word(world_.stream_words()[world_.rank()].running);
  std::uint64_t found = word.load(std::memory_order_acquire);
  if (found == stream::kIdle) {
    return std::nullopt;
  }
  if ((found & stream::kSeen) == 0) {
    // Partner: the stores of this device's streams. A call that has ended meanwhile is not marked.
    if (word.compare_exchange_strong(found, found | stream::kSeen, std::memory_order_acq_rel)) {
      seen_at_ = Clock::now();
    }
    return std::nullopt;
  }
  Running running{.duration = Clock::now() - seen_at_,
                  .deadline = std::chrono::milliseconds(found >> stream::kDeadlineAt)};
  for (int rank = 0; rank < world_.size(); ++rank) {
    if ((found >> (stream::kPeersAt + rank) & 1) != 0) {
      running.peers.push_back(rank);
    }
  }
  return running;
}

}  // namespace sennit
