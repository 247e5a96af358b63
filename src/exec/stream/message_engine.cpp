#include "exec/stream/message_engine.hpp"

#include "exec/stream/message_slots.hpp"
#include "exec/stream/word_steps.hpp"

#include <algorithm>
#include <utility>

namespace sennit::stream {
namespace {

std::uint64_t* word(RankWords::Messages& words, int peer, int slot, int channel) {
  return &words[static_cast<std::size_t>(peer)][static_cast<std::size_t>(slot)]
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

bool is_taken_directly(const Message& message) {
  const StrandProgram* const strand = direct_strand(message);
  return strand != nullptr && !std::get<StreamProgram>(strand->program).arrivals.empty();
}

// Rank 0 of a send_recv sends.
bool is_of_sender(const Message& message) { return message.program->rank == 0; }

// In the words of this channel the ends of a message meet that copy engines have no direct strand
// of.
constexpr int kMeetingChannel = 0;

// The messages and channels in whose words this rank says that something is there.
template <typename Function>
void for_each_departure(std::span<const Message> messages, Function function) {
  for (const Message& message : messages) {
    if (message.is_met && is_of_sender(message)) {
      function(message, kMeetingChannel);
    } else if (const StrandProgram* const strand = direct_strand(message)) {
      for (const Departure& departure : std::get<StreamProgram>(strand->program).departures) {
        function(message, departure.channel);
      }
    }
  }
}

// Whether all ranks of a set exchange messages with each other here.
bool is_exchange(const MessageEngine::Group& group, const std::vector<const Message*>& taken) {
  return group.partners != 0 && std::ranges::all_of(taken, [&](const Message* message) {
           return message->group.partners == group.partners;
         });
}

}  // namespace

MessageEngine::MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank)
    : driver_(driver), words_(std::move(words)), rank_(rank), sides_(driver), slot_sides_(driver) {}

Status MessageEngine::open() { return sides_.open(static_cast<int>(words_.size()) - 1); }

Status MessageEngine::use_slots(const host::RingShape& shape) {
  if (slots_ == shape) {
    return {};
  }
  SENNIT_RETURN_IF_ERROR(
      slot_sides_.open(MessageSlots::streams_for(static_cast<int>(words_.size()))));
  slots_ = shape;
  return {};
}

std::uint64_t* MessageEngine::ready(int reader, int sender, int slot, int channel) const {
  return word(words_of(reader).message_ready, sender, slot, channel);
}

std::uint64_t* MessageEngine::done(int sender, int reader, int slot, int channel) const {
  return word(words_of(sender).message_done, reader, slot, channel);
}

Status MessageEngine::run(const Group& group) {
  std::uint64_t* const running = &words_of(rank_).running;
  std::vector<WordStep> steps;
  steps.push_back(
      {WordStep::Kind::kStore, running, kRunning | peers_of(group.messages) << kPeersAt});
  for_each_departure(group.messages, [&](const Message& message, int channel) {
    steps.push_back(fill(ready(message.peer, rank_, message.slot, channel)));
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
    SENNIT_RETURN_IF_ERROR(take_aside(aside));
    return has_room ? take(rows.back(), group.stream, steps) : Status();
  }();
  if (forks) {
    SENNIT_RETURN_IF_ERROR(moved.ok() ? go(steps, group.stream) : Status());
    // Also after a failure: the user's stream does not end before what was begun beside it.
    SENNIT_RETURN_IF_ERROR(sides_.join(group.stream));
    SENNIT_RETURN_IF_ERROR(slot_sides_.join(group.stream));
  }
  SENNIT_RETURN_IF_ERROR(moved);
  for_each_departure(group.messages, [&](const Message& message, int channel) {
    consume(steps, done(rank_, message.peer, message.slot, channel));
  });
  slots.settle(steps);
  steps.push_back({WordStep::Kind::kStore, running, kIdle});
  return go(steps, group.stream);
}

std::vector<MessageEngine::Row> MessageEngine::rows_of(const Group& group) const {
  Batch taken;
  for (const Message& message : group.messages) {
    if (is_taken_directly(message) || (message.is_met && !is_of_sender(message))) {
      taken.push_back(&message);
    }
  }
  if (!taken.empty() && is_exchange(group, taken)) {
    return {in_ring_order(std::move(taken))};
  }
  std::vector<Row> rows;
  for (const Message* const message : taken) {
    auto row = std::ranges::find(rows, message->peer, &Row::sender);
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {.sender = message->peer});
    }
    if (row->batches.empty() || row->batches.back().back()->group != message->group) {
      row->batches.emplace_back();
    }
    row->batches.back().push_back(message);
  }
  return rows;
}

