#include "exec/stream/message_slots.hpp"

#include "exec/stream/slot_parts.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {

MessageSlots::MessageSlots(const Context& context, std::span<const Message> messages)
    : context_(context) {
  for (const Message& message : messages) {
    int next = message.first_slot;
    for (const StrandProgram& strand : message.program->strands) {
      if (std::holds_alternative<SlotProgram>(strand.program)) {
        add(message, strand, next);
      }
    }
  }
  streams_ = streams_per_lane(static_cast<int>(puts_.size() + takes_.size()), context_.streams);
  int first = 0;  // by their place in the group, so that few lanes never share a queue
  for (std::vector<Lane>* const lanes : {&puts_, &takes_}) {
    for (Lane& lane : *lanes) {
      lane.first_stream = std::exchange(first, first + streams_);
    }
  }
}

RankWords& MessageSlots::words_of(int rank) const {
  return *context_.words[static_cast<std::size_t>(rank)];
}

MessageSlots::Lane& MessageSlots::lane_of(std::vector<Lane>& lanes, int peer) {
  const auto known = std::ranges::find(lanes, peer, &Lane::peer);
  return known != lanes.end() ? *known : lanes.emplace_back(Lane{.peer = peer});
}

void MessageSlots::add(const Message& message, const StrandProgram& strand, int& next) {
  const auto for_each_part = [&](const Block& block, auto function) {
    const ByteRange range = message.range_of(strand, block);
    const SlotParts parts = cut_into_slots(range.length, context_.shape);
    for (std::int64_t at = 0; at < range.length; at += parts.bytes) {
      const int index = next++ % context_.shape.slots;
      const auto bytes = static_cast<std::size_t>(std::min(parts.bytes, range.length - at));
      std::byte* const place =
          message.ring + static_cast<std::size_t>(index) * context_.shape.slot_bytes;
      function(
          range.begin + at,
          place,
          Part{.bytes = bytes, .slot = static_cast<std::size_t>(index), .turn = message.before});
    }
  };
  const auto& program = std::get<SlotProgram>(strand.program);
  for (const Put& put : program.puts) {
    for_each_part(put.from, [&](std::int64_t at, std::byte* place, Part part) {
      part.from = message.input + at;
      part.to = place;
      lane_of(puts_, message.peer).parts.push_back(part);
    });
  }
  for (const Take& take : program.takes) {
    for_each_part(take.to, [&](std::int64_t at, std::byte* place, Part part) {
      part.from = place;
      part.to = message.output + at;
      lane_of(takes_, message.peer).parts.push_back(part);
      lane_of(takes_, message.peer).watch = message.watch;
    });
  }
}

std::set<int> MessageSlots::turns() const {
  std::set<int> turns;
  for (const std::vector<Lane>* const lanes : {&puts_, &takes_}) {
    for (const Lane& lane : *lanes) {
      for (const Part& part : lane.parts) {
        turns.insert(part.turn);
      }
    }
  }
  return turns;
}

Status MessageSlots::move(int turn) {
  for (bool has_moved = true; has_moved;) {
    SENNIT_ASSIGN_OR_RETURN(const bool has_put, move_next(puts_, turn, &MessageSlots::put));
    SENNIT_ASSIGN_OR_RETURN(const bool has_taken, move_next(takes_, turn, &MessageSlots::take));
    has_moved = has_put || has_taken;
  }
  return {};
}

Result<bool> MessageSlots::move_next(std::vector<Lane>& lanes, int turn, Mover mover) {
  bool has_moved = false;
  for (Lane& lane : lanes) {
    if (lane.moved < lane.parts.size() && lane.parts[lane.moved].turn <= turn) {
      SENNIT_RETURN_IF_ERROR((this->*mover)(lane, lane.moved));
      ++lane.moved;
      has_moved = true;
    }
  }
  return has_moved;
}

void MessageSlots::await_reader(std::vector<WordStep>& steps,
                                const Lane& lane,
                                std::size_t n) const {
  auto& emptied = words_of(context_.rank).message_emptied[static_cast<std::size_t>(lane.peer)];
  consume(steps, &emptied[lane.parts[n].slot]);
}

WordStep MessageSlots::tell_taken(const Lane& lane, std::size_t n) const {
  auto& emptied = words_of(lane.peer).message_emptied[static_cast<std::size_t>(context_.rank)];
  return fill(&emptied[lane.parts[n].slot]);
}

Status MessageSlots::put(const Lane& lane, std::size_t n) {
  CopyLine line = line_of(lane);
  const Part& part = lane.parts[n];
  const auto slots = static_cast<std::size_t>(context_.shape.slots);
  std::vector<WordStep> steps;
  if (n >= slots) {
    await_reader(steps, lane, n - slots);
  }
  SENNIT_RETURN_IF_ERROR(line.await(steps));
  SENNIT_RETURN_IF_ERROR(line.copy(part.to, part.from, part.bytes));
  auto& filled = words_of(lane.peer).message_filled[static_cast<std::size_t>(context_.rank)];
  return line.tell({fill(&filled[part.slot])});
}

Status MessageSlots::take(const Lane& lane, std::size_t n) {
  CopyLine line = line_of(lane);
  const Part& part = lane.parts[n];
  std::vector<WordStep> steps;
  auto& filled = words_of(context_.rank).message_filled[static_cast<std::size_t>(lane.peer)];
  consume(steps, &filled[part.slot]);
  SENNIT_RETURN_IF_ERROR(line.await(steps));
  SENNIT_RETURN_IF_ERROR(line.copy(part.to, part.from, part.bytes));
  if (lane.watch != nullptr && n + 1 == lane.parts.size()) {
    SENNIT_ASSIGN_OR_RETURN(void* const stream, line.stream_of_copies());
    SENNIT_RETURN_IF_ERROR(lane.watch->end(Stopwatch::kHost, stream));
  }
  return line.tell({tell_taken(lane, n)});
}

void MessageSlots::settle(std::vector<WordStep>& steps) const {
  const auto slots = static_cast<std::size_t>(context_.shape.slots);
  for (const Lane& lane : puts_) {
    const std::size_t sent = lane.parts.size();
    for (std::size_t n = sent - std::min(sent, slots); n < sent; ++n) {
      await_reader(steps, lane, n);
    }
  }
}

}  // namespace sennit::stream
