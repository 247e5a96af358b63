// The operations of a collective that copy engines run, on one rank: a pure function of its program
// and of the call's geometry.
#pragma once

#include "exec/stream/direct_operations.hpp"
#include "exec/stream/operation_list.hpp"
#include "exec/stream/plan_program.hpp"
#include "exec/stream/slot_operations.hpp"
#include "exec/stream/stream_call.hpp"
#include "path/host/rings.hpp"

namespace sennit::stream {

// Streams, with the user's, of such a call: without and with strands through slots.
inline constexpr int kFirstSlotStream = DirectOperations::kOwnStream + 1;
inline constexpr int kDirectStreams = kFirstSlotStream;
inline constexpr int kCallStreams = kFirstSlotStream + SlotOperations::kStreams;

// Signals the host that the call has ended. A number of 0 is that of a graph, which would say it
// again in every replay.
void end_call(OperationWriter& writer, int rank, std::uint64_t number);

// Rounds of a call: its contributions to a reduction fit into so much staging memory, and what goes
// through the host into rings. Equal on all ranks, whoever reduces and whose ring is used.
std::int64_t rounds_of(const StreamProgram& program,
                       const Extent& extent,
                       std::int64_t staging_bytes,
                       const host::RingShape& ring);

// Appends one round of the call to `list`: the n-th of all. The call runs from the first to the
// last.
struct Round {
  std::int64_t index = 0;
  std::int64_t count = 1;
};
void append_round(const StreamProgram& program,
                  const StreamCall& call,
                  const Round& round,
                  OperationList& list);

// Appends the call: its strands run side by side. `ring`: of all ranks.
void append_call(const PlanProgram& program,
                 const StreamCall& call,
                 const host::RingShape& ring,
                 OperationList& list);

}  // namespace sennit::stream
