// DirectOperations: what one rank's streams do for a strand whose blocks go from memory to memory,
// or for one round of it.
//
// All that leaves goes on the user's stream: few and large copies in the order of a ring, so that
// each rank is written by one other at a time. On several streams, or in more parts, the ranks fall
// out of step and two write to one while another has none (docs/lab/2026-11-22-copy-engines.md). A
// stream next to it has what stays on this rank: its own blocks, and what it reduces.
#pragma once

#include "exec/stream/operation_writer.hpp"
#include "exec/stream/stream_call.hpp"
#include "exec/stream/stream_program.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace sennit::stream {

class DirectOperations {
 public:
  static constexpr int kOwnStream = kUsersStream + 1;
  // kMaxPieces events each: piece i has been reduced; this rank has contributed piece i.
  static constexpr int kReducedEvent = OperationWriter::kFirstOwnEvent;
  static constexpr int kContributedEvent = kReducedEvent + kMaxPieces;
  static constexpr int kEndOfEvents = kContributedEvent + kMaxPieces;

  // All of these outlive the result.
  DirectOperations(OperationWriter& writer,
                   const StreamProgram& program,
                   const Portion& portion,
                   const StreamCall& call);

  // Before anything is moved, on the user's stream: from here on others may write into the output
  // and the staging memory of this rank,
  void admit();
  // and from here on it into theirs.
  void enter();
  // Between fork and join.
  void move();
  // Behind all that was moved, on the user's stream: signals what is not urgent, and
  // waits for what nobody here has waited for.
  void settle();

 private:
  struct Piece {
    std::int64_t at = 0;
    std::int64_t bytes = 0;
  };
  struct Pieces {
    std::array<Piece, kMaxPieces> pieces{};
    int count = 0;
  };

  [[nodiscard]] Pieces pieces_of(std::int64_t length) const;
  [[nodiscard]] ByteRange range_of(const Block& block) const;
  [[nodiscard]] Place own_place(const Block& block) const;
  // Where the contribution of `sender` lies in the staging memory of `reader`.
  [[nodiscard]] Place staged(int reader, int sender) const;
  // Whether that contribution comes last, since the next rank is served first.
  [[nodiscard]] bool is_last(int sender, int reader) const;

  void await_room(const std::vector<Departure>& departures);
  // Where a graph forgets it: reductions stand behind the contributions that others reduce at the
  // same time.
  void say_contributed(int piece);
  void await_contributed(int piece);
  void signal(const Departure& departure, int piece);
  // At once where the readers wait for nothing else, or at the end of the call.
  void signal_in_time(const Departure& departure);

  // What goes through the host: of this rank into its ring, once for all readers, and of another
  // one out of there.
  void put_in_ring(const Block& block);
  void take_from_ring(int stream, int sender, const Place& to, std::int64_t bytes);
  void await_empty_ring(const Departure& departure);

  // Of a block of this rank, to where it belongs on `departure.reader`.
  void copy(const Departure& departure, const Piece& piece);
  void contribute(const Departure& departure);
  void pull(const Operand& operand);
  void reduce(const Reduction& reduction);
  void reduce(const Reduction& reduction, const Piece& piece);
  void put_sums(const Reduction& reduction);
  void put_whole(const Departure& departure);
  void copy_own(const OwnCopy& copy);
  template <typename Function>
  void for_each_put(Function function) const;

  OperationWriter& writer_;
  const StreamProgram& program_;
  Portion portion_;
  const StreamCall& call_;
  std::int64_t longest_;  // of all blocks
  int contributed_ = 0;   // events that have been recorded
  bool is_in_ring_ = false;
};

}  // namespace sennit::stream
