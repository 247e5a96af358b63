// What ran on communicators, and what on their companions: said at INFO at the end of each, or when
// the program ends without having destroyed it. bench/gpu adds it up.
#pragma once

#include "communicator.hpp"

namespace sennit_nccl {

// From now on it is reported at the end of the program, unless end_share is called before.
void begin_share(ncclComm_t comm);
void end_share(ncclComm_t comm);

}  // namespace sennit_nccl
