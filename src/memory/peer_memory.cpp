#include "memory/peer_memory.hpp"

#include "base/log.hpp"

#include <utility>

namespace sennit {
namespace {

// The number of each rank's device in this process; -1: it is hidden from it
// (CUDA_VISIBLE_DEVICES).
Result<std::vector<int>> find_devices(const DeviceBootstrap& bootstrap) {
  std::vector<int> devices(static_cast<std::size_t>(bootstrap.ranks()), -1);
  SENNIT_ASSIGN_OR_RETURN(const int count, bootstrap.driver().device_count());
  for (int device = 0; device < count; ++device) {
    SENNIT_ASSIGN_OR_RETURN(const CudaDevice facts, bootstrap.driver().describe(device));
    for (int rank = 0; rank < bootstrap.ranks(); ++rank) {
      if (facts.uuid == bootstrap.uuid_of(rank)) {
        devices[static_cast<std::size_t>(rank)] = device;
      }
    }
  }
  return devices;
}

}  // namespace

PeerMemory::PeerMemory(const DeviceBootstrap& bootstrap)
    : driver_(bootstrap.driver()),
      device_(bootstrap.device_of(bootstrap.rank())),
      rank_(bootstrap.rank()),
      bases_(static_cast<std::size_t>(bootstrap.ranks())) {}

PeerMemory::~PeerMemory() {
  const DeviceScope scope(driver_, device_);
  close();
}

Status PeerMemory::allocate(std::size_t bytes) {
  SENNIT_ASSIGN_OR_RETURN(own_, HeldMemory::allocate(driver_, bytes));
  bases_[static_cast<std::size_t>(rank_)] = own_->on_device();
  return {};
}

void PeerMemory::close() {
  for (void* memory : imported_) {
    (void)driver_.sharing().close_imported(memory);
  }
  imported_.clear();
  shared_.clear();
}

// What a rank announces of its memory.
struct PeerMemory::Offer {
  std::uint64_t id = 0;   // for threads of the same process
  MemoryHandle handle{};  // for the others
  bool has_handle = false;
};

Result<std::byte*> PeerMemory::map(const DeviceBootstrap& bootstrap, int rank, const Offer& offer) {
  if (bootstrap.is_of_this_process(rank)) {
    if (!bootstrap.share_device(rank, rank_)) {
      SENNIT_RETURN_IF_ERROR(driver_.enable_peer(bootstrap.device_of(rank)));
    }
    std::shared_ptr<HeldMemory> shared = HeldMemory::find(offer.id);
    if (shared == nullptr) {
      return fail(Code::kRankFailed, "its rank has given it back");
    }
    return shared_.emplace_back(std::move(shared))->on_device();
  }
  if (!offer.has_handle) {
    return fail(Code::kUnsupported, "CUDA does not export it there");
  }
  SENNIT_ASSIGN_OR_RETURN(void* const imported, driver_.sharing().import_memory(offer.handle));
  imported_.push_back(imported);
  return static_cast<std::byte*>(imported);
}

Result<std::vector<char>> PeerMemory::map(const DeviceBootstrap& bootstrap,
                                          const std::vector<char>& wanted) {
  const Result<ExportedMemory> exported = driver_.sharing().export_memory(own_->on_device());
  Offer mine{.id = own_->id()};
  if (exported.ok() && exported->handle.kind == MemoryHandle::Kind::kIpc) {
    mine.handle = exported->handle;
    mine.has_handle = true;
  }
  SENNIT_ASSIGN_OR_RETURN(const auto offers, bootstrap.exchange(mine));
  std::vector<char> unmapped(offers.size(), 0);
  for (int rank = 0; rank < bootstrap.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank == rank_ || wanted[at] == 0) {
      continue;
    }
    const Result<std::byte*> mapped = map(bootstrap, rank, offers[at]);
    if (mapped.ok()) {
      bases_[at] = *mapped;
      continue;
    }
    unmapped[at] = 1;
    SENNIT_INFO("device",
                "memory of {} cannot be mapped: {}",
                bootstrap.describe(rank),
                mapped.status().message());
  }
  return unmapped;
}

Result<std::vector<char>> find_unreached(const DeviceBootstrap& bootstrap) {
  SENNIT_ASSIGN_OR_RETURN(const std::vector<int> devices, find_devices(bootstrap));
  std::vector<char> unreached(devices.size(), 0);
  for (int rank = 0; rank < bootstrap.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (devices[at] >= 0 && !bootstrap.share_device(rank, bootstrap.rank())) {
      SENNIT_ASSIGN_OR_RETURN(const bool reaches, bootstrap.driver().reaches_peer(devices[at]));
      unreached[at] = reaches ? 0 : 1;
    }
  }
  return unreached;
}

}  // namespace sennit
