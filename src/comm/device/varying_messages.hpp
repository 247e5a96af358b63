// The blocks of a v-form as messages: each goes as a send of its length would, by kernels, copy
// engines or both, and is compared with what the other end expects as sends are.
#pragma once

#include "world/operation.hpp"

#include <vector>

namespace sennit {

// What `rank` of `ranks` sends and receives in `operation`. Each message stands for the call, so
// none meets a send of the program. With every rank in both directions, also where there is nothing
// to send: so the logs of both ends of a pair stay in step, and show where one end expects another
// length. A block of the rank that lies where it belongs is left out.
std::vector<Operation> messages_of_varying(const Operation& operation, int rank, int ranks);

}  // namespace sennit
