#include "exec/stream/message_operations.hpp"

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/call_operations.hpp"
#include "exec/stream/operation_writer.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <variant>
#include <vector>

namespace sennit::stream {
namespace {

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

// What goes straight from memory to memory, or a handshake of both ends in the flags of a fetch, of
// nothing.
struct Part {
  const Message* message = nullptr;
  int index = 0;
  bool is_put = false;
  bool is_meeting = false;

  [[nodiscard]] bool is_moved_here() const { return is_put == is_of_sender(*message); }
};

struct Move {
  int channel = 0;
  ByteRange from{};
  ByteRange to{};
};

// Messages that are waited for at once.
struct Batch {
  int side = 0;  // which of the streams next to the user's, or kUsersStream
  // The more groups of that rank come before here, the later: that many or more, as messages before
  // it are counted.
  int turn = 0;
  std::vector<const Part*> parts{};
};

// Whether all ranks of a set exchange messages with each other here, each of them in one group, and
// these groups with each other: then none of them can end before all have begun.
bool is_exchange(std::uint32_t partners, const std::vector<const Part*>& moved) {
  const auto suit = [](const Message& one, const Message& other) {
    return one.peer == other.peer ? one.group.number == other.group.number
                                  : have_met(one.group, one.peer, other.group, other.peer) &&
                                        have_met(other.group, other.peer, one.group, one.peer);
  };
  return partners != 0 && std::ranges::all_of(moved, [&](const Part* part) {
           return part->message->group.partners == partners &&
                  std::ranges::all_of(moved, [&](const Part* other) {
                    return suit(*part->message, *other->message);
                  });
         });
}

// Where a device has one queue for all streams, what waits holds up what is behind it: the second
// groups of the others, which begin when their first have ended, come behind all first ones. Also
// where this rank moves nothing of a first one.
std::vector<Batch> one_by_one(std::vector<const Part*> moved) {
  std::ranges::stable_sort(moved, {}, [](const Part* part) {
    return std::tuple(part->message->peer, part->message->group.number, part->is_put);
  });
  std::vector<Batch> batches;
  int sides = kUsersStream + 1;  // by their place in the group, so that few never share a queue
  for (const Part* const part : moved) {
    const Message& message = *part->message;
    const Part* const before = batches.empty() ? nullptr : batches.back().parts.back();
    const bool has_peer = before != nullptr && before->message->peer == message.peer;
    const bool has_group = has_peer && before->message->group.number == message.group.number;
    if (!has_group || before->is_put != part->is_put) {
      const auto sharing = std::ranges::find_if(batches, [&](const Batch& batch) {
        const Part& other = *batch.parts.front();
        return other.message->peer == message.peer && other.is_put == part->is_put;
      });
      batches.push_back({.side = sharing != batches.end() ? sharing->side : sides++,
                         .turn = has_group  ? batches.back().turn
                                 : has_peer ? std::max(batches.back().turn + 1, message.before)
                                            : message.before});
    }
    batches.back().parts.push_back(part);
  }
  std::ranges::stable_sort(batches, {}, &Batch::turn);
  return batches;
}

// Batches of one side need no stream of ours. Of several none goes into the user's: it may share a
// queue with the stream of another.
void lead_back(std::vector<Batch>& batches) {
  if (std::ranges::all_of(batches, [](const Batch& b) { return b.side == kUsersStream + 1; })) {
    std::ranges::for_each(batches, [](Batch& batch) { batch.side = kUsersStream; });
  }
}

// How many streams they take, with the user's.
int streams_of(const std::vector<Batch>& batches) {
  int last = kUsersStream;
  for (const Batch& batch : batches) {
    last = std::max(last, batch.side);
  }
  return 1 + last;
}

class GroupOperations {
 public:
  GroupOperations(const MessageGroup& group, OperationList& list) : group_(group), writer_(list) {
    collect_parts();
  }

