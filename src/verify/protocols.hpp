// What a protocol asks of the two ends of its channel.
#pragma once

#include "flat_strand.hpp"

namespace sennit {

// kNotProved when a sender has no block of its own to expose (direct_get), or a recipient has no
// block of its own that the message itself belongs into (direct_put), for every protocol that a
// message may use; or when a bundle mixes direct_put with another protocol.
Status check_protocols(const FlatStrand& program);

}  // namespace sennit
