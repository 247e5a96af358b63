#include "exec/stream/message_engine.hpp"

#include "exec/stream/message_slots.hpp"
#include "exec/stream/word_steps.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
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

// The ends of what is put meet by a message of their own, a fetch of nothing.
std::vector<Message> with_meetings(std::span<const Message> messages) {
  static const std::array<PlanProgram, 2> kNothing{PlanProgram{.rank = 0}, PlanProgram{.rank = 1}};
  std::vector<Message> all;
  all.reserve(2 * messages.size());
  for (const Message& message : messages) {
    all.push_back(message);
    if (message.is_put && message.is_met) {
      all.back().is_met = false;
      all.push_back(message);
      all.back().is_put = false;
      all.back().program = &kNothing[is_of_sender(message) ? 0 : 1];
    }
  }
  return all;
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

// Whether all ranks of a set exchange messages with each other here, each of them in one group, and
// these groups with each other: then none of them can end before all have begun.
bool is_exchange(std::uint32_t partners, const std::vector<const Message*>& moved) {
  const auto suit = [](const Message* one, const Message* other) {
    return one->peer == other->peer
               ? one->group.number == other->group.number
               : have_met(one->group, one->peer, other->group, other->peer) &&
                     have_met(other->group, other->peer, one->group, one->peer);
  };
  return partners != 0 && std::ranges::all_of(moved, [&](const Message* message) {
           return message->group.partners == partners &&
                  std::ranges::all_of(moved,
                                      [&](const Message* other) { return suit(message, other); });
         });
}

}  // namespace

MessageEngine::MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank)
    : driver_(driver), words_(std::move(words)), rank_(rank), sides_(driver), slot_sides_(driver) {}

Status MessageEngine::open() { return sides_.open(2 * (static_cast<int>(words_.size()) - 1)); }

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
  const std::vector<Message> messages = with_meetings(group.messages);
  std::vector<WordStep> steps;
  steps.push_back({WordStep::Kind::kStore,
                   &words_of(rank_).running,
                   running_word(peers_of(messages), group.deadline_ms)});
  for_each_moved_elsewhere(messages, [&](const Message& message, int channel) {
    steps.push_back(fill(peers_word(message, channel)));
  });
  std::vector<Batch> batches = batches_of(messages, group.partners);
  if (!group.launch) {
    lead_back(batches);
  }
  const int others = 1 + sides_of(batches);  // streams, with the user's
  MessageSlots slots({driver_, slot_sides_, words_, rank_, slots_, kDefaultQueues - others},
                     messages);
  const bool forks = !slots.empty() || others > 1;
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
      SENNIT_RETURN_IF_ERROR(end_watches_of_kernels(messages, group.stream));
    }
    SENNIT_RETURN_IF_ERROR(move_in_turns(batches, slots, group.stream, steps));
    return end_watches_of_puts(messages, batches, group.stream, steps);
  }();
  if (forks) {
    SENNIT_RETURN_IF_ERROR(moved.ok() ? go(steps, group.stream) : Status());
    // Also after a failure: the user's stream does not end before what was begun beside it.
    SENNIT_RETURN_IF_ERROR(sides_.join(group.stream));
    SENNIT_RETURN_IF_ERROR(slot_sides_.join(group.stream));
  }
  SENNIT_RETURN_IF_ERROR(moved);
  for_each_moved_elsewhere(messages, [&](const Message& message, int channel) {
    consume(steps, own_word(message, channel));
  });
  slots.settle(steps);
  end_call(steps, words_of(rank_), group.number);
  return go(steps, group.stream);
}

std::vector<MessageEngine::Batch> MessageEngine::batches_of(const std::vector<Message>& messages,
                                                            std::uint32_t partners) const {
  std::vector<const Message*> moved;
  for (const Message& message : messages) {
    if (is_moved_here(message) && (message.is_met || direct_strand(message) != nullptr)) {
      moved.push_back(&message);
    }
  }
  return is_exchange(partners, moved) ? all_at_once(std::move(moved))
                                      : one_by_one(std::move(moved));
}

// At any time each rank of a ring is read, or written to, by one other.
std::vector<MessageEngine::Batch> MessageEngine::all_at_once(
    std::vector<const Message*> moved) const {
  const int ranks = static_cast<int>(words_.size());
  std::ranges::stable_sort(moved, {}, [&](const Message* message) {
    return std::tuple(message->is_put, (message->peer - rank_ + ranks) % ranks);
  });
  const auto puts = std::ranges::find(moved, true, &Message::is_put);
  std::vector<Batch> batches;
  for (const auto& [begin, end] : {std::pair(moved.begin(), puts), std::pair(puts, moved.end())}) {
    if (begin != end) {
      batches.push_back({.side = static_cast<int>(batches.size()), .messages = {begin, end}});
    }
  }
  return batches;
}

// Where a device has one queue for all streams, what waits holds up what is behind it: the second
// groups of the others, which begin when their first have ended, come behind all first ones. Also
// where this rank moves nothing of a first one.
std::vector<MessageEngine::Batch> MessageEngine::one_by_one(std::vector<const Message*> moved) {
  std::ranges::stable_sort(moved, {}, [](const Message* message) {
    return std::tuple(message->peer, message->group.number, message->is_put);
  });
  std::vector<Batch> batches;
  int sides = 0;  // by their place in the group, so that few never share a queue
  for (const Message* const message : moved) {
    const Message* const before = batches.empty() ? nullptr : batches.back().messages.back();
    const bool has_peer = before != nullptr && before->peer == message->peer;
    const bool has_group = has_peer && before->group.number == message->group.number;
    if (!has_group || before->is_put != message->is_put) {
      const auto shares_stream = [&](const Batch& batch) {
        const Message& other = *batch.messages.front();
        return other.peer == message->peer && other.is_put == message->is_put;
      };
      const auto sharing = std::ranges::find_if(batches, shares_stream);
      batches.push_back({.side = sharing != batches.end() ? sharing->side : sides++,
                         .turn = has_group  ? batches.back().turn
                                 : has_peer ? std::max(batches.back().turn + 1, message->before)
                                            : message->before});
    }
    batches.back().messages.push_back(message);
  }
  std::ranges::stable_sort(batches, {}, &Batch::turn);
  return batches;
}

