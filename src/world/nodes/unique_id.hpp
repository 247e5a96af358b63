// The 128 bytes of a unique id: a key that nobody can guess, and where the process that made it can
// be reached, which most likely is rank 0's machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sennit {

inline constexpr std::size_t kUniqueIdBytes = 128;
using UniqueIdBytes = std::span<const unsigned char, kUniqueIdBytes>;

void make_unique_id(std::span<unsigned char, kUniqueIdBytes> id);

// Whether it was made so, and not of a text that somebody may guess.
bool is_random(UniqueIdBytes id);

// In numbers. None of an id that was made otherwise, of a text.
std::vector<std::string> addresses_of(UniqueIdBytes id);

}  // namespace sennit
