// The probe of FIFOs: whether what GPUs write into each other's memory arrives there as it was
// written.
//
// That two devices may map each other's memory does not say so: with some IOMMUs and PCIe switches
// every copy between them ends without an error and with wrong bytes. So each rank's copy engine
// writes a few KB of its own into the FIFO of every other, all at once, before the first call, and
// each rank reads its own FIFO back.
#pragma once

#include "memory/device_bootstrap.hpp"

#include <cstddef>
#include <vector>

namespace sennit {

// All together, once each has mapped the FIFOs of others; they are zeroed, before and after.
// `fifos`: by rank, as this device sees them; null: neither of the two ranks has mapped the
// other's.
Result<std::vector<BrokenPair>> find_corrupting_pairs(const DeviceBootstrap& bootstrap,
                                                      const std::vector<std::byte*>& fifos);

}  // namespace sennit
