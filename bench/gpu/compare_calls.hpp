// Sennit's calls, by the name of the collective.
#pragma once

#include "rival.hpp"

#include "sennit/sennit.h"

#include <cuda_runtime.h>

#include <string_view>

namespace sennit_bench {

// Enqueues float32 sums, or moves; a rooted one is from or to rank 0. Whether that went well.
bool call_sennit(std::string_view collective,
                 const CallArgs& args,
                 const sennit_call_options_t& options,
                 sennit_comm_t comm,
                 cudaStream_t stream);

}  // namespace sennit_bench
