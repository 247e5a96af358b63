#include "exec/stream/message_engine.hpp"

#include "exec/stream/message_slots.hpp"
#include "exec/stream/word_steps.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

std::uint64_t* word(RankWords::Messages& words, const Message& message, int rank, int channel) {
  return &words[static_cast<std::size_t>(rank)][static_cast<std::size_t>(message.slot)]
               [static_cast<std::size_t>(channel)];
}

// As bits.
std::uint64_t peers_of(std::span<const Message> messages) {
  std::uint64_t peers = 0;
  for (const Message& message : messages) {
    peers |= std::uint64_t{1} << message.peer;
  }
  return peers;
}

// The strand that goes straight out of the sender's memory, if there is one.
const StrandProgram* direct_strand(const Message& message) {
  const auto& strands = message.program->strands;
  const auto found = std::ranges::find_if(strands, [](const StrandProgram& strand) {
    return std::holds_alternative<StreamProgram>(strand.program);
  });
  return found == strands.end() ? nullptr : &*found;
}

// Rank 0 of a send_recv sends.
bool is_of_sender(const Message& message) { return message.program->rank == 0; }

bool is_moved_here(const Message& message) { return message.is_put == is_of_sender(message); }

// What goes straight from memory to memory.
struct Move {
  int channel = 0;
  ByteRange from{};
  ByteRange to{};
};

// Where the ends only meet, nothing, by channel 0.
std::vector<Move> moves_of(const Message& message) {
  const StrandProgram* const strand = direct_strand(message);
  if (strand == nullptr) {
    return message.is_met ? std::vector<Move>(1) : std::vector<Move>();
  }
  std::vector<Move> moves;
  const auto add = [&](const auto& way, const Block& to) {
    moves.push_back(
        {way.channel, message.range_of(*strand, way.from), message.range_of(*strand, to)});
  };
  const auto& program = std::get<StreamProgram>(strand->program);
  std::ranges::for_each(program.departures, [&](const Departure& way) { add(way, *way.to); });
  std::ranges::for_each(program.arrivals, [&](const Arrival& way) { add(way, way.to); });
  return moves;
}

// The messages and channels of this rank that the other end moves.
template <typename Function>
void for_each_moved_elsewhere(std::span<const Message> messages, Function function) {
  for (const Message& message : messages) {
    if (!is_moved_here(message)) {
      for (const Move& part : moves_of(message)) {
        function(message, part.channel);
      }
    }
  }
}

// Whether all ranks of a set exchange messages with each other here, each of them in one group.
bool is_exchange(const MessageEngine::Group& group, const std::vector<const Message*>& moved) {
  return group.partners != 0 && std::ranges::all_of(moved, [&](const Message* message) {
           const auto first = std::ranges::find(moved, message->peer, &Message::peer);
           return message->group == (*first)->group && message->group.partners == group.partners;
         });
}

}  // namespace

MessageEngine::MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank)
    : driver_(driver), words_(std::move(words)), rank_(rank), sides_(driver), slot_sides_(driver) {}

Status MessageEngine::open() { return sides_.open(2 * static_cast<int>(words_.size())); }

Status MessageEngine::use_slots(const host::RingShape& shape) {
  if (slots_ == shape) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(
      slot_sides_.open(MessageSlots::streams_for(static_cast<int>(words_.size()))));
  slots_ = shape;
  return {};
}

std::uint64_t* MessageEngine::own_word(const Message& message, int channel) const {
  RankWords& own = words_of(rank_);
  RankWords::Messages& words = is_of_sender(message)
                                   ? (message.is_put ? own.message_admitted : own.message_done)
                                   : (message.is_put ? own.message_arrived : own.message_ready);
  return word(words, message, message.peer, channel);
}

std::uint64_t* MessageEngine::peers_word(const Message& message, int channel) const {
  RankWords& theirs = words_of(message.peer);
  RankWords::Messages& words =
      is_of_sender(message) ? (message.is_put ? theirs.message_arrived : theirs.message_ready)
                            : (message.is_put ? theirs.message_admitted : theirs.message_done);
  return word(words, message, rank_, channel);
}

