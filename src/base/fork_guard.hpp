// After fork() a child holds copies of its parent's communicators, which it must not use.
#pragma once

#include <cstdint>

namespace sennit {

// Counts the forks between this process and the one that loaded the library. What was made under
// another number belongs to an ancestor.
std::uint64_t fork_generation();

}  // namespace sennit
