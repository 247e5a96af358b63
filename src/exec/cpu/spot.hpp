// Spot: where a message lies, in which ring and at which position.
#pragma once

#include "exec/cpu/bound_program.hpp"

#include <cstdint>
#include <optional>

namespace sennit {

// Where a message lies; `tag` is its number on its bundle, if it is one's.
struct Spot {
  const BoundProgram::BoundLink* link = nullptr;
  std::uint64_t position = 0;
  Protocol protocol = Protocol::kSlots;
  std::optional<std::uint64_t> tag{};
  std::optional<Codec> codec{};

  [[nodiscard]] channel::Word& full() const { return link->ring.full(position); }
  [[nodiscard]] channel::Word& free() const { return link->ring.free(position); }
  // Whether nobody reads it out of this rank's memory any more.
  [[nodiscard]] bool is_over(rail::MirroredRings* rails) const {
    if (link->rail >= 0) {
      return rails->is_sent(link->peer, link->port, position);
    }
    return protocol != Protocol::kDirectGet || channel::is_released(free(), position);
  }
  // The message lies there: its reader sees it, and wakes.
  void publish(std::uint32_t fingerprint) const {
    if (tag) {
      link->ring.tag(position) = *tag;
    }
    channel::publish(full(), position, fingerprint);
    wake(*link->bell);
  }
};

}  // namespace sennit
