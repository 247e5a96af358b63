#include "memory/peer_buffers.hpp"

#include "world/rendezvous/process.hpp"

#include <algorithm>

namespace sennit {

namespace {

// Descriptors are few in a process, and those of memory that others cannot map stay open as long as
// the memory is there.
constexpr std::ptrdiff_t kMostDescriptors = 16;

// What cudaMalloc hands out beyond one page, if it is not whole pages, copy engines of other GPUs
// read slowly after kernels have run: 1 GB in 3.1 ms instead of 2.7
// (docs/lab/2026-11-22-copy-engines.md). Frameworks and the virtual memory API allocate whole
// pages.
constexpr std::size_t kPageBytes = std::size_t{2} << 20;

bool is_slow_to_copy(const Allocation& allocation) {
  return allocation.bytes > kPageBytes && allocation.bytes % kPageBytes != 0;
}

}  // namespace

PeerBuffers::PeerBuffers(CudaDriver& driver, const DeviceMemory& memory, const World& world)
    : driver_(driver), memory_(memory), world_(world) {}

PeerBuffers::~PeerBuffers() {
  const DeviceScope scope(driver_, memory_.device());
  forget_now();
  for (const auto& [key, base] : imports_) {
    (void)driver_.sharing().close_imported(base);
  }
}

bool PeerBuffers::is_freed(std::uint64_t id, const Export& known) const {
  const Result<Allocation> now = driver_.allocation_of(known.base);
  return !now.ok() || now->id != id;
}

// Makes some, if memory was freed before all had mapped it.
bool PeerBuffers::has_room_for_descriptor() {
  const auto count = [&] {
    return std::ranges::count_if(
        exports_, [](const auto& entry) { return entry.second.memory.descriptor.valid(); });
  };
  if (count() < kMostDescriptors) {
    return true;
  }
  for (auto& [id, known] : exports_) {
    if (is_freed(id, known)) {
      known.memory.descriptor.reset();
    }
  }
  return count() < kMostDescriptors;
}

PeerBuffers::Export* PeerBuffers::find_or_export(const Allocation& allocation, bool may_export) {
  if (const auto known = exports_.find(allocation.id); known != exports_.end()) {
    return &known->second;
  }
  if (!may_export) {
    return nullptr;
  }
  Result<ExportedMemory> exported = driver_.sharing().export_memory(allocation.base);
  if (!exported.ok() || (exported->descriptor.valid() && !has_room_for_descriptor())) {
    return nullptr;
  }
  Export& made = exports_[allocation.id];
  made.base = allocation.base;
  made.bytes = allocation.bytes;
  made.memory = std::move(exported).value();
  return &made;
}

BufferOffer PeerBuffers::offer(const void* pointer, std::int64_t bytes, bool may_be_new) {
  BufferOffer result{.state = BufferOffer::State::kUnreachable};
  const Result<Allocation> allocation = driver_.allocation_of(pointer);
  if (!allocation.ok() || allocation->device != memory_.device() || !allocation->can_be_exported) {
    return result;
  }
  const Export* const exported = find_or_export(*allocation, may_be_new);
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - allocation->base);
  // An allocation may be mapped twice, and more of it the second time.
  if (exported == nullptr || offset + static_cast<std::size_t>(bytes) > exported->bytes) {
    return result;
  }
  result.state = exported->is_known ? BufferOffer::State::kKnown : BufferOffer::State::kNew;
  result.is_slow_to_copy = is_slow_to_copy(*allocation);
  result.id = allocation->id;
  result.offset = offset;
  result.handle = exported->memory.handle;
  // What a program has mapped is open to the devices that it has named, whoever shares the process.
  const bool is_open = result.handle.kind == MemoryHandle::Kind::kIpc;
  result.base = is_open ? allocation->base : nullptr;
  return result;
}

void PeerBuffers::confirm(std::uint64_t id, std::byte* there) {
  if (const auto known = exports_.find(id); known != exports_.end()) {
    known->second.is_known = true;
    known->second.there = there;
    known->second.memory.descriptor.reset();
  }
}

std::byte* PeerBuffers::address_there(const BufferOffer& offer) const {
  const auto known = exports_.find(offer.id);
  return known == exports_.end() || known->second.there == nullptr
             ? nullptr
             : known->second.there + offer.offset;
}

std::array<std::uint64_t, AgreementLine::kMaxRetired> PeerBuffers::retired() {
  std::array<std::uint64_t, AgreementLine::kMaxRetired> result{};
  std::size_t count = 0;
  for (auto at = exports_.begin(); at != exports_.end() && count < result.size();) {
    if (!is_freed(at->first, at->second)) {
      ++at;
      continue;
    }
    result[count++] = at->first;
    at = exports_.erase(at);
  }
  return result;
}

void PeerBuffers::retire_open() {
  std::erase_if(exports_, [&](const auto& entry) {
    const auto& [id, known] = entry;
    return known.memory.handle.kind == MemoryHandle::Kind::kIpc && is_freed(id, known);
  });
}

Result<std::byte*> PeerBuffers::import(int rank, MemoryHandle handle) {
  UniqueFd taken;
  if (handle.kind == MemoryHandle::Kind::kDescriptor) {
    SENNIT_ASSIGN_OR_RETURN(taken,
                            take_descriptor(world_.member(rank).process.get(), handle.descriptor));
    handle.descriptor = taken.get();
  }
  SENNIT_ASSIGN_OR_RETURN(void* const base, driver_.sharing().import_memory(handle));
  return static_cast<std::byte*>(base);
}

Result<std::byte*> PeerBuffers::locate(int rank, const BufferOffer& offer) {
  if (offer.base != nullptr && memory_.is_of_this_process(rank)) {
    return offer.base + offer.offset;
  }
  const auto key = std::pair(rank, offer.id);
  auto known = imports_.find(key);
  if (known == imports_.end()) {
    SENNIT_ASSIGN_OR_RETURN(std::byte* const base, import(rank, offer.handle));
    known = imports_.try_emplace(key, base).first;
  }
  return known->second + offer.offset;
}

void PeerBuffers::forget_later(int rank, std::uint64_t id) {
  if (const auto known = imports_.find({rank, id}); known != imports_.end()) {
    forgotten_.push_back(known->second);
    imports_.erase(known);
  }
}

void PeerBuffers::forget_now() {
  for (std::byte* const base : forgotten_) {
    (void)driver_.sharing().close_imported(base);
  }
  forgotten_.clear();
}

}  // namespace sennit
