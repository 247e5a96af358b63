// MessageSlots: the strands through host memory of the messages of one group, on their way into the
// streams.
//
// What one rank sends to another goes through a ring of these two alone, part by part and message
// by message: the sender's copy engine fills a slot, the receiver's empties it. All slots are empty
// when a group ends, so a graph may replay it.
//
// Nothing comes to a stand. A lane is what one rank sends to another; each end has streams for it.
// Part n of a lane is put when part n - S has been taken (a ring has S >= 2 slots), and taken when
// it has been put: so a lane comes through once the groups of both ends have begun, whatever
// becomes of other lanes, and messages wait for each other only as their groups do. All waits of an
// end of a lane are in one stream, so that none takes the word of a later part.
//
// Where a device has one queue for all streams, or two of them share one, what waits holds up what
// is behind it. Then it is the order that keeps things going, in groups that match those of the
// peers: in round n a rank puts part n of all its lanes, and then takes part n of all others, and
// tells of it. So a put of round n waits for what was put in before round n, a take for puts of its
// own round, and of all that has not run on any rank, what comes first in this order can run.
// Between two ranks that cut their messages into groups differently, messages that the peer has in
// a later group come behind all others (`turn`, as of MessageEngine's batches).
#pragma once

#include "exec/stream/copy_line.hpp"
#include "exec/stream/message.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <vector>

namespace sennit::stream {

class MessageSlots {
 public:
  // Of an end of a lane, where so many have so many streams. No more than that, if each has one: a
  // wait in a queue that streams share holds up other lanes.
  static constexpr int streams_per_lane(int lanes, int streams) {
    return std::clamp(streams / std::max(lanes, 1), 1, CopyLine::kMostStreams);
  }
  struct Context {
    CudaDriver& driver;
    SideStreams& sides;  // streams_for(ranks) of them
    std::span<RankWords* const> words;
    int rank = 0;
    host::RingShape shape;
    int streams = kDefaultQueues;  // for all lanes, if these are not more; up to kDefaultQueues
  };
  static int streams_for(int ranks) { return std::max(2 * (ranks - 1), kDefaultQueues); }

  MessageSlots(const Context& context, std::span<const Message> messages);

  [[nodiscard]] bool empty() const { return puts_.empty() && takes_.empty(); }
  [[nodiscard]] std::set<int> turns() const;
  // Between fork and join of the streams: the messages of this turn, those of earlier ones first.
  Status move(int turn);
  // What the user's stream has to do after all that was moved.
  void settle(std::vector<WordStep>& steps) const;

 private:
  // One copy, into a slot or out of it.
  struct Part {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    std::size_t slot = 0;
    int turn = 0;  // of its message: Message::before
  };
  struct Lane {
    int peer = 0;
    int first_stream = 0;
    std::vector<Part> parts{};
    std::size_t moved = 0;       // of these
    Stopwatch* watch = nullptr;  // of the last message
  };

  // The strand's parts, from slot `next` on, which then is that behind them.
  void add(const Message& message, const StrandProgram& strand, int& next);
  static Lane& lane_of(std::vector<Lane>& lanes, int peer);
  [[nodiscard]] CopyLine line_of(const Lane& lane) const {
    return {context_.driver, context_.sides, lane.first_stream, streams_};
  }
  // The next part of each of the lanes that is of this turn or earlier; whether there was one.
  using Mover = Status (MessageSlots::*)(const Lane& lane, std::size_t n);
  Result<bool> move_next(std::vector<Lane>& lanes, int turn, Mover mover);
  Status put(const Lane& lane, std::size_t n);
  Status take(const Lane& lane, std::size_t n);
  [[nodiscard]] RankWords& words_of(int rank) const;
  // Waits until the peer has taken what is in the slot.
  void await_reader(std::vector<WordStep>& steps, const Lane& lane, std::size_t n) const;
  [[nodiscard]] WordStep tell_taken(const Lane& lane, std::size_t n) const;

  Context context_;
  std::vector<Lane> puts_;
  std::vector<Lane> takes_;
  int streams_ = 1;  // of an end of a lane
};

}  // namespace sennit::stream
