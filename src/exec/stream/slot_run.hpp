// SlotRun: one strand of a call on its way through slots in host memory into the streams.
//
// A block is cut into parts that fit into a slot. In each part every rank sends its messages 0, 1,
// ... of the program; a round is one of those numbers in one part, on all ranks. The n-th message
// of a rank in a call lies in slot n mod S of its ring. At the end of a call all slots are empty
// and all their words free, so that a graph may replay it.
//
// Order. Each rank goes through the rounds, puts its message first and then takes those that others
// put in this round, and tells of that behind the last copy. So a put of round t waits for what was
// enqueued before round t: the message that was in its slot is S >= 2 of the sender's messages
// older, of round t - 2 or before. A take waits for puts of its own round. So of all that has not
// run on any rank, what comes first in this order can run, even where a device has one queue for
// all streams.
//
// Streams. Puts are one line of copies, and takes another, each of which waits in one stream: two
// that wait for one word at once could take each other's message.
#pragma once

#include "exec/stream/copy_line.hpp"
#include "exec/stream/slot_parts.hpp"
#include "exec/stream/slot_program.hpp"
#include "exec/stream/stream_call.hpp"
#include "path/host/rings.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sennit::stream {

// What an engine has for its strands through slots.
struct SlotContext {
  CudaDriver& driver;
  SideStreams& sides;  // SlotRun::kStreams of them
  std::span<RankWords* const> words;
  const host::Rings& rings;
};

class SlotRun {
 public:
  static constexpr int kStreams = 2 * CopyLine::kMostStreams;

  SlotRun(const SlotContext& context,
          const SlotProgram& program,
          const Portion& portion,
          const StreamCall& call);

  // Between fork and join of the streams.
  Status move();
  // What the user's stream has to do after all that was moved.
  void settle(std::vector<WordStep>& steps) const;

 private:
  using Takes = std::span<const Take>;

  Status put(std::int64_t part, int message);
  Status take(std::int64_t part, Takes takes);
  Status copy_own(const BlockCopy& copy);
  // Waits until all have read the n-th message of this rank.
  void await_readers(std::vector<WordStep>& steps, std::int64_t n) const;
  [[nodiscard]] ByteRange part_of(const Block& block, std::int64_t part) const;
  [[nodiscard]] Takes takes_of(int message) const;
  // Where the message lies in the ring of its sender.
  [[nodiscard]] std::size_t slot_of(int sender, std::int64_t part, int message) const;
  [[nodiscard]] RankWords& words_of(int rank) const;

  SlotContext context_;
  const SlotProgram& program_;
  Portion portion_;
  const StreamCall& call_;
  SlotParts parts_;
  CopyLine put_line_;
  CopyLine take_line_;
};

}  // namespace sennit::stream
