// What travels on a rail in front of a payload, and what ranks have to know of each other before.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sennit::rail {

enum class FrameKind : std::uint32_t {
  kFull = 1,   // a message of a ring: its full word and its slot
  kFree = 2,   // slots that the reader has returned: FreedSlot[] as payload
  kLast = 3,   // nothing; it ends when what was sent before has left
  kBye = 4,    // nothing; its sender has ended all its calls and is about to close its cards
  kHello = 5,  // nothing; before the first call. Word 1: its sender has had one of the reader's
};

// Both ends are of the same machine type: the join compares versions. A header may go on behind the
// frame with slots that its sender returns: FreedSlot[], at most kMostFreed.
struct Frame {
  std::uint64_t token = 0;  // only writer and reader know it
  FrameKind kind = FrameKind::kFull;
  std::uint32_t port = 0;
  std::uint64_t word = 0;
  std::uint64_t position = 0;
  std::uint64_t tag = 0;    // of a message of a bundle: its number (channel/bundle.hpp)
  std::uint64_t bytes = 0;  // of the payload
};
static_assert(sizeof(Frame) == 48);

struct FreedSlot {
  std::uint64_t port = 0;
  std::uint64_t position = 0;
};

constexpr std::size_t kMostFreed = 5;

// What came of one message; the spans end with the call that gives them.
struct Arrival {
  Frame frame;
  std::span<const std::byte> freed;  // FreedSlot[]
  std::span<const std::byte> payload;
};

// Drawn by each rank for each communicator.
using Secret = std::array<std::uint8_t, 16>;
Secret random_secret();

// By which the reader with this secret knows what `writer` sends to it over `rail`. Never 0.
std::uint64_t token_of(const Secret& secret_of_reader, int writer, int rail);

// What each rank brings to the join.
struct Introduction {
  Secret secret{};
  std::vector<std::string> card_addresses;  // by rail
  std::vector<std::uint8_t> nearest{};      // rails that its messages come over; empty: any
  // Its user named the cards, so all of them reach the others'. Of cards that were found some may
  // not: those that no message uses are not asked.
  bool are_named = false;

  // At most kMostBytes.
  [[nodiscard]] std::string text() const;
  // Nothing where the text is not one that text() makes.
  static std::optional<Introduction> parse(std::string_view text);

  static constexpr std::size_t kMostBytes = 4096;
};

// Of all ranks. kInvalidArgument names a rank whose text is none, or whose cards are not as many as
// those of rank 0.
Result<std::vector<Introduction>> parse_introductions(std::span<const std::string> texts);

// Of a rank that reaches every card of every other: each is a connection to make, and to keep.
inline constexpr std::size_t kMostRoutes = 512;

// Why messages may not take every card of these ranks; empty if they may.
std::string why_no_bundles(std::span<const Introduction> introductions);

}  // namespace sennit::rail