  void append() {
    writer_.put(kUsersStream,
                StoreFlag{running_flag(group_.rank), running_word(peers(), group_.deadline_ms)});
    for_each_moved_elsewhere([&](const Part& part, int channel) {
      writer_.fill(kUsersStream, peers_flag(part, channel));
    });
    std::vector<Batch> batches = make_batches();
    if (!group_.has_kernels) {
      lead_back(batches);
    }
    LaneOperations lanes(writer_,
                         {.rank = group_.rank,
                          .ring = group_.ring,
                          .first_stream = message_streams(group_.ranks),
                          .streams = kDefaultQueues - streams_of(batches),
                          .is_captured = group_.is_captured},
                         group_.messages);
    writer_.fork();
    // Kernels first: what comes behind a wait in a device's only queue waits as well, but what
    // comes behind a kernel that runs does not.
    if (group_.has_kernels) {
      writer_.put(kUsersStream, LaunchKernels{});
      end_watches_of_kernels();
    }
    move_in_turns(batches, lanes);
    end_watches_of_puts(batches);
    writer_.join();
    for_each_moved_elsewhere([&](const Part& part, int channel) {
      writer_.consume(kUsersStream, own_flag(part, channel));
    });
    lanes.settle();
    end_call(writer_, group_.rank, group_.number);
  }

 private:
  // The ends of what is put meet by a message of their own, a fetch of nothing.
  void collect_parts() {
    parts_.reserve(2 * group_.messages.size());
    for (std::size_t i = 0; i < group_.messages.size(); ++i) {
      const Message& message = group_.messages[i];
      const int index = static_cast<int>(i);
      const bool is_direct = direct_strand(message) != nullptr;
      if (is_direct) {
        parts_.push_back({.message = &message, .index = index, .is_put = message.is_put});
      }
      if (message.is_met && (message.is_put || !is_direct)) {
        parts_.push_back({.message = &message, .index = index, .is_meeting = true});
      }
    }
  }

  // As bits.
  [[nodiscard]] std::uint64_t peers() const {
    std::uint64_t peers = 0;
    for (const Message& message : group_.messages) {
      peers |= std::uint64_t{1} << message.peer;
    }
    return peers;
  }

  // By channel: the flag in which this rank waits for the other end, and back.
  [[nodiscard]] Flag own_flag(const Part& part, int channel) const {
    const Message& m = *part.message;
    const auto flag = is_of_sender(m) ? (part.is_put ? message_admitted_flag : message_done_flag)
                                      : (part.is_put ? message_arrived_flag : message_ready_flag);
    return flag(group_.rank, m.peer, m.slot, channel);
  }
  [[nodiscard]] Flag peers_flag(const Part& part, int channel) const {
    const Message& m = *part.message;
    const auto flag = is_of_sender(m) ? (part.is_put ? message_arrived_flag : message_ready_flag)
                                      : (part.is_put ? message_admitted_flag : message_done_flag);
    return flag(m.peer, group_.rank, m.slot, channel);
  }

  template <typename Function>
  static void for_each_move(const Part& part, Function function) {
    if (part.is_meeting) {
      function(Move{});
      return;
    }
    const Message& message = *part.message;
    const StrandProgram& strand = *direct_strand(message);
    const auto& program = std::get<StreamProgram>(strand.program);
    for (const Departure& way : program.departures) {
      function(
          Move{way.channel, message.range_of(strand, way.from), message.range_of(strand, *way.to)});
    }
    for (const Arrival& way : program.arrivals) {
      function(
          Move{way.channel, message.range_of(strand, way.from), message.range_of(strand, way.to)});
    }
  }

  // The parts and channels of this rank that the other end moves.
  template <typename Function>
  void for_each_moved_elsewhere(Function function) const {
    for (const Part& part : parts_) {
      if (!part.is_moved_here()) {
        for_each_move(part, [&](const Move& move) { function(part, move.channel); });
      }
    }
  }

  // In the order in which they are issued.
  [[nodiscard]] std::vector<Batch> make_batches() const {
    std::vector<const Part*> moved;
    for (const Part& part : parts_) {
      if (part.is_moved_here()) {
        moved.push_back(&part);
      }
    }
    return is_exchange(group_.partners, moved) ? all_at_once(std::move(moved))
                                               : one_by_one(std::move(moved));
  }

