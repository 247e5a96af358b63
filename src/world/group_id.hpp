// GroupId: what the ends of messages know of the groups that these are in.
#pragma once

#include "world/stream_words.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

// What a rank announces of one of its groups.
struct GroupId {
  // Sends from one rank to another count from 1; modulo 2^32: hosts never differ by so much.
  using Numbers = std::array<std::uint32_t, kMaxRanks>;

  std::uint64_t number = 0;    // on that rank
  std::uint32_t partners = 0;  // the ranks that it sends to, if they are those that it receives
                               // from, and itself, as bits; else 0
  // Of the first message to and from each partner.
  Numbers first_sent{};
  Numbers first_received{};
};

// Whether this group of `rank` and that of `other`, who are partners, have messages in common.
inline bool have_met(const GroupId& group, int rank, const GroupId& others, int other) {
  return group.first_sent[static_cast<std::size_t>(other)] ==
         others.first_received[static_cast<std::size_t>(rank)];
}

// How many messages of the two ranks, one way or the other, come in this group of `rank` before
// that of `other` begins.
inline int messages_before(const GroupId& group, int rank, const GroupId& others, int other) {
  const auto behind = [](std::uint32_t mine, std::uint32_t theirs) {
    return std::max(0, static_cast<std::int32_t>(theirs - mine));
  };
  const auto me = static_cast<std::size_t>(rank);
  const auto them = static_cast<std::size_t>(other);
  return behind(group.first_sent[them], others.first_received[me]) +
         behind(group.first_received[them], others.first_sent[me]);
}

}  // namespace sennit::stream
