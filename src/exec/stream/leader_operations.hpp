// The operations of a collective of ranks whose kernels one GPU runs in turn. There each change
// from one rank's kernels or copies to another's takes 140 us on an H100, so rank 0, the leader,
// runs what all ranks have to do: with their buffers mapped it reaches into the memory of all. The
// streams of the others say that their buffers are ready, and wait until all is done; a stream that
// waits for a word takes no time of the GPU. Where no stream had anything to do when the hosts met,
// all buffers were ready then (StreamCall::are_all_idle).
#pragma once

#include "exec/stream/operation_list.hpp"
#include "exec/stream/stream_call.hpp"
#include "exec/stream/stream_program.hpp"

#include <span>

namespace sennit::stream {

inline constexpr int kLeader = 0;
inline constexpr int kLeadersChannel = 0;

// Appends what the stream of `rank` gets. `programs`: of all ranks, by rank; what others contribute
// to a reduction is read where it lies.
void append_by_leader(std::span<const StreamProgram> programs,
                      int rank,
                      const StreamCall& call,
                      OperationList& list);

}  // namespace sennit::stream
