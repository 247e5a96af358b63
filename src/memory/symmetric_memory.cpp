#include "memory/symmetric_memory.hpp"

#include <functional>
#include <utility>

namespace sennit {

std::uint64_t SymmetricMemory::add(std::byte* memory, std::size_t bytes) {
  windows_.emplace(++registered_, Window{.memory = memory, .bytes = bytes});
  return registered_;
}

// Of several the oldest, as on the other ranks.
WindowPlace SymmetricMemory::place_of(const void* buffer, std::int64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(buffer);
  for (const auto& [number, window] : windows_) {
    const bool is_behind = std::greater_equal<>()(begin, window.memory) &&
                           std::less_equal<>()(begin, window.memory + window.bytes);
    if (is_behind && bytes <= window.memory + window.bytes - begin) {
      return {.window = number,
              .offset = static_cast<std::uint64_t>(begin - window.memory),
              .window_bytes = window.bytes};
    }
  }
  return {};
}

void SymmetricMemory::learn(const WindowPlace& place, std::vector<std::byte*> buffers) {
  for (std::byte*& buffer : buffers) {
    buffer -= place.offset;
  }
  windows_.at(place.window).of_ranks = std::move(buffers);
}

bool SymmetricMemory::knows(const WindowPlace& place) const {
  const auto found = windows_.find(place.window);
  return found != windows_.end() && !found->second.of_ranks.empty();
}

std::vector<std::byte*> SymmetricMemory::buffers_at(const WindowPlace& place) const {
  std::vector<std::byte*> buffers = windows_.at(place.window).of_ranks;
  for (std::byte*& buffer : buffers) {
    buffer += place.offset;
  }
  return buffers;
}

}  // namespace sennit
