// LaneOperations: what one rank's streams do for the strands through host memory of the messages of
// a group.
//
// What one rank sends to another goes through a ring of these two alone, part by part and message
// by message: the sender's copy engine fills a slot, the receiver's empties it. All slots are empty
// when a group ends, so a graph may replay it.
//
// A lane is what one rank sends to another; each end has streams for it. Part n of a lane is put
// when part n - S has been taken (a ring has S >= 2 slots), and taken when it has been put. So with
// a queue for each stream a lane ends once the groups of both ends have begun, whatever becomes of
// other lanes, and messages wait for each other only as their groups do. All waits of an end of a
// lane are in one stream, so that none takes the flag of a later part.
//
// Where streams share queues, it is the order that keeps things going, in groups that match those
// of the peers: in round n a rank puts part n of all its lanes, and then takes part n of all
// others. So a put of round n waits for what was issued before round n, and a take for puts of its
// own round. A graph forgets that order: there all puts are one line of copies and all takes
// another, and events keep what is needed of it (round_order.hpp). Between two ranks that cut their
// messages into groups differently, messages that the peer has in a later group come behind all
// others (`turn`). message_queues_test.cpp proves both.
#pragma once

#include "exec/stream/message.hpp"
#include "exec/stream/operation_line.hpp"
#include "exec/stream/round_order.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace sennit::stream {

class LaneOperations {
 public:
  // Of an end of a lane, where so many have so many streams. No more than that, if each has one: a
  // wait in a queue that streams share holds up other lanes.
  static int streams_per_lane(int lanes, int streams);
  // Streams for all lanes of a group.
  static int streams_for(int ranks);
  // RoundOrder::kEvents of them.
  static constexpr int kFirstEvent = OperationWriter::kFirstOwnEvent;

  struct Setting {
    int rank = 0;
    host::RingShape ring{};
    int first_stream = 0;  // of streams_for(ranks)
    int streams = 0;       // for all lanes, if these are not more; up to kDefaultQueues
    bool is_captured = false;
  };
  // The messages are known by their index.
  LaneOperations(OperationWriter& writer,
                 const Setting& setting,
                 std::span<const Message> messages);

  void add_turns(std::set<int>& turns) const;
  // Between fork and join: the messages of this turn, those of earlier ones first.
  void move(int turn);
  // Behind all that was moved, on the user's stream.
  void settle();

 private:
  // One copy, into a slot or out of it.
  struct Part {
    Place from{};
    Place to{};
    std::int64_t bytes = 0;
    int slot = 0;
    int turn = 0;  // of its message: Message::before
  };
  struct Lane {
    int peer = 0;
    int first_stream = 0;
    std::vector<Part> parts{};
    std::size_t moved = 0;  // of these
    int timed = -1;         // the last message, if it has a watch
  };

  // The strand's parts, from slot `next` on, which then is that behind them.
  void add(const Message& message, int index, const StrandProgram& strand, int& next);
  static Lane& lane_of(std::vector<Lane>& lanes, int peer);
  [[nodiscard]] OperationLine line_of(const Lane& lane) const {
    return {writer_, lane.first_stream, streams_};
  }
  // Gives each lane its streams.
  void deal_streams();
  // Whether the next part of a lane, or of one of them, is of this turn or earlier.
  [[nodiscard]] static bool is_due(const Lane& lane, int turn);
  [[nodiscard]] static bool is_any_due(const std::vector<Lane>& lanes, int turn);
  // The next part of each of them that is due.
  using Mover = void (LaneOperations::*)(const Lane& lane, std::size_t n);
  void move_next(std::vector<Lane>& lanes, int turn, Mover mover);
  void put(const Lane& lane, std::size_t n);
  void take(const Lane& lane, std::size_t n);
  // Waits until the peer has taken what is in the slot.
  void await_reader(int stream, const Lane& lane, std::size_t n);

  OperationWriter& writer_;
  Setting setting_;
  std::vector<Lane> puts_;
  std::vector<Lane> takes_;
  int streams_ = 1;                  // of an end of a lane
  std::optional<RoundOrder> order_;  // of lanes there are
  std::int64_t round_ = 0;
};

}  // namespace sennit::stream