  // At any time each rank of a ring is read, or written to, by one other. They come behind what
  // earlier groups of these ranks need through slots, as the last of them does.
  [[nodiscard]] std::vector<Batch> all_at_once(std::vector<const Part*> moved) const {
    std::ranges::stable_sort(moved, {}, [&](const Part* part) {
      return std::tuple(part->is_put,
                        (part->message->peer - group_.rank + group_.ranks) % group_.ranks);
    });
    const auto puts = std::ranges::find(moved, true, &Part::is_put);
    std::vector<Batch> batches;
    for (const auto& [begin, end] :
         {std::pair(moved.begin(), puts), std::pair(puts, moved.end())}) {
      if (begin != end) {
        const auto last = std::max_element(begin, end, [](const Part* one, const Part* other) {
          return one->message->before < other->message->before;
        });
        batches.push_back({.side = kUsersStream + 1 + static_cast<int>(batches.size()),
                           .turn = (*last)->message->before,
                           .parts = {begin, end}});
      }
    }
    std::ranges::stable_sort(batches, {}, &Batch::turn);
    return batches;
  }

  // What goes straight comes first: it is a few calls of the driver, where each part through slots
  // takes some, and many parts more time than they take to begin.
  void move_in_turns(const std::vector<Batch>& batches, LaneOperations& lanes) {
    std::set<int> turns;
    lanes.add_turns(turns);
    for (const Batch& batch : batches) {
      turns.insert(batch.turn);
    }
    for (const int turn : turns) {
      for (const Batch& batch : batches) {
        if (batch.turn == turn) {
          move(batch);
        }
      }
      lanes.move(turn);
    }
  }

  void move(const Batch& batch) {
    for (const Part* const part : batch.parts) {
      for_each_move(*part, [&](const Move& move) {
        writer_.consume(batch.side, own_flag(*part, move.channel));
      });
    }
    const Part& first = *batch.parts.front();
    const bool is_timed = batch.parts.size() == 1 && first.message->watch != nullptr;
    if (is_timed) {
      writer_.put(batch.side, ReadTime{first.index, ReadTime::What::kBegin});
    }
    for (const Part* const part : batch.parts) {
      copy(*part, batch.side);
    }
    if (is_timed && !first.is_meeting) {
      writer_.put(batch.side, ReadTime{first.index, ReadTime::What::kDirectEnd});
    }
    for (const Part* const part : batch.parts) {
      for_each_move(*part, [&](const Move& move) {
        writer_.fill(batch.side, peers_flag(*part, move.channel));
      });
    }
  }

  void copy(const Part& part, int stream) {
    for_each_move(part, [&](const Move& move) {
      if (move.to.length > 0) {
        writer_.put(
            stream,
            CopyBytes{
                .to = {.memory = Memory::kOutput, .index = part.index, .at = move.to.begin},
                .from = {.memory = Memory::kInput, .index = part.index, .at = move.from.begin},
                .bytes = move.to.length});
      }
    });
  }

  void end_watches_of_kernels() {
    for (std::size_t i = 0; i < group_.messages.size(); ++i) {
      if (group_.messages[i].watch != nullptr && group_.messages[i].program->of_kernels) {
        writer_.put(kUsersStream, ReadTime{static_cast<int>(i), ReadTime::What::kDirectEnd});
      }
    }
  }

  // Each in the stream in which its ends have met, behind all that this rank moves: where a device
  // has one queue, these waits hold up nothing of it. The flags stay full for the user's stream,
  // which waits for them as well.
  void end_watches_of_puts(const std::vector<Batch>& batches) {
    for (std::size_t i = 0; i < group_.messages.size(); ++i) {
      const Message& message = group_.messages[i];
      if (!message.is_put || message.watch == nullptr) {
        continue;
      }
      const auto met = std::ranges::find_if(batches, [&](const Batch& batch) {
        return batch.parts.size() == 1 && batch.parts.front()->message->watch == message.watch;
      });
      if (met == batches.end()) {
        continue;  // with others, so it has no time of its own
      }
      const int index = static_cast<int>(i);
      if (direct_strand(message) != nullptr) {
        const Part part{.message = &message, .index = index, .is_put = true};
        for_each_move(part, [&](const Move& move) {
          writer_.put(met->side, AwaitFlag{own_flag(part, move.channel)});
        });
      }
      writer_.put(met->side, ReadTime{index, ReadTime::What::kDirectEnd});
    }
  }

  const MessageGroup& group_;
  OperationWriter writer_;
  std::vector<Part> parts_;
};

}  // namespace

void append_group(const MessageGroup& group, OperationList& list) {
  GroupOperations(group, list).append();
}

}  // namespace sennit::stream
