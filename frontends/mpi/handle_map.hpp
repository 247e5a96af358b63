// HandleMap: what belongs to a few dozen handles that never change, found in a few nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sennit_mpi {

template <class Handle, class Value, std::size_t kPlaces>
class HandleMap {
 public:
  // Of equal handles (two names of one type) the first stays.
  void add(Handle handle, const Value& value) {
    std::size_t place = place_of(handle);
    while (places_[place].is_used) {
      if (places_[place].handle == handle) {
        return;
      }
      place = (place + 1) % kPlaces;
    }
    places_[place] = {true, handle, value};
  }

  [[nodiscard]] const Value* find(Handle handle) const {
    for (std::size_t place = place_of(handle); places_[place].is_used;
         place = (place + 1) % kPlaces) {
      if (places_[place].handle == handle) {
        return &places_[place].value;
      }
    }
    return nullptr;
  }

 private:
  static_assert((kPlaces & (kPlaces - 1)) == 0);
  struct Place {
    bool is_used = false;
    Handle handle{};
    Value value{};
  };

  // Handles are addresses of large objects, or numbers that differ in their low bits: the upper
  // bits of a product with a number that has no pattern depend on all of them.
  static std::size_t place_of(Handle handle) {
    std::uint64_t bits = 0;
    if constexpr (std::is_pointer_v<Handle>) {
      bits = reinterpret_cast<std::uintptr_t>(handle);
    } else {
      bits = static_cast<std::uint32_t>(handle);
    }
    return static_cast<std::size_t>((bits * 0x9e3779b97f4a7c15ULL) >> 32U) % kPlaces;
  }

  std::array<Place, kPlaces> places_{};
};

}  // namespace sennit_mpi
