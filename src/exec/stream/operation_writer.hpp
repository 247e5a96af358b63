// OperationWriter: appends to a list what an emitter says, and keeps the streams next to the user's
// in order: such a stream begins behind the fork when it is first used, and join() leads it back.
//
//   OperationWriter writer(list);
//   writer.fork();
//   writer.consume(2, ready_flag(0, 1, 0, 0));
//   writer.put(2, CopyBytes{...});
//   writer.order(2, 3);
//   writer.put(3, StoreFlag{...});
//   writer.join();
#pragma once

#include "exec/stream/operation_list.hpp"

#include <array>
#include <cstddef>

namespace sennit::stream {

class OperationWriter {
 public:
  // With the user's; two for each other rank of messages, and those of the lanes through the host.
  static constexpr int kMostStreams = 1 + 4 * kMaxRanks;
  // Events have numbers: that of the fork, one of each stream next to the user's, and from
  // kFirstOwnEvent on those that an emitter records and awaits itself.
  static constexpr int kForkEvent = 0;
  static constexpr int event_of(int stream) { return stream; }
  static constexpr int kFirstOwnEvent = kMostStreams;

  explicit OperationWriter(OperationList& list) : list_(list) {}

  void put(int stream, const Operation::What& what) {
    begin(stream);
    list_.operations.push_back({stream, what});
  }
  // Waits until the flag is full, and frees it.
  void consume(int stream, const Flag& flag) {
    put(stream, AwaitFlag{flag, kFull});
    put(stream, StoreFlag{flag, kFree});
  }
  void fill(int stream, const Flag& flag) { put(stream, StoreFlag{flag, kFull}); }

  // What the stream `after` gets from now on comes behind all that `before` holds. Neither is the
  // user's.
  void order(int before, int after);

  // What the user's stream holds now comes before what other streams get until the join.
  void fork();
  // What the user's stream gets from now on comes behind what other streams have got.
  void join();

  [[nodiscard]] OperationList& list() { return list_; }

 private:
  void begin(int stream);

  OperationList& list_;
  std::size_t fork_ = 0;  // its place in the list
  std::array<bool, kMostStreams> is_used_{};
  int most_used_ = kUsersStream;
};

}  // namespace sennit::stream
