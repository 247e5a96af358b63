#include "comm/device/peer_buffers.hpp"

namespace sennit {

PeerBuffers::PeerBuffers(CudaDriver& driver, const DeviceMemory& memory)
    : driver_(driver), memory_(memory) {}

PeerBuffers::~PeerBuffers() {
  const DeviceScope scope(driver_, memory_.device());
  forget_now();
  for (const auto& [key, base] : imports_) {
    (void)driver_.close_imported(base);
  }
}

BufferOffer PeerBuffers::offer(const void* pointer) {
  BufferOffer result{.state = BufferOffer::State::kUnreachable};
  const Result<Allocation> allocation = driver_.allocation_of(pointer);
  if (!allocation.ok() || allocation->device != memory_.device() || !allocation->can_be_exported) {
    return result;
  }
  auto known = exports_.find(allocation->id);
  if (known == exports_.end()) {
    const Result<CudaIpcHandle> handle = driver_.export_memory(allocation->base);
    if (!handle.ok()) {
      return result;
    }
    known =
        exports_
            .try_emplace(allocation->id, Export{.base = allocation->base, .handle = handle.value()})
            .first;
  }
  result.state = known->second.is_known ? BufferOffer::State::kKnown : BufferOffer::State::kNew;
  result.id = allocation->id;
  result.offset =
      static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - allocation->base);
  result.base = allocation->base;
  result.handle = known->second.handle;
  return result;
}

void PeerBuffers::confirm(std::uint64_t id, std::byte* there) {
  if (const auto known = exports_.find(id); known != exports_.end()) {
    known->second.is_known = true;
    known->second.there = there;
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
    const Result<Allocation> now = driver_.allocation_of(at->second.base);
    if (now.ok() && now->id == at->first) {
      ++at;
      continue;
    }
    result[count++] = at->first;
    at = exports_.erase(at);
  }
  return result;
}

Result<std::byte*> PeerBuffers::locate(int rank, const BufferOffer& offer) {
  if (memory_.is_of_this_process(rank)) {
    return offer.base + offer.offset;
  }
  const auto key = std::pair(rank, offer.id);
  auto known = imports_.find(key);
  if (known == imports_.end()) {
    SENNIT_ASSIGN_OR_RETURN(void* const base, driver_.import_memory(offer.handle));
    known = imports_.try_emplace(key, static_cast<std::byte*>(base)).first;
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
    (void)driver_.close_imported(base);
  }
  forgotten_.clear();
}

}  // namespace sennit
