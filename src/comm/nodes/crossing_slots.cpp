#include "comm/nodes/crossing_slots.hpp"

#include <atomic>

namespace sennit {
namespace {

// A line each: the host polls one while streams write others.
constexpr std::size_t kWordBytes = 64;

std::uint64_t* word(void* base, std::size_t index) {
  return reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(base) + index * kWordBytes);
}

std::size_t word_of(std::uint64_t part) { return 1 + part % CrossingSlots::kSlots; }

}  // namespace

Result<std::unique_ptr<CrossingSlots>> CrossingSlots::create(CudaDriver& driver,
                                                             std::size_t slot_bytes) {
  std::unique_ptr<CrossingSlots> made(new CrossingSlots(driver));
  made->slot_bytes_ = slot_bytes;
  SENNIT_ASSIGN_OR_RETURN(made->words_, driver.allocate_mapped((1 + kSlots) * kWordBytes));
  SENNIT_ASSIGN_OR_RETURN(made->slots_, driver.allocate_mapped(kSlots * slot_bytes));
  return made;
}

CrossingSlots::~CrossingSlots() {
  for (const MappedMemory& memory : {words_, slots_}) {
    if (memory.host != nullptr) {
      (void)driver_.release_mapped(memory);
    }
  }
}

std::byte* CrossingSlots::slot(std::uint64_t part) const {
  return static_cast<std::byte*>(slots_.host) + part % kSlots * slot_bytes_;
}

std::uint64_t* CrossingSlots::begun_on_device() const { return word(words_.device, 0); }

std::uint64_t* CrossingSlots::ended_on_device(std::uint64_t part) const {
  return word(words_.device, word_of(part));
}

bool CrossingSlots::has_begun(std::uint64_t part) const {
  // Partner: the store in the stream, which comes after its copies.
  return std::atomic_ref(*word(words_.host, 0)).load(std::memory_order_acquire) >= part;
}

void CrossingSlots::end(std::uint64_t part) const {
  // Partner: the stream that awaits it, which then copies out of the slot.
  std::atomic_ref(*word(words_.host, word_of(part))).store(part, std::memory_order_release);
}

}  // namespace sennit
