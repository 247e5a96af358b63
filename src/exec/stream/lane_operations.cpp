#include "exec/stream/lane_operations.hpp"

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/slot_parts.hpp"

#include <algorithm>
#include <variant>

namespace sennit::stream {

int LaneOperations::streams_per_lane(int lanes, int streams) {
  return std::clamp(streams / std::max(lanes, 1), 1, OperationLine::kMostStreams);
}

int LaneOperations::streams_for(int ranks) { return std::max(2 * (ranks - 1), kDefaultQueues); }

LaneOperations::LaneOperations(OperationWriter& writer,
                               const Setting& setting,
                               std::span<const Message> messages)
    : writer_(writer), setting_(setting) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    int next = messages[i].first_slot;
    for (const StrandProgram& strand : messages[i].program->strands) {
      if (std::holds_alternative<SlotProgram>(strand.program)) {
        add(messages[i], static_cast<int>(i), strand, next);
      }
    }
  }
  deal_streams();
}

// By their place in the group: few lanes never share a queue.
void LaneOperations::deal_streams() {
  const auto lines_of = [&](const std::vector<Lane>& lanes) {
    const auto count = static_cast<int>(lanes.size());
    return setting_.is_captured ? std::min(1, count) : count;
  };
  streams_ = streams_per_lane(lines_of(puts_) + lines_of(takes_), setting_.streams);
  int first = setting_.first_stream;
  for (std::vector<Lane>* const lanes : {&puts_, &takes_}) {
    for (Lane& lane : *lanes) {
      lane.first_stream = first;
      first += setting_.is_captured ? 0 : streams_;
    }
    first += setting_.is_captured ? streams_ * lines_of(*lanes) : 0;
  }
  if (!puts_.empty() || !takes_.empty()) {
    order_.emplace(writer_,
                   RoundOrder::Setting{.slots = setting_.ring.slots,
                                       .first_event = kFirstEvent,
                                       .is_captured = setting_.is_captured},
                   line_of(puts_.empty() ? takes_.front() : puts_.front()),
                   line_of(takes_.empty() ? puts_.front() : takes_.front()));
  }
}

LaneOperations::Lane& LaneOperations::lane_of(std::vector<Lane>& lanes, int peer) {
  const auto known = std::ranges::find(lanes, peer, &Lane::peer);
  return known != lanes.end() ? *known : lanes.emplace_back(Lane{.peer = peer});
}

void LaneOperations::add(const Message& message,
                         int index,
                         const StrandProgram& strand,
                         int& next) {
  const auto for_each_part = [&](const Block& block, auto function) {
    const ByteRange range = message.range_of(strand, block);
    const SlotParts parts = cut_into_slots(range.length, setting_.ring);
    for (std::int64_t at = 0; at < range.length; at += parts.bytes) {
      const int slot = next++ % setting_.ring.slots;
      const Place in_ring{.memory = Memory::kRing,
                          .index = index,
                          .at = slot * static_cast<std::int64_t>(setting_.ring.slot_bytes)};
      function(range.begin + at,
               in_ring,
               Part{.bytes = std::min(parts.bytes, range.length - at),
                    .slot = slot,
                    .turn = message.before});
    }
  };
  const auto& program = std::get<SlotProgram>(strand.program);
  for (const Put& put : program.puts) {
    for_each_part(put.from, [&](std::int64_t at, const Place& in_ring, Part part) {
      part.from = {.memory = Memory::kInput, .index = index, .at = at};
      part.to = in_ring;
      lane_of(puts_, message.peer).parts.push_back(part);
    });
  }
  for (const Take& take : program.takes) {
    for_each_part(take.to, [&](std::int64_t at, const Place& in_ring, Part part) {
      part.from = in_ring;
      part.to = {.memory = Memory::kOutput, .index = index, .at = at};
      Lane& lane = lane_of(takes_, message.peer);
      lane.parts.push_back(part);
      lane.timed = message.watch != nullptr ? index : -1;
    });
  }
}

void LaneOperations::add_turns(std::set<int>& turns) const {
  for (const std::vector<Lane>* const lanes : {&puts_, &takes_}) {
    for (const Lane& lane : *lanes) {
      for (const Part& part : lane.parts) {
        turns.insert(part.turn);
      }
    }
  }
}

bool LaneOperations::is_due(const Lane& lane, int turn) {
  return lane.moved < lane.parts.size() && lane.parts[lane.moved].turn <= turn;
}

bool LaneOperations::is_any_due(const std::vector<Lane>& lanes, int turn) {
  return std::ranges::any_of(lanes, [&](const Lane& lane) { return is_due(lane, turn); });
}

void LaneOperations::move(int turn) {
  for (; is_any_due(puts_, turn) || is_any_due(takes_, turn); ++round_) {
    if (is_any_due(puts_, turn)) {
      order_->before_puts(round_);
      move_next(puts_, turn, &LaneOperations::put);
      order_->has_put(round_);
    }
    if (is_any_due(takes_, turn)) {
      order_->before_takes(round_);
      move_next(takes_, turn, &LaneOperations::take);
      order_->has_taken(round_);
    }
    order_->end(round_);
  }
}

void LaneOperations::move_next(std::vector<Lane>& lanes, int turn, Mover mover) {
  for (Lane& lane : lanes) {
    if (is_due(lane, turn)) {
      (this->*mover)(lane, lane.moved);
      ++lane.moved;
    }
  }
}

void LaneOperations::await_reader(int stream, const Lane& lane, std::size_t n) {
  writer_.consume(stream, message_emptied_flag(setting_.rank, lane.peer, lane.parts[n].slot));
}

void LaneOperations::put(const Lane& lane, std::size_t n) {
  OperationLine line = line_of(lane);
  const Part& part = lane.parts[n];
  const auto slots = static_cast<std::size_t>(setting_.ring.slots);
  if (n >= slots) {
    await_reader(line.waits(), lane, n - slots);
    line.has_waited();
  }
  line.copy(part.to, part.from, part.bytes);
  line.has_copied();
  writer_.fill(line.signals(), message_filled_flag(lane.peer, setting_.rank, part.slot));
}

void LaneOperations::take(const Lane& lane, std::size_t n) {
  OperationLine line = line_of(lane);
  const Part& part = lane.parts[n];
  writer_.consume(line.waits(), message_filled_flag(setting_.rank, lane.peer, part.slot));
  line.has_waited();
  line.copy(part.to, part.from, part.bytes);
  if (lane.timed >= 0 && n + 1 == lane.parts.size()) {
    writer_.put(line.copies(), ReadTime{.message = lane.timed, .what = ReadTime::What::kHostEnd});
  }
  line.has_copied();
  writer_.fill(line.signals(), message_emptied_flag(lane.peer, setting_.rank, part.slot));
}

void LaneOperations::settle() {
  const auto slots = static_cast<std::size_t>(setting_.ring.slots);
  for (const Lane& lane : puts_) {
    const std::size_t sent = lane.parts.size();
    for (std::size_t n = sent - std::min(sent, slots); n < sent; ++n) {
      await_reader(kUsersStream, lane, n);
    }
  }
}

}  // namespace sennit::stream
