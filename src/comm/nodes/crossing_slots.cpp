#include "comm/nodes/crossing_slots.hpp"

#include <algorithm>
#include <atomic>

namespace sennit {
namespace {

// A line each: the host polls one while streams write others.
constexpr std::size_t kWordBytes = 64;

std::uint64_t* word(void* base, std::size_t index) {
  return reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(base) + index * kWordBytes);
}

constexpr std::size_t kWords = 1 + 2 * CrossingSlots::kSlots;

std::size_t ended_word(std::uint64_t part) { return 1 + part % CrossingSlots::kSlots; }
std::size_t replayed_word(std::uint64_t part) { return ended_word(part) + CrossingSlots::kSlots; }

void store(void* words, std::size_t index, std::uint64_t value) {
  // Partner: the stream that awaits it, which then copies out of the slot.
  std::atomic_ref(*word(words, index)).store(value, std::memory_order_release);
}

}  // namespace

Result<std::unique_ptr<CrossingSlots>> CrossingSlots::create(CudaDriver& driver,
                                                             std::size_t most_bytes) {
  std::unique_ptr<CrossingSlots> made(new CrossingSlots(driver));
  made->bytes_ = std::max(kSlots * kSlotBytes, most_bytes);
  SENNIT_ASSIGN_OR_RETURN(made->words_, driver.allocate_mapped(kWords * kWordBytes));
  SENNIT_ASSIGN_OR_RETURN(made->memory_, driver.allocate_mapped(made->bytes_));
  return made;
}

CrossingSlots::~CrossingSlots() {
  for (const MappedMemory& memory : {words_, memory_}) {
    if (memory.host != nullptr) {
      (void)driver_.release_mapped(memory);
    }
  }
}

std::byte* CrossingSlots::memory(std::uint64_t part, std::size_t bytes) const {
  const std::uint64_t slot = bytes <= kSlotBytes ? part % kSlots : 0;
  return static_cast<std::byte*>(memory_.host) + slot * kSlotBytes;
}

std::uint64_t* CrossingSlots::begun_on_device() const { return word(words_.device, 0); }

std::uint64_t* CrossingSlots::ended_on_device(std::uint64_t part) const {
  return word(words_.device, ended_word(part));
}

std::uint64_t* CrossingSlots::replayed_on_device(std::uint64_t part) const {
  return word(words_.device, replayed_word(part));
}

bool CrossingSlots::has_begun(std::uint64_t part) const {
  // Partner: the store in the stream, which comes after its copies.
  return std::atomic_ref(*word(words_.host, 0)).load(std::memory_order_acquire) >= part;
}

void CrossingSlots::end(std::uint64_t part) const { store(words_.host, ended_word(part), part); }

void CrossingSlots::set_replayed(std::uint64_t part, std::uint64_t state) const {
  store(words_.host, replayed_word(part), state);
}

}  // namespace sennit
