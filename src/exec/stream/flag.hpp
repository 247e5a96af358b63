// Flag: one 64-bit word of a rank's RankWords, named by its owner and its place there, so that
// lists of different ranks mean the same flag whatever address each device has for it.
#pragma once

#include "world/stream_words.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sennit::stream {

struct Flag {
  std::int32_t owner = 0;   // rank
  std::uint32_t place = 0;  // in its RankWords, in words

  bool operator==(const Flag&) const = default;
};

// Of collectives.
Flag ready_flag(int owner, int sender, int channel, int piece);
Flag done_flag(int owner, int reader, int channel);
Flag filled_flag(int owner, int sender, int slot);
Flag emptied_flag(int owner, int reader, int slot);

// Of messages; `channel` as in RankWords::Channels.
Flag message_ready_flag(int owner, int sender, int slot, int channel);
Flag message_done_flag(int owner, int reader, int slot, int channel);
Flag message_admitted_flag(int owner, int reader, int slot, int channel);
Flag message_arrived_flag(int owner, int sender, int slot, int channel);
Flag message_filled_flag(int owner, int sender, int slot);
Flag message_emptied_flag(int owner, int reader, int slot);

// For the host, which watches them: no stream waits for these.
Flag running_flag(int owner);
Flag ended_flag(int owner);
bool is_for_hosts(const Flag& flag);

// As this device sees it.
inline std::uint64_t* address_of(const Flag& flag, std::span<RankWords* const> words) {
  auto* const base = reinterpret_cast<std::byte*>(words[static_cast<std::size_t>(flag.owner)]);
  return reinterpret_cast<std::uint64_t*>(base + flag.place * sizeof(std::uint64_t));
}

// "ready[2][0][1] of rank 0"
std::string name(const Flag& flag);

}  // namespace sennit::stream
