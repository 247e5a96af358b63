#include "exec/stream/call_operations.hpp"

#include "exec/stream/staging_sizes.hpp"

#include <algorithm>
#include <span>
#include <variant>
#include <vector>

namespace sennit::stream {
namespace {

// Of a call in several rounds: its deadline begins with the first of them, not with each.
struct Part {
  bool is_first = true;
  bool is_last = true;
};

// Strands that go from memory to memory are issued first: each part of those through slots takes
// some calls of the driver, and many of them more time than such a strand takes to begin. So where
// a device has one queue for all streams, what waits there waits for what peers issued at the
// beginning of the call; then for copies of direct strands that come earlier in the order of
// move(); and behind them strands through slots wait for each other alone.
void append(int rank,
            const StreamCall& call,
            const Part& part,
            OperationWriter& writer,
            std::span<DirectOperations> direct,
            std::span<SlotOperations> slots) {
  // What the user's stream holds so far comes before everything of this call. In a graph, so do the
  // signals that others wait for before they signal anything themselves.
  if (!call.is_captured) {
    writer.fork();
  }
  if (part.is_first) {
    writer.put(kUsersStream, StoreFlag{running_flag(rank), running_word(0, call.deadline_ms)});
  }
  for (DirectOperations& strand : direct) {
    strand.admit();
  }
  if (call.is_captured) {
    writer.fork();
  }
  for (DirectOperations& strand : direct) {
    strand.enter();
  }
  for (DirectOperations& strand : direct) {
    strand.move();
  }
  for (SlotOperations& strand : slots) {
    strand.move();
  }
  writer.join();
  for (DirectOperations& strand : direct) {
    strand.settle();
  }
  for (SlotOperations& strand : slots) {
    strand.settle();
  }
  if (part.is_last) {
    end_call(writer, rank, call.number);
  }
}

}  // namespace

void end_call(OperationWriter& writer, int rank, std::uint64_t number) {
  writer.put(kUsersStream, StoreFlag{running_flag(rank), kIdle});
  if (number != 0) {
    writer.put(kUsersStream, StoreFlag{ended_flag(rank), number});
  }
}

std::int64_t rounds_of(const StreamProgram& program,
                       const Extent& extent,
                       std::int64_t staging_bytes,
                       const host::RingShape& ring) {
  const Problem& problem = program.problem;
  if (!is_reduction(problem.collective) || problem.ranks == 1) {
    return 1;
  }
  const std::int64_t rounds = staging_rounds(problem, extent, staging_bytes);
  if (!program.uses_rings) {
    return rounds;
  }
  // A round's blocks may be somewhat longer than their share.
  const std::int64_t room = static_cast<std::int64_t>(ring.bytes()) / 2;
  return std::max(rounds, ceiling(longest_range(problem, Portion{}, extent), room));
}

void append_round(const StreamProgram& program,
                  const StreamCall& call,
                  const Round& round,
                  OperationList& list) {
  OperationWriter writer(list);
  DirectOperations strand(
      writer, program, {.before = round.index, .share = 1, .total = round.count}, call);
  const Part part{.is_first = round.index == 0, .is_last = round.index + 1 == round.count};
  append(program.rank, call, part, writer, {&strand, 1}, {});
}

void append_call(const PlanProgram& program,
                 const StreamCall& call,
                 const host::RingShape& ring,
                 OperationList& list) {
  OperationWriter writer(list);
  std::vector<DirectOperations> direct;
  std::vector<SlotOperations> slots;
  for (const StrandProgram& strand : program.strands) {
    if (const auto* const straight = std::get_if<StreamProgram>(&strand.program)) {
      direct.emplace_back(writer, *straight, strand.portion, call);
    } else {
      slots.emplace_back(writer,
                         std::get<SlotProgram>(strand.program),
                         strand.portion,
                         call,
                         ring,
                         kFirstSlotStream);
    }
  }
  append(program.rank, call, {}, writer, direct, slots);
}

}  // namespace sennit::stream
