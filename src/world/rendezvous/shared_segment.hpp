// Making, checking and mapping the file behind a SharedSegment.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"
#include "world/rendezvous/process.hpp"
#include "world/rendezvous/rendezvous.hpp"

#include <cstdint>
#include <memory>

namespace sennit {

// A file without a name, of exactly `bytes` zeros: a memfd sealed against any change of its size,
// or, where the system refuses memfd, an unlinked file of this user alone with all its memory
// reserved.
Result<UniqueFd> create_segment_file(std::size_t bytes);

// The second of these by itself.
Result<UniqueFd> create_unsealed_segment_file(std::size_t bytes);

// An eventfd, which wakes the reader of its other copies.
Result<UniqueFd> create_waker();

// Maps a file that another process may have made, after checking that it is what
// create_segment_file() makes. Ranks of one process that name the same id get the same mapping.
Result<std::shared_ptr<SharedSegment>> map_segment(const Token& id, int fd, std::size_t bytes);

}  // namespace sennit
