// Selection for copy engines: which calls they run over NVLink, by size or by request. A pure
// function of what all ranks share.
#pragma once

#include "select/device_choice.hpp"

#include <cstdint>
#include <string_view>

namespace sennit {

// The protocol by which a call requests copy engines, whichever they speak.
inline constexpr std::string_view kByCopyEngines = "copy_engines";

// From how many bytes on calls that request nothing take copy engines: of a message, or of all
// ranks together.
std::int64_t copied_from_bytes(Collective collective, const DeviceFacts& facts);

// Whether rank 0 does the work of all (exec/stream/leader_operations.hpp).
bool suits_a_leader(Collective collective, int ranks, const DeviceFacts& facts);

bool suits_copy_engines(Collective collective,
                        int ranks,
                        std::int64_t bytes,
                        const DeviceFacts& facts);

bool requests_copies(Collective collective, const CallRequest& request);
// kUnsupported, saying why, for requests that copy engines cannot meet.
Status can_be_copied(Collective collective, const CallRequest& request, const Means& means);
// Of ranks that run in turn, where kernels that wait for each other take milliseconds: the call
// names an algorithm that copy engines run as well, and no protocol.
bool names_copies(Collective collective,
                  int ranks,
                  const CallRequest& request,
                  const DeviceFacts& facts,
                  const Means& means);

// Where the call leaves it open.
std::string_view copying_algorithm(const DeviceFacts& facts,
                                   Collective collective,
                                   int ranks,
                                   std::int64_t bytes);

}  // namespace sennit
