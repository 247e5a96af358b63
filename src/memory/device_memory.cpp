#include "memory/device_memory.hpp"

#include "base/log.hpp"

#include <algorithm>

namespace sennit {
namespace {

// Kernels that wait for each other hold the device for their time slice in vain.
void warn_of_turns(const DeviceBootstrap& bootstrap) {
  for (int a = 0; a < bootstrap.ranks(); ++a) {
    for (int b = a + 1; b < bootstrap.ranks(); ++b) {
      if (bootstrap.run_in_turn(a, b)) {
        SENNIT_WARN("device",
                    "{} and {} are processes that share a GPU, which runs their kernels in turn: "
                    "a call takes from 20 us to milliseconds. Start CUDA's Multi-Process Service "
                    "before the ranks (nvidia-cuda-mps-control -d), or give each a GPU",
                    bootstrap.describe(a),
                    bootstrap.describe(b));
        return;
      }
    }
  }
}

}  // namespace

DeviceMemory::DeviceMemory(CudaDriver& driver, const DeviceIdentity& identity)
    : driver_(driver), identity_(identity) {}

Status DeviceMemory::allocate() {
  const auto states = static_cast<std::size_t>(shape().most_blocks()) +
                      2 * static_cast<std::size_t>(identity_.ranks) *
                          static_cast<std::size_t>(pair_shape().most_blocks());
  SENNIT_ASSIGN_OR_RETURN(void* words, driver_.allocate(states * sizeof(sm::BlockState)));
  states_ = static_cast<sm::BlockState*>(words);
  SENNIT_ASSIGN_OR_RETURN(
      void* scratch,
      driver_.allocate(step_scratch_bytes() +
                       static_cast<std::size_t>(step_blocks()) * sizeof(std::uint64_t)));
  step_scratch_ = static_cast<std::byte*>(scratch);
  SENNIT_ASSIGN_OR_RETURN(error_word_, driver_.allocate_mapped(sizeof(sm::ErrorWord)));
  return {};
}

// All together, and all have the limit of the tightest.
Status DeviceMemory::limit_blocks(const DeviceBootstrap& bootstrap) {
  const Result<CudaDevice> device = driver_.describe(identity_.device);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(device.status()));
  int sharing = 1;  // the device of this rank
  for (int rank = 0; rank < identity_.ranks; ++rank) {
    const bool shares = rank != identity_.rank && bootstrap.share_device(rank, identity_.rank);
    sharing += shares ? 1 : 0;
  }
  SENNIT_ASSIGN_OR_RETURN(const std::vector<int> limits,
                          bootstrap.exchange(std::max(1, device->sm_count / sharing)));
  block_limit_ = std::ranges::min(limits);
  return {};
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::create(CudaDriver& driver,
                                                           const DeviceIdentity& identity,
                                                           const Fifos::Options& options,
                                                           const Exchange& exchange) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(driver, identity));
  SENNIT_ASSIGN_OR_RETURN(const DeviceBootstrap bootstrap,
                          DeviceBootstrap::open(driver, identity, exchange));
  memory->processes_ = bootstrap.processes();
  memory->gpus_ = bootstrap.gpus();
  if (identity.rank == 0) {
    warn_of_turns(bootstrap);
  }
  SENNIT_RETURN_IF_ERROR(memory->limit_blocks(bootstrap));
  Fifos::Options limited = options;
  limited.resident = memory->block_limit_;
  SENNIT_ASSIGN_OR_RETURN(memory->fifos_, Fifos::open(bootstrap, limited));
  if (memory->fifos_->plan().place == FifoPlace::kHost) {
    SENNIT_ASSIGN_OR_RETURN(memory->peer_staging_,
                            PeerStaging::open(bootstrap, memory->fifos_->plan().peer_staging));
  }
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(memory->allocate()));
  for (int peer = 0; peer < identity.ranks; ++peer) {
    for (const bool sends : {false, true}) {
      memory->pairs_.push_back(memory->make_pair(peer, sends));
    }
  }
  return memory;
}

bool DeviceMemory::has_a_process_each() const {
  std::vector<std::uint64_t> sorted = processes_;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

DeviceMemory::~DeviceMemory() {
  const DeviceScope scope(driver_, identity_.device);
  if (states_ != nullptr) {
    (void)driver_.release(states_);
  }
  if (step_scratch_ != nullptr) {
    (void)driver_.release(step_scratch_);
  }
  if (error_word_.host != nullptr) {
    (void)driver_.release_mapped(error_word_);
  }
}

DeviceMemory::Staging DeviceMemory::staging(int writer, int reader) const {
  const FifoPlan& plan = fifos_->plan();
  std::byte* const staging =
      peer_staging_ == nullptr ? nullptr : peer_staging_->staging(writer, reader);
  return staging != nullptr ? Staging{staging, plan.peer_staging}
                            : Staging{fifo(reader) + plan.staging_offset(writer), plan.staging};
}

std::size_t DeviceMemory::slot_bytes(sm::StagingPlace place) const {
  const FifoPlan& plan = fifos_->plan();
  const bool in_fifos = (place == sm::StagingPlace::kHost) == (plan.place == FifoPlace::kHost);
  return (in_fifos ? plan.staging : plan.peer_staging).slot_bytes;
}

DeviceMemory::Pair DeviceMemory::make_pair(int peer, bool sends) const {
  const int from = sends ? identity_.rank : peer;
  const int to = sends ? peer : identity_.rank;
  const auto index = static_cast<std::size_t>(shape().most_blocks()) +
                     (2 * static_cast<std::size_t>(peer) + (sends ? 1 : 0)) *
                         static_cast<std::size_t>(pair_shape().most_blocks());
  const FifoPlan& plan = fifos_->plan();
  return {.sender = fifo(from) + plan.pair_offset(to) + pair_shape().started_bytes(),
          .receiver = fifo(to) + plan.pair_offset(from),
          .states = states_ + index,
          .put = message_put(peer, sends)};
}

sm::MessagePut DeviceMemory::message_put(int peer, bool sends) const {
  const int from = sends ? identity_.rank : peer;
  const int to = sends ? peer : identity_.rank;
  const FifoPlan& plan = fifos_->plan();
  const sm::MessageWords words = plan.message_words();
  const auto words_of = [&](int owner, int other) {
    return reinterpret_cast<std::uint64_t*>(fifo(owner) + plan.message_offset(other));
  };
  std::uint64_t* const counted = words_of(identity_.rank, peer);
  return {.addresses = words_of(from, to) + words.addresses(),
          .done = words_of(to, from) + words.done(),
          .messages = counted + (sends ? words.sent() : words.received()),
          .most_blocks = fifos_->plan().put_blocks};
}

}  // namespace sennit
