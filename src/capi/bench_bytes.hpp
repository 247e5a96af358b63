// Bytes as `sennit bench` counts them, which is the whole buffer, and as selection does.
#pragma once

#include "types/types.hpp"

#include <cstdint>

namespace sennit {

// Of the whole vector for cut collectives, of one rank's part otherwise.
inline std::int64_t bytes_of_call(Collective collective, int ranks, std::int64_t buffer_bytes) {
  const bool in_parts = collective == Collective::kAllGather ||
                        collective == Collective::kReduceScatter ||
                        collective == Collective::kAllToAll || collective == Collective::kGather ||
                        collective == Collective::kScatter;
  return in_parts ? buffer_bytes / ranks : buffer_bytes;
}

}  // namespace sennit
