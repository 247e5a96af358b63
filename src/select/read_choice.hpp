// Which reductions kernels read in the inputs of other ranks, by protocol direct_get.
#pragma once

#include "select/device_choice.hpp"

#include <cstdint>
#include <string_view>

namespace sennit {

// The algorithm whose contributions kernels can read where they are: each rank alone reduces one
// part of all inputs. Empty: there is none.
std::string_view reading_algorithm(Collective collective);

// From the sizes of the profile on. Parts have to begin at the same distance from a multiple of 16
// bytes in all buffers.
bool suits_reads(Collective collective,
                 int ranks,
                 std::int64_t bytes,
                 const DeviceFacts& facts,
                 const Means& means);

// Why a request for it is refused.
Status can_be_read(Collective collective, const CallRequest& request, const Means& means);

// Thread blocks of such a call.
int reading_blocks(Collective collective, int ranks, const DeviceFacts& facts);

}  // namespace sennit
