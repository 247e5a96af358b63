// MessageChoices: how sends and recvs go that are equal but for the buffer and the rank at the
// other end. Finding that out is much of what a small message costs the host, and programs send the
// same again and again, so the last few are kept.
#pragma once

#include "memory/fifo.hpp"
#include "select/device_choice.hpp"
#include "world/operation.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace sennit {

struct MessageChoice {
  DeviceChoice choice{};                   // of this end
  sm::Packets packets = sm::Packets::kLl;  // of what kernels carry
  std::uint64_t put_hash = 0;  // of the plan by which it may be stored in place; 0: packets alone
  // What of the choice is equal at both ends, whatever share of the host each requests, by its
  // hash. 0: for kernels alone.
  std::uint64_t plan_hash = 0;
};

class MessageChoices {
 public:
  // Of an operation with another rank or this one itself; null: not known. Good until the next
  // keep().
  [[nodiscard]] const MessageChoice* find(const Operation& operation, bool is_own) const {
    const Known& known = known_[place_of(operation, is_own)];
    const bool is_alike = known.bytes == operation.bytes() &&
                          known.is_send == counts_as_send(operation, is_own) &&
                          known.is_own == is_own && known.request == operation.request;
    return is_alike ? &known.choice : nullptr;
  }

  const MessageChoice& keep(const Operation& operation, bool is_own, const MessageChoice& choice) {
    Known& known = known_[place_of(operation, is_own)];
    known = {
        operation.bytes(), counts_as_send(operation, is_own), is_own, operation.request, choice};
    return known.choice;
  }

 private:
  struct Known {
    std::int64_t bytes = -1;  // none
    bool is_send = false;
    bool is_own = false;
    CallRequest request{};
    MessageChoice choice{};
  };
  static constexpr std::size_t kSizes = 8;

  // Both ends of a message to oneself have one choice.
  static bool counts_as_send(const Operation& operation, bool is_own) {
    return operation.is_send || is_own;
  }

  // Powers of two one after the other have different places.
  static std::size_t place_of(const Operation& operation, bool is_own) {
    const auto bytes = static_cast<std::uint64_t>(operation.bytes());
    const std::size_t size = (bytes + static_cast<std::uint64_t>(std::bit_width(bytes))) % kSizes;
    return 4 * size + (counts_as_send(operation, is_own) ? 2 : 0) + (is_own ? 1 : 0);
  }

  std::array<Known, 4 * kSizes> known_;
};

}  // namespace sennit
