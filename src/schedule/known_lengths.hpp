// Known lengths: whether every rank knows the length of every message, where lengths vary.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

// Of a schedule whose blocks vary in length. A rank knows the lengths of its own input and output
// blocks, so data steps must name these alone: no scratch, and nothing that only passes through. In
// all_gather that is enough, because every rank has every part as an output block and so knows all
// lengths. Elsewhere a rank knows the parts that it sends or keeps and no others, so each channel
// must be single_hop and carry blocks: then its two ends, and nobody else, decide how many messages
// it has. What a block holds is for the proof of values to compare with what it is named for.
// kUnsupported, with the reason, when a length is not known.
Status check_known_lengths(const Schedule& schedule);

}  // namespace sennit
