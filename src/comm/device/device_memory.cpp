#include "comm/device/device_memory.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

namespace sennit {
// What a rank tells the others of its arena. Plain bytes: it travels.
struct DeviceMemory::Introduction {
  std::uint64_t process = 0;
  void* base = nullptr;  // for threads of the same process
  CudaIpcHandle handle;  // for the others
  std::array<std::uint8_t, 16> uuid{};
  std::int32_t device = 0;
  std::int32_t block_limit = 0;
  std::int32_t failed = 0;  // Code
};

DeviceMemory::DeviceMemory(CudaDriver& driver, const DeviceIdentity& identity)
    : driver_(driver), identity_(identity), bases_(static_cast<std::size_t>(identity.ranks)) {
  // Fewer blocks get more packets each: a round moves as much.
  constexpr int kWarpPackets = 512;
  shape_ = {.ranks = identity.ranks,
            .ll_blocks = std::min(32, identity.blocks),
            .ll128_blocks = identity.blocks,
            .ll128_depth = std::max(1, kWarpPackets / identity.blocks)};
  // A sender and a receiver, one hop; as many blocks as one direction may have of a GPU.
  pair_shape_ = {.ranks = 2, .phases = 1, .ll_blocks = 16, .ll128_blocks = 64};
}

std::size_t DeviceMemory::pair_bytes() const {
  // The words that tell the sender that a round has begun lie behind those of the other direction.
  return pair_shape_.bytes() + pair_shape_.started_bytes();
}

std::size_t DeviceMemory::pair_offset(int peer) const {
  return shape_.bytes() + static_cast<std::size_t>(peer) * pair_bytes();
}

Status DeviceMemory::allocate() {
  const auto ranks = static_cast<std::size_t>(identity_.ranks);
  // Behind the arenas of pairs: the words of put_words() and put_calls().
  const std::size_t words = sm::put_words(identity_.ranks, shape_.most_blocks()) +
                            static_cast<std::size_t>(shape_.most_blocks());
  bytes_ = pair_offset(identity_.ranks) + words * sizeof(std::uint64_t);
  SENNIT_ASSIGN_OR_RETURN(void* arena, driver_.allocate(bytes_));
  bases_[static_cast<std::size_t>(identity_.rank)] = static_cast<std::byte*>(arena);
  const auto states = static_cast<std::size_t>(shape_.most_blocks()) +
                      2 * ranks * static_cast<std::size_t>(pair_shape_.most_blocks());
  SENNIT_ASSIGN_OR_RETURN(void* kept, driver_.allocate(states * sizeof(sm::BlockState)));
  states_ = static_cast<sm::BlockState*>(kept);
  SENNIT_ASSIGN_OR_RETURN(board_, driver_.allocate_mapped(sizeof(sm::Board)));
  return {};
}

Status DeviceMemory::map(const std::vector<Introduction>& all) {
  const Introduction& mine = all[static_cast<std::size_t>(identity_.rank)];
  std::ranges::transform(all, std::back_inserter(processes_), &Introduction::process);
  int sharing = 1;  // the device of this rank
  for (int rank = 0; rank < identity_.ranks; ++rank) {
    const Introduction& other = all[static_cast<std::size_t>(rank)];
    const bool same_process = other.process == mine.process;
    const bool same_device = other.uuid == mine.uuid;
    if (rank == identity_.rank) {
      continue;
    }
    sharing += same_device ? 1 : 0;
    if (!identity_.maps_peers) {
      continue;
    }
    if (same_process) {
      if (!same_device) {
        SENNIT_RETURN_IF_ERROR(driver_.enable_peer(other.device));
      }
      bases_[static_cast<std::size_t>(rank)] = static_cast<std::byte*>(other.base);
      continue;
    }
    if (same_device) {
      return fail(Code::kUnsupported,
                  "ranks {} and {} are processes that share one GPU; kernels that wait for each "
                  "other need one process a GPU",
                  identity_.rank,
                  rank);
    }
    SENNIT_ASSIGN_OR_RETURN(void* imported, driver_.import_memory(other.handle));
    imported_.push_back(imported);
    bases_[static_cast<std::size_t>(rank)] = static_cast<std::byte*>(imported);
  }
  SENNIT_ASSIGN_OR_RETURN(const CudaDevice device, driver_.describe(identity_.device));
  block_limit_ = std::max(1, device.sm_count / sharing);
  return {};
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::create(CudaDriver& driver,
                                                           const DeviceIdentity& identity,
                                                           const Exchange& exchange) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(driver, identity));
  const auto ranks = static_cast<std::size_t>(identity.ranks);
  static_assert(std::is_trivially_copyable_v<Introduction>);
  std::vector<Introduction> all(ranks);
  Introduction mine;
  // Failures travel, too: no rank goes on while another has given up.
  Status status = memory->allocate();
  if (status.ok()) {
    mine.base = memory->arena(identity.rank);
    auto handle = driver.export_memory(mine.base);
    auto device = driver.describe(identity.device);
    status = handle.ok() ? device.status() : handle.status();
    if (status.ok()) {
      mine.handle = *handle;
      mine.uuid = device->uuid;
    }
  }
  mine.process = driver.process();
  mine.device = identity.device;
  mine.failed = static_cast<std::int32_t>(status.code());
  SENNIT_RETURN_IF_ERROR(exchange(&mine, all.data(), sizeof(mine)));
  if (status.ok() &&
      std::ranges::all_of(all, [](const Introduction& i) { return i.failed == 0; })) {
    status = memory->map(all);
  }
  mine.failed = static_cast<std::int32_t>(status.code());
  mine.block_limit = memory->block_limit_;
  SENNIT_RETURN_IF_ERROR(exchange(&mine, all.data(), sizeof(mine)));
  SENNIT_RETURN_IF_ERROR(status);
  memory->block_limit_ = std::ranges::min(all, {}, &Introduction::block_limit).block_limit;
  const auto failed =
      std::ranges::find_if(all, [](const Introduction& i) { return i.failed != 0; });
  if (failed != all.end()) {
    return fail(static_cast<Code>(failed->failed),
                "rank {} could not set up its GPU ({}); its own error says why",
                failed - all.begin(),
                code_name(static_cast<Code>(failed->failed)));
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
  for (void* memory : imported_) {
    (void)driver_.close_imported(memory);
  }
  if (void* arena = bases_[static_cast<std::size_t>(identity_.rank)]; arena != nullptr) {
    (void)driver_.release(arena);
  }
  if (states_ != nullptr) {
    (void)driver_.release(states_);
  }
  if (board_.host != nullptr) {
    (void)driver_.release_mapped(board_);
  }
}

DeviceMemory::Pair DeviceMemory::pair(int from, int to) const {
  const bool sends = from == identity_.rank;
  const int peer = sends ? to : from;
  const auto index = static_cast<std::size_t>(shape_.most_blocks()) +
                     (2 * static_cast<std::size_t>(peer) + (sends ? 1 : 0)) *
                         static_cast<std::size_t>(pair_shape_.most_blocks());
  return {.sender = arena(from) + pair_offset(to) + pair_shape_.started_bytes(),
          .receiver = arena(to) + pair_offset(from),
          .states = states_ + index};
}

}  // namespace sennit
