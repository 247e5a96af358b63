// SymmetricMemory: windows, which all ranks of a communicator have registered in the same order and
// of the same size. Programs promise that the outputs of a collective lie at the same offset of a
// window on all ranks. So a rank whose output lies in a window knows where those of the others are,
// once it has learnt where their windows lie.
#pragma once

#include "world/device_line.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace sennit {

class SymmetricMemory {
 public:
  // Windows are numbered from 1 in the order of registration.
  std::uint64_t add(std::byte* memory, std::size_t bytes);
  // Of a number that is none, nothing.
  void remove(std::uint64_t window) { windows_.erase(window); }

  // Where this rank's buffer lies; window 0: in none.
  [[nodiscard]] WindowPlace place_of(const void* buffer, std::int64_t bytes) const;

  // All ranks have met with buffers at this place, which lie here for this rank's device.
  void learn(const WindowPlace& place, std::vector<std::byte*> buffers);
  [[nodiscard]] bool knows(const WindowPlace& place) const;
  // The buffers of all ranks at a place that it knows.
  [[nodiscard]] std::vector<std::byte*> buffers_at(const WindowPlace& place) const;

 private:
  struct Window {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    std::vector<std::byte*> of_ranks{};  // where the windows of all lie; empty: not known yet
  };

  std::uint64_t registered_ = 0;
  std::map<std::uint64_t, Window> windows_;
};

}  // namespace sennit
