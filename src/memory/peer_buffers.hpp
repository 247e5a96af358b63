// PeerBuffers: the users' allocations that ranks have mapped into each other's devices, found again
// by the id that CUDA gives each allocation once: an address may belong to another one tomorrow.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "memory/device_memory.hpp"
#include "world/device_line.hpp"
#include "world/world.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sennit {

class PeerBuffers {
 public:
  // `memory` and `world` outlive the result.
  PeerBuffers(CudaDriver& driver, const DeviceMemory& memory, const World& world);
  ~PeerBuffers();
  PeerBuffers(const PeerBuffers&) = delete;
  PeerBuffers& operator=(const PeerBuffers&) = delete;

  // What to send others about a buffer of this rank. One that lies across allocations is
  // unreachable, and so is one that was not offered before and may not be now.
  BufferOffer offer(const void* pointer, std::int64_t bytes, bool may_be_new = true);
  // All ranks have mapped what was offered under this id. `there`: where the only one sees it that
  // it was offered to; null: it cannot, or nobody asks.
  void confirm(std::uint64_t id, std::byte* there = nullptr);
  // Where the buffer that was offered and confirmed lies for that rank; null: nowhere.
  [[nodiscard]] std::byte* address_there(const BufferOffer& offer) const;
  // Allocations that were offered and have been freed since; reported once.
  std::array<std::uint64_t, AgreementLine::kMaxRetired> retired();
  // Forgets those of them that threads of this process reach without mapping them. Of others they
  // have to be reported: an id that is held no more may come again.
  void retire_open();

  // Where the buffer that `rank` offered lies for this device.
  Result<std::byte*> locate(int rank, const BufferOffer& offer);
  // An allocation of `rank` is no more. What was mapped of it goes at the next forget_now(), which
  // may not come while a stream captures.
  void forget_later(int rank, std::uint64_t id);
  void forget_now();

 private:
  struct Export {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    ExportedMemory memory;  // its descriptor is closed when all have mapped it
    bool is_known = false;
    std::byte* there = nullptr;  // see confirm()
  };

  [[nodiscard]] bool is_freed(std::uint64_t id, const Export& known) const;
  bool has_room_for_descriptor();
  Export* find_or_export(const Allocation& allocation, bool may_export);
  Result<std::byte*> import(int rank, MemoryHandle handle);

  CudaDriver& driver_;
  const DeviceMemory& memory_;
  const World& world_;
  std::map<std::uint64_t, Export> exports_;                      // by id
  std::map<std::pair<int, std::uint64_t>, std::byte*> imports_;  // by rank and id
  std::vector<std::byte*> forgotten_;
};

}  // namespace sennit