Status MessageEngine::run(const Group& group) {
  std::uint64_t* const running = &words_of(rank_).running;
  std::vector<WordStep> steps;
  steps.push_back(
      {WordStep::Kind::kStore, running, kRunning | peers_of(group.messages) << kPeersAt});
  for_each_moved_elsewhere(group.messages, [&](const Message& message, int channel) {
    steps.push_back(fill(peers_word(message, channel)));
  });
  MessageSlots slots({driver_, slot_sides_, words_, rank_, slots_}, group.messages);
  const std::vector<Row> rows = rows_of(group);
  // The user's stream takes one row, unless kernels have it.
  const bool has_room = !group.launch && !rows.empty();
  const std::span aside = std::span(rows).first(rows.size() - (has_room ? 1 : 0));
  const bool forks = !aside.empty() || !slots.empty();
  if (forks) {
    SENNIT_RETURN_IF_ERROR(go(steps, group.stream));
    SENNIT_RETURN_IF_ERROR(sides_.fork(group.stream));
    SENNIT_RETURN_IF_ERROR(slots.empty() ? Status() : slot_sides_.fork(group.stream));
  }
  const Status moved = [&]() -> Status {
    // Kernels first: what comes behind a wait in a device's only queue waits as well, but what
    // comes behind a kernel that runs does not.
    if (group.launch) {
      SENNIT_RETURN_IF_ERROR(go(steps, group.stream));
      SENNIT_RETURN_IF_ERROR(group.launch());
      SENNIT_RETURN_IF_ERROR(end_watches(group.messages, group.stream));
    }
    // Then what goes through slots: it takes longest to begin, and waits for nothing else.
    SENNIT_RETURN_IF_ERROR(slots.move());
    SENNIT_RETURN_IF_ERROR(move_aside(aside));
    return has_room ? move(rows.back(), group.stream, steps) : Status();
  }();
  if (forks) {
    SENNIT_RETURN_IF_ERROR(moved.ok() ? go(steps, group.stream) : Status());
    // Also after a failure: the user's stream does not end before what was begun beside it.
    SENNIT_RETURN_IF_ERROR(sides_.join(group.stream));
    SENNIT_RETURN_IF_ERROR(slot_sides_.join(group.stream));
  }
  SENNIT_RETURN_IF_ERROR(moved);
  for_each_moved_elsewhere(group.messages, [&](const Message& message, int channel) {
    consume(steps, own_word(message, channel));
  });
  slots.settle(steps);
  steps.push_back({WordStep::Kind::kStore, running, kIdle});
  return go(steps, group.stream);
}

int MessageEngine::side_of(const Message& message) const {
  return 2 * message.peer + (message.is_put ? 1 : 0);
}

std::vector<MessageEngine::Row> MessageEngine::rows_of(const Group& group) const {
  Batch moved;
  for (const Message& message : group.messages) {
    if (is_moved_here(message) && (message.is_met || direct_strand(message) != nullptr)) {
      moved.push_back(&message);
    }
  }
  if (!moved.empty() && is_exchange(group, moved)) {
    return {in_ring_order(std::move(moved))};
  }
  std::vector<Row> rows;
  for (const Message* const message : moved) {
    const int side = side_of(*message);
    auto row = std::ranges::find(rows, side, &Row::stream);
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {.stream = side});
    }
    if (row->batches.empty() || row->batches.back().back()->group != message->group) {
      row->batches.emplace_back();
    }
    row->batches.back().push_back(message);
  }
  return rows;
}

// At any time each rank of a ring is read, or written to, by one other.
MessageEngine::Row MessageEngine::in_ring_order(Batch batch) const {
  const int ranks = static_cast<int>(words_.size());
  std::ranges::stable_sort(
      batch, {}, [&](const Message* message) { return (message->peer - rank_ + ranks) % ranks; });
  const int side = side_of(*batch.front());
  return {.stream = side, .batches = {std::move(batch)}};
}

Status MessageEngine::move_aside(std::span<const Row> rows) {
  for (const Row& row : rows) {
    SENNIT_ASSIGN_OR_RETURN(void* const stream, sides_.use(row.stream));
    std::vector<WordStep> steps;
    SENNIT_RETURN_IF_ERROR(move(row, stream, steps));
    SENNIT_RETURN_IF_ERROR(go(steps, stream));
  }
  return {};
}

Status MessageEngine::move(const Row& row, void* stream, std::vector<WordStep>& steps) const {
  for (const Batch& batch : row.batches) {
    for (const Message* const message : batch) {
      for (const Move& part : moves_of(*message)) {
        consume(steps, own_word(*message, part.channel));
      }
    }
    SENNIT_RETURN_IF_ERROR(go(steps, stream));
    const Message& first = *batch.front();
    Stopwatch* const watch = batch.size() == 1 ? first.watch : nullptr;
    if (watch != nullptr) {
      SENNIT_RETURN_IF_ERROR(watch->begin(stream));
    }
    SENNIT_RETURN_IF_ERROR(copy(batch, stream));
    if (watch != nullptr && direct_strand(first) != nullptr) {
      SENNIT_RETURN_IF_ERROR(watch->end(Stopwatch::kDirect, stream));
    }
    for (const Message* const message : batch) {
      for (const Move& part : moves_of(*message)) {
        steps.push_back(fill(peers_word(*message, part.channel)));
      }
    }
  }
  return {};
}

Status MessageEngine::go(std::vector<WordStep>& steps, void* stream) const {
  SENNIT_RETURN_IF_ERROR(walk(driver_, steps, stream));
  steps.clear();
  return {};
}

// Of what the kernel has carried.
Status MessageEngine::end_watches(std::span<const Message> messages, void* stream) {
  for (const Message& message : messages) {
    if (message.watch != nullptr && message.is_met) {
      SENNIT_RETURN_IF_ERROR(message.watch->end(Stopwatch::kDirect, stream));
    }
  }
  return {};
}

Status MessageEngine::copy(const Batch& batch, void* stream) const {
  for (const Message* const message : batch) {
    for (const Move& part : moves_of(*message)) {
      if (part.to.length > 0) {
        SENNIT_RETURN_IF_ERROR(driver_.copy_async(message->output + part.to.begin,
                                                  message->input + part.from.begin,
                                                  static_cast<std::size_t>(part.to.length),
                                                  stream));
      }
    }
  }
  return {};
}

}  // namespace sennit::stream
