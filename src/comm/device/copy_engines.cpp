#include "comm/device/copy_engines.hpp"

#include <atomic>
#include <utility>

namespace sennit {

CopyEngines::CopyEngines(CudaDriver& driver, const DeviceMemory& memory, World& world)
    : driver_(driver),
      memory_(memory),
      world_(world),
      buffers_(driver, memory),
      agreement_(world, buffers_) {}

Result<std::unique_ptr<CopyEngines>> CopyEngines::create(CudaDriver& driver,
                                                         const DeviceMemory& memory,
                                                         World& world) {
  if (world.size() > stream::kMaxRanks) {
    return fail(Code::kUnsupported, "copy engines serve up to {} ranks", stream::kMaxRanks);
  }
  std::unique_ptr<CopyEngines> self(new CopyEngines(driver, memory, world));
  SENNIT_ASSIGN_OR_RETURN(std::vector<stream::RankWords*> words, self->map_words());
  stream::RankWords& mine = *words[static_cast<std::size_t>(world.rank())];
  SENNIT_ASSIGN_OR_RETURN(self->messages_, MessageCopies::create(driver, memory, world, words));
  SENNIT_ASSIGN_OR_RETURN(self->engine_, stream::StreamEngine::create(driver, std::move(words)));
  SENNIT_RETURN_IF_ERROR(self->probe(mine));
  return self;
}

CopyEngines::~CopyEngines() {
  const DeviceScope scope(driver_, memory_.device());
  engine_.reset();  // its streams use the words, as do those of messages
  messages_.reset();
  for (void* const memory : mapped_) {
    (void)driver_.unmap_host(memory);
  }
}

// A page may be mapped once in a process: each rank maps its own words, and the first rank of the
// process those of other processes.
bool CopyEngines::maps_words_of(int rank) const {
  if (memory_.is_of_this_process(rank)) {
    return rank == world_.rank();
  }
  int first = 0;
  while (!memory_.is_of_this_process(first)) {
    ++first;
  }
  return first == world_.rank();
}

Result<std::vector<stream::RankWords*>> CopyEngines::map_words() {
  std::vector<stream::RankWords*> words;
  for (int rank = 0; rank < world_.size(); ++rank) {
    // What another rank of the process maps has one address for host and devices.
    void* address = &world_.stream_words()[rank];
    if (maps_words_of(rank)) {
      void* const host = address;
      SENNIT_ASSIGN_OR_RETURN(address, driver_.map_host(host, sizeof(stream::RankWords)));
      mapped_.push_back(host);
    }
    words.push_back(static_cast<stream::RankWords*>(address));
  }
  return words;
}

// Not every device takes word steps, and no attribute that the runtime knows tells.
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

Result<bool> CopyEngines::run(const Call& call) {
  const Operation& op = call.operation;
  const stream::StreamProgram& program = call.program;
  SENNIT_ASSIGN_OR_RETURN(const bool capturing, driver_.is_capturing(call.stream));
  Agreement::Request request{.is_capturing = capturing, .trouble = call.trouble};
  request.input = program.offers.empty() ? nullptr : op.send;
  request.output = program.passes_on() ? op.recv : nullptr;
  request.takes_part = program.may_be_in_place || !is_in_place(op, world_.rank(), world_.size());
  SENNIT_ASSIGN_OR_RETURN(const auto peers, agreement_.reach(request));
  if (!peers) {
    return false;
  }
  const stream::StreamCall streamed{
      .input = static_cast<const std::byte*>(op.send),
      .output = static_cast<std::byte*>(op.recv),
      .peers = *peers,
      .count = op.count,
      .element_bytes = static_cast<std::int64_t>(size_bytes(op.dtype))};
  SENNIT_RETURN_IF_ERROR(engine_->run(program, streamed, call.stream));
  return true;
}

bool CopyEngines::is_running() const {
  return std::atomic_ref(world_.stream_words()[world_.rank()].running)
             .load(std::memory_order_acquire) != stream::kIdle;
}

std::optional<CopyEngines::Running> CopyEngines::running() {
  const std::atomic_ref word(world_.stream_words()[world_.rank()].running);
  std::uint64_t found = word.load(std::memory_order_acquire);
  if (found == stream::kIdle) {
    return std::nullopt;
  }
  if ((found & stream::kSeen) == 0) {
    if (word.compare_exchange_strong(found, found | stream::kSeen, std::memory_order_acq_rel)) {
      seen_at_ = Clock::now();
    }
    return std::nullopt;
  }
  Running running{.duration = Clock::now() - seen_at_};
  for (int rank = 0; rank < world_.size(); ++rank) {
    if ((found >> (stream::kPeersAt + rank) & 1) != 0) {
      running.peers.push_back(rank);
    }
  }
  return running;
}

}  // namespace sennit
