#include "exec/stream/slot_operations.hpp"

#include <algorithm>

namespace sennit::stream {

SlotOperations::SlotOperations(OperationWriter& writer,
                               const SlotProgram& program,
                               const Portion& portion,
                               const StreamCall& call,
                               const host::RingShape& ring,
                               int first_stream)
    : writer_(writer),
      program_(program),
      portion_(portion),
      call_(call),
      ring_(ring),
      // The first block is the longest.
      parts_(cut_into_slots(range_of(program.problem, portion, call.extent(), 0).length, ring)),
      puts_(writer, first_stream, OperationLine::kMostStreams),
      takes_(writer, first_stream + OperationLine::kMostStreams, OperationLine::kMostStreams),
      order_(writer,
             {.slots = ring.slots, .first_event = kFirstEvent, .is_captured = call.is_captured},
             puts_,
             takes_) {}

int SlotOperations::slot_of(int sender, std::int64_t part, int message) const {
  const std::int64_t before = part * program_.messages[static_cast<std::size_t>(sender)];
  return static_cast<int>((before + message) % ring_.slots);
}

Place SlotOperations::place_of(int sender, int slot) const {
  return {.memory = Memory::kRing,
          .index = sender,
          .at = slot * static_cast<std::int64_t>(ring_.slot_bytes)};
}

ByteRange SlotOperations::part_of(const Block& block, std::int64_t part) const {
  const ByteRange range = range_of(program_.problem, portion_, call_.extent(), block.index);
  const std::int64_t at = std::min(part * parts_.bytes, range.length);
  return {.begin = range.begin + at, .length = std::min(parts_.bytes, range.length - at)};
}

SlotOperations::Takes SlotOperations::takes_of(int message) const {
  const auto found = std::ranges::equal_range(program_.takes, message, {}, &Take::message);
  return {found.begin(), found.end()};
}

void SlotOperations::move() {
  for (std::int64_t part = 0; part < parts_.count; ++part) {
    for (int message = 0; message < program_.rounds; ++message) {
      const Round round{part, message, part * program_.rounds + message};
      if (message < static_cast<int>(program_.puts.size())) {
        put(round);
      }
      take(round, takes_of(message));
      order_.end(round.number);
    }
  }
  for (const BlockCopy& copy : program_.own_copies) {
    copy_own(copy);
  }
}

void SlotOperations::await_readers(int stream, std::int64_t n) {
  const auto messages = static_cast<std::int64_t>(program_.puts.size());
  const Put& put = program_.puts[static_cast<std::size_t>(n % messages)];
  const int slot = slot_of(program_.rank, 0, static_cast<int>(n));
  for (const int reader : put.readers) {
    writer_.consume(stream, emptied_flag(program_.rank, reader, slot));
  }
}

void SlotOperations::put(const Round& round) {
  const Put& put = program_.puts[static_cast<std::size_t>(round.message)];
  const std::int64_t n =
      round.part * static_cast<std::int64_t>(program_.puts.size()) + round.message;
  if (n >= ring_.slots) {
    order_.before_puts(round.number);
    await_readers(puts_.waits(), n - ring_.slots);
    puts_.has_waited();
  }
  const int slot = slot_of(program_.rank, round.part, round.message);
  const ByteRange from = part_of(put.from, round.part);
  if (from.length > 0) {
    puts_.copy(place_of(program_.rank, slot), own_place(Memory::kInput, from.begin), from.length);
  }
  puts_.has_copied();
  for (const int reader : put.readers) {
    writer_.fill(puts_.signals(), filled_flag(reader, program_.rank, slot));
  }
  order_.has_put(round.number);
}

void SlotOperations::take(const Round& round, Takes takes) {
  if (takes.empty()) {
    return;
  }
  order_.before_takes(round.number);
  for (const Take& take : takes) {
    const int slot = slot_of(take.sender, round.part, take.message);
    writer_.consume(takes_.waits(), filled_flag(program_.rank, take.sender, slot));
  }
  takes_.has_waited();
  for (const Take& take : takes) {
    const ByteRange to = part_of(take.to, round.part);
    if (to.length > 0) {
      const int slot = slot_of(take.sender, round.part, take.message);
      takes_.copy(own_place(Memory::kOutput, to.begin), place_of(take.sender, slot), to.length);
    }
  }
  takes_.has_copied();
  for (const Take& take : takes) {
    const int slot = slot_of(take.sender, round.part, take.message);
    writer_.fill(takes_.signals(), emptied_flag(take.sender, program_.rank, slot));
  }
  order_.has_taken(round.number);
}

void SlotOperations::copy_own(const BlockCopy& copy) {
  const ByteRange from = range_of(program_.problem, portion_, call_.extent(), copy.from.index);
  const ByteRange to = range_of(program_.problem, portion_, call_.extent(), copy.to.index);
  if (call_.input + from.begin == call_.output + to.begin || to.length == 0) {
    return;
  }
  puts_.copy(
      own_place(Memory::kOutput, to.begin), own_place(Memory::kInput, from.begin), to.length);
}

void SlotOperations::settle() {
  const auto sent = parts_.count * static_cast<std::int64_t>(program_.puts.size());
  const auto first = std::max<std::int64_t>(0, sent - ring_.slots);
  for (std::int64_t n = first; n < sent; ++n) {
    await_readers(kUsersStream, n);
  }
}

}  // namespace sennit::stream