// At any time each rank of a ring is read by one other.
MessageEngine::Row MessageEngine::in_ring_order(Batch batch) const {
  const int ranks = static_cast<int>(words_.size());
  std::ranges::stable_sort(
      batch, {}, [&](const Message* message) { return (message->peer - rank_ + ranks) % ranks; });
  const int sender = batch.front()->peer;
  return {.sender = sender, .batches = {std::move(batch)}};
}

Status MessageEngine::take_aside(std::span<const Row> rows) {
  for (const Row& row : rows) {
    SENNIT_ASSIGN_OR_RETURN(void* const stream,
                            sides_.use(row.sender < rank_ ? row.sender : row.sender - 1));
    std::vector<WordStep> steps;
    SENNIT_RETURN_IF_ERROR(take(row, stream, steps));
    SENNIT_RETURN_IF_ERROR(go(steps, stream));
  }
  return {};
}

template <typename Function>
void MessageEngine::for_each_arrival(const Batch& batch, Function function) const {
  for (const Message* const message : batch) {
    if (message->is_met) {
      function(*message, kMeetingChannel);
    }
  }
  for_each_direct_arrival(
      batch, [&](const Message& message, const StrandProgram&, const Arrival& arrival) {
        function(message, arrival.channel);
      });
}

template <typename Function>
void MessageEngine::for_each_direct_arrival(const Batch& batch, Function function) const {
  for (const Message* const message : batch) {
    if (const StrandProgram* const strand = direct_strand(*message)) {
      for (const Arrival& arrival : std::get<StreamProgram>(strand->program).arrivals) {
        function(*message, *strand, arrival);
      }
    }
  }
}

Status MessageEngine::take(const Row& row, void* stream, std::vector<WordStep>& steps) const {
  for (const Batch& batch : row.batches) {
    for_each_arrival(batch, [&](const Message& message, int channel) {
      consume(steps, ready(rank_, message.peer, message.slot, channel));
    });
    SENNIT_RETURN_IF_ERROR(go(steps, stream));
    const Message& first = *batch.front();
    Stopwatch* const watch = batch.size() == 1 ? first.watch : nullptr;
    if (watch != nullptr) {
      SENNIT_RETURN_IF_ERROR(watch->begin(stream));
    }
    SENNIT_RETURN_IF_ERROR(copy(batch, stream));
    if (watch != nullptr && is_taken_directly(first)) {
      SENNIT_RETURN_IF_ERROR(watch->end(Stopwatch::kDirect, stream));
    }
    for_each_arrival(batch, [&](const Message& message, int channel) {
      steps.push_back(fill(done(message.peer, rank_, message.slot, channel)));
    });
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
  Status status;
  for_each_direct_arrival(
      batch, [&](const Message& message, const StrandProgram& strand, const Arrival& arrival) {
        const ByteRange from = message.range_of(strand, arrival.from);
        const ByteRange to = message.range_of(strand, arrival.to);
        if (status.ok() && to.length > 0) {
          status = driver_.copy_async(message.output + to.begin,
                                      message.input + from.begin,
                                      static_cast<std::size_t>(to.length),
                                      stream);
        }
      });
  return status;
}

}  // namespace sennit::stream
