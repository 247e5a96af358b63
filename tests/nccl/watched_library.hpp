// Calls of the drop-in into the library that tests see or let fail: the program's own symbols come
// before the library's.
#pragma once

#include <set>
#include <string>

namespace sennit_nccl_test {

// The paths that splits for a companion have asked for; "" where they asked for none.
std::set<std::string> companion_paths();

// Registrations of this buffer fail from now on.
void fail_registration_of(void* buffer);

}  // namespace sennit_nccl_test