// Batches of one side need no stream of ours. Of several none goes into the user's: it may share a
// queue with the stream of another.
void MessageEngine::lead_back(std::vector<Batch>& batches) {
  if (std::ranges::all_of(batches, [](const Batch& batch) { return batch.side == 0; })) {
    std::ranges::for_each(batches, [](Batch& batch) { batch.side = kUsersStream; });
  }
}

int MessageEngine::sides_of(const std::vector<Batch>& batches) {
  int sides = 0;
  for (const Batch& batch : batches) {
    sides = std::max(sides, batch.side == kUsersStream ? 0 : batch.side + 1);
  }
  return sides;
}

// What goes straight comes first: it is a few calls of the driver, where each part through slots
// takes some, and many parts more time than they take to begin.
Status MessageEngine::move_in_turns(const std::vector<Batch>& batches,
                                    MessageSlots& slots,
                                    void* users,
                                    std::vector<WordStep>& steps) {
  std::set<int> turns = slots.turns();
  for (const Batch& batch : batches) {
    turns.insert(batch.turn);
  }
  for (const int turn : turns) {
    const auto due = std::ranges::equal_range(batches, turn, {}, &Batch::turn);
    SENNIT_RETURN_IF_ERROR(move({due.begin(), due.end()}, users, steps));
    if (!slots.empty()) {
      SENNIT_RETURN_IF_ERROR(go(steps, users));
      SENNIT_RETURN_IF_ERROR(slots.move(turn));
    }
  }
  return {};
}

Status MessageEngine::move(std::span<const Batch> batches,
                           void* users,
                           std::vector<WordStep>& steps) {
  void* last = users;
  for (const Batch& batch : batches) {
    SENNIT_ASSIGN_OR_RETURN(void* const stream, stream_of(batch, users));
    if (stream != last) {
      SENNIT_RETURN_IF_ERROR(go(steps, last));
      last = stream;
    }
    SENNIT_RETURN_IF_ERROR(move(batch, stream, steps));
  }
  return last == users ? Status() : go(steps, last);
}

Status MessageEngine::move(const Batch& batch, void* stream, std::vector<WordStep>& steps) const {
  for (const Message* const message : batch.messages) {
    for (const Move& part : moves_of(*message)) {
      consume(steps, own_word(*message, part.channel));
    }
  }
  SENNIT_RETURN_IF_ERROR(go(steps, stream));
  const Message& first = *batch.messages.front();
  Stopwatch* const watch = batch.messages.size() == 1 ? first.watch : nullptr;
  if (watch != nullptr) {
    SENNIT_RETURN_IF_ERROR(watch->begin(stream));
  }
  SENNIT_RETURN_IF_ERROR(copy(batch, stream));
  if (watch != nullptr && direct_strand(first) != nullptr) {
    SENNIT_RETURN_IF_ERROR(watch->end(Stopwatch::kDirect, stream));
  }
  for (const Message* const message : batch.messages) {
    for (const Move& part : moves_of(*message)) {
      steps.push_back(fill(peers_word(*message, part.channel)));
    }
  }
  return {};
}

Status MessageEngine::go(std::vector<WordStep>& steps, void* stream) const {
  SENNIT_RETURN_IF_ERROR(walk(driver_, steps, stream));
  steps.clear();
  return {};
}

Result<void*> MessageEngine::stream_of(const Batch& batch, void* users) {
  return batch.side == kUsersStream ? users : sides_.use(batch.side);
}

Status MessageEngine::end_watches_of_kernels(const std::vector<Message>& messages, void* stream) {
  for (const Message& message : messages) {
    if (message.watch != nullptr && message.program->of_kernels) {
      SENNIT_RETURN_IF_ERROR(message.watch->end(Stopwatch::kDirect, stream));
    }
  }
  return {};
}

// Behind all that this rank moves: where a device has one queue, these waits hold up nothing of it.
// The words stay full for the user's stream, which waits for them as well.
Status MessageEngine::end_watches_of_puts(const std::vector<Message>& messages,
                                          const std::vector<Batch>& batches,
                                          void* users,
                                          std::vector<WordStep>& steps) {
  for (const Message& message : messages) {
    if (!message.is_put || message.watch == nullptr) {
      continue;
    }
    const auto met = std::ranges::find_if(batches, [&](const Batch& batch) {
      return batch.messages.size() == 1 && batch.messages.front()->watch == message.watch;
    });
    if (met == batches.end()) {
      continue;  // with others, so it has no time of its own
    }
    SENNIT_ASSIGN_OR_RETURN(void* const stream, stream_of(*met, users));
    std::vector<WordStep> arrival;
    std::vector<WordStep>& before = stream == users ? steps : arrival;
    for (const Move& part : moves_of(message)) {
      before.push_back({WordStep::Kind::kAwait, own_word(message, part.channel), kFull});
    }
    SENNIT_RETURN_IF_ERROR(go(before, stream));
    SENNIT_RETURN_IF_ERROR(message.watch->end(Stopwatch::kDirect, stream));
  }
  return {};
}

Status MessageEngine::copy(const Batch& batch, void* stream) const {
  for (const Message* const message : batch.messages) {
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
