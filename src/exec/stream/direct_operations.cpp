#include "exec/stream/direct_operations.hpp"

#include "exec/stream/staging_sizes.hpp"

#include <algorithm>
#include <cstdint>

namespace sennit::stream {
namespace {

// Of the flags of a ring: what goes through it is one message, which may take all of its slots.
constexpr int kSlot = 0;

}  // namespace

DirectOperations::DirectOperations(OperationWriter& writer,
                                   const StreamProgram& program,
                                   const Portion& portion,
                                   const StreamCall& call)
    : writer_(writer),
      program_(program),
      portion_(portion),
      call_(call),
      longest_(longest_range(program.problem, portion, call.extent())) {}

// What is reduced at once, and how the last contribution comes: smaller and smaller pieces, so that
// little is left to be reduced after the last copy. Equal at both ends.
DirectOperations::Pieces DirectOperations::pieces_of(std::int64_t length) const {
  if (length < 2 * call_.part_bytes) {
    return {.pieces = {{{0, length}}}, .count = 1};
  }
  const std::int64_t half = length / 2 / kPieceUnit * kPieceUnit;
  const std::int64_t quarter = (length - half) / 2 / kPieceUnit * kPieceUnit;
  return {.pieces = {{{0, half}, {half, quarter}, {half + quarter, length - half - quarter}}},
          .count = 3};
}

void DirectOperations::admit() {
  for (const Arrival& arrival : program_.arrivals) {
    if (!arrival.is_admitted) {
      writer_.fill(kUsersStream, done_flag(arrival.sender, program_.rank, arrival.channel));
    }
  }
  for (const Reduction& reduction : program_.reductions) {
    for (const Operand& operand : reduction.operands) {
      if (operand.sender != program_.rank) {
        writer_.fill(kUsersStream, done_flag(operand.sender, program_.rank, operand.channel));
      }
    }
  }
}

void DirectOperations::enter() {
  await_room(program_.departures);
  for (const Reduction& reduction : program_.reductions) {
    await_room(reduction.passes_on);
  }
}

void DirectOperations::say_contributed(int piece) {
  if (call_.is_captured && piece >= contributed_) {
    writer_.put(kUsersStream, RecordEvent{kContributedEvent + piece});
    contributed_ = piece + 1;
  }
}

void DirectOperations::await_contributed(int piece) {
  if (call_.is_captured && piece < contributed_) {
    writer_.put(kOwnStream, AwaitEvent{kContributedEvent + piece});
  }
}

// Whoever waits, waits for what its peers issue before anything that waits for it in turn:
// contributions, then reductions, then sums.
void DirectOperations::move() {
  for (const Departure& departure : program_.departures) {
    if (!departure.to) {
      contribute(departure);
    }
  }
  say_contributed(/*piece=*/0);
  for (const Reduction& reduction : program_.reductions) {
    reduce(reduction);
    put_sums(reduction);
  }
  for (const Departure& departure : program_.departures) {
    if (departure.to) {
      put_whole(departure);
    }
  }
  for (const OwnCopy& copy : program_.copies) {
    copy_own(copy);
  }
}

// In the order in which they are put.
template <typename Function>
void DirectOperations::for_each_put(Function function) const {
  for (const Reduction& reduction : program_.reductions) {
    std::ranges::for_each(reduction.passes_on, function);
  }
  for (const Departure& departure : program_.departures) {
    if (departure.to) {
      function(departure);
    }
  }
}

void DirectOperations::settle() {
  if (!program_.arrivals.empty()) {
    for_each_put([&](const Departure& departure) { signal(departure, /*piece=*/0); });
  }
  for (const Arrival& arrival : program_.arrivals) {
    writer_.consume(kUsersStream,
                    ready_flag(program_.rank, arrival.sender, arrival.channel, /*piece=*/0));
    if (arrival.through_host) {
      take_from_ring(
          kUsersStream, arrival.sender, own_place(arrival.to), range_of(arrival.to).length);
    }
  }
  // The next call finds the ring empty, as after one that goes through its slots.
  std::ranges::for_each(program_.departures,
                        [&](const Departure& departure) { await_empty_ring(departure); });
  for (const Reduction& reduction : program_.reductions) {
    std::ranges::for_each(reduction.passes_on,
                          [&](const Departure& departure) { await_empty_ring(departure); });
  }
}

ByteRange DirectOperations::range_of(const Block& block) const {
  return stream::range_of(program_.problem, portion_, call_.extent(), block.index);
}

Place DirectOperations::own_place(const Block& block) const {
  return {.memory = block.space == Space::kInput ? Memory::kInput : Memory::kOutput,
          .index = program_.rank,
          .at = range_of(block).begin};
}

Place DirectOperations::staged(int reader, int sender) const {
  return {.memory = Memory::kStaging,
          .index = reader,
          .at = (sender < reader ? sender : sender - 1) * whole_units(longest_)};
}

bool DirectOperations::is_last(int sender, int reader) const {
  return (sender + program_.problem.ranks - reader) % program_.problem.ranks == 1;
}

void DirectOperations::await_room(const std::vector<Departure>& departures) {
  for (const Departure& departure : departures) {
    if (!departure.is_admitted) {
      writer_.consume(kUsersStream, done_flag(program_.rank, departure.reader, departure.channel));
    }
  }
}

void DirectOperations::signal(const Departure& departure, int piece) {
  writer_.fill(kUsersStream, ready_flag(departure.reader, program_.rank, departure.channel, piece));
}

// A flag between copies holds up the next one; where ranks get as much as they give, nobody waits
// for a block before the end.
void DirectOperations::signal_in_time(const Departure& departure) {
  if (program_.arrivals.empty()) {
    signal(departure, /*piece=*/0);
  }
}

void DirectOperations::put_in_ring(const Block& block) {
  const std::int64_t bytes = range_of(block).length;
  if (bytes > 0 && !is_in_ring_) {
    writer_.put(kUsersStream,
                CopyBytes{.to = {.memory = Memory::kRing, .index = program_.rank},
                          .from = own_place(block),
                          .bytes = bytes});
  }
  is_in_ring_ = true;
}

void DirectOperations::take_from_ring(int stream, int sender, const Place& to, std::int64_t bytes) {
  if (bytes > 0) {
    writer_.put(
        stream,
        CopyBytes{.to = to, .from = {.memory = Memory::kRing, .index = sender}, .bytes = bytes});
  }
  writer_.fill(stream, emptied_flag(sender, program_.rank, kSlot));
}

void DirectOperations::await_empty_ring(const Departure& departure) {
  if (departure.through_host) {
    writer_.consume(kUsersStream, emptied_flag(program_.rank, departure.reader, kSlot));
  }
}

void DirectOperations::copy(const Departure& departure, const Piece& piece) {
  if (piece.bytes <= 0) {
    return;
  }
  Place from = own_place(departure.from);
  Place to = staged(departure.reader, program_.rank);
  if (departure.to) {
    to = {
        .memory = Memory::kOutput, .index = departure.reader, .at = range_of(*departure.to).begin};
  }
  from.at += piece.at;
  to.at += piece.at;
  writer_.put(kUsersStream, CopyBytes{.to = to, .from = from, .bytes = piece.bytes});
}

void DirectOperations::contribute(const Departure& departure) {
  if (departure.through_host) {
    put_in_ring(departure.from);
    return signal(departure, /*piece=*/0);
  }
  if (departure.is_pulled) {
    return signal(departure, /*piece=*/0);
  }
  const std::int64_t length = range_of(departure.from).length;
  const Pieces pieces = is_last(program_.rank, departure.reader)
                            ? pieces_of(length)
                            : Pieces{.pieces = {{{0, length}}}, .count = 1};
  for (int i = 0; i < pieces.count; ++i) {
    copy(departure, pieces.pieces[static_cast<std::size_t>(i)]);
    signal(departure, i);
    if (pieces.count > 1) {
      say_contributed(i);  // the last of all contributions
    }
  }
}

// Behind the flag of its sender, on the stream that reduces it.
void DirectOperations::pull(const Operand& operand) {
  const ByteRange range = range_of(operand.from);
  if (range.length > 0) {
    writer_.put(
        kOwnStream,
        CopyBytes{.to = staged(program_.rank, operand.sender),
                  .from = {.memory = Memory::kInput, .index = operand.sender, .at = range.begin},
                  .bytes = range.length});
  }
}

void DirectOperations::reduce(const Reduction& reduction) {
  const Pieces pieces = pieces_of(range_of(reduction.to).length);
  for (int i = 0; i < pieces.count; ++i) {
    await_contributed(i);
    for (const Operand& operand : reduction.operands) {
      const bool comes_in_pieces =
          is_last(operand.sender, program_.rank) && !operand.through_host && !operand.is_pulled;
      if (operand.sender != program_.rank && (i == 0 || comes_in_pieces)) {
        writer_.consume(
            kOwnStream,
            ready_flag(program_.rank, operand.sender, operand.channel, comes_in_pieces ? i : 0));
        if (operand.through_host) {
          take_from_ring(kOwnStream,
                         operand.sender,
                         staged(program_.rank, operand.sender),
                         range_of(reduction.to).length);
        }
        if (operand.is_pulled) {
          pull(operand);
        }
      }
    }
    reduce(reduction, pieces.pieces[static_cast<std::size_t>(i)]);
    writer_.put(kOwnStream, RecordEvent{kReducedEvent + i});
  }
}

void DirectOperations::reduce(const Reduction& reduction, const Piece& piece) {
  if (piece.bytes <= 0) {
    return;
  }
  std::vector<ReduceOperand>& operands = writer_.list().operands;
  const auto first = static_cast<std::int32_t>(operands.size());
  for (const Operand& operand : reduction.operands) {
    Place place = operand.sender == program_.rank ? own_place(operand.from)
                                                  : staged(program_.rank, operand.sender);
    place.at += piece.at;
    operands.push_back({.place = place, .rank = operand.sender});
  }
  Place to = own_place(reduction.to);
  to.at += piece.at;
  writer_.put(kOwnStream,
              ReduceBytes{.to = to,
                          .bytes = piece.bytes,
                          .first = first,
                          .count = static_cast<std::int32_t>(reduction.operands.size())});
}

// The first rank gets the first piece while the last one is reduced.
void DirectOperations::put_sums(const Reduction& reduction) {
  const std::int64_t length = range_of(reduction.to).length;
  const Pieces pieces = pieces_of(length);
  for (const Departure& departure : reduction.passes_on) {
    const bool is_first = &departure == &reduction.passes_on.front();
    for (int i = 0; i < pieces.count && is_first; ++i) {
      writer_.put(kUsersStream, AwaitEvent{kReducedEvent + i});
      if (!departure.through_host) {
        copy(departure, pieces.pieces[static_cast<std::size_t>(i)]);
      }
    }
    if (departure.through_host) {
      put_in_ring(reduction.to);
    } else if (!is_first) {
      copy(departure, {0, length});
    }
    signal_in_time(departure);
  }
}

void DirectOperations::put_whole(const Departure& departure) {
  copy(departure, {0, range_of(departure.from).length});
  signal_in_time(departure);
}

void DirectOperations::copy_own(const OwnCopy& copy) {
  const std::byte* const source = call_.input + range_of(copy.from).begin;
  const std::byte* const target = call_.output + range_of(copy.to).begin;
  const std::int64_t bytes = range_of(copy.to).length;
  if (source == target || bytes == 0) {
    return;
  }
  writer_.put(kOwnStream,
              CopyBytes{.to = own_place(copy.to),
                        .from = own_place(copy.from),
                        .bytes = bytes,
                        .is_by_kernel = call_.copies_by_kernel(source, target, bytes)});
}

}  // namespace sennit::stream
