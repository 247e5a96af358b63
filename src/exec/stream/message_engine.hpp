// MessageEngine: runs sends and recvs with copy engines alone: the receiver takes a message out of
// the memory of its sender, and both wait in words of that message (exec/stream/words.hpp). A part
// of the message, or all of it, may go through host memory meanwhile
// (exec/stream/message_slots.hpp).
//
//   MessageEngine engine(driver, words, rank);
//   SENNIT_RETURN_IF_ERROR(engine.open());
//   SENNIT_RETURN_IF_ERROR(engine.run({.messages = messages, .stream = stream}));
//
// What goes into a stream at once is a group. All that the rank sends is offered before it waits
// for anything, and the end of that is waited for last. Messages of several ranks are taken in
// streams of their own, since none may hold up another: their senders may be in quite different
// groups. So messages wait for each other only as their groups do.
//
// Copies are fast only if they follow one another without waits between them, so what one sender
// offers at once is waited for at once. Where all ranks of a set exchange messages with each other
// in one group (an all_to_all in sends and recvs), no group can end before all have begun: then all
// that a rank takes is waited for at once, and taken in the order of a ring.
//
// Where a message has a stopwatch, its receiver says when both ends had begun and when each strand
// ended. What kernels carry has no words of its own: such a message is `is_met`, which holds up
// nothing but the end of both groups.
//
// It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/message.hpp"
#include "exec/stream/side_streams.hpp"
#include "exec/stream/word_steps.hpp"
#include "exec/stream/words.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sennit::stream {

class MessageEngine {
 public:
  // `words`: of every rank, as this device sees them.
  MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank);
  MessageEngine(const MessageEngine&) = delete;
  MessageEngine& operator=(const MessageEngine&) = delete;

  Status open();

  // Messages may have strands through host memory from now on; not while a stream captures.
  Status use_slots(const host::RingShape& shape);

  struct Group {
    std::span<const Message> messages{};
    std::uint32_t partners = 0;  // as in GroupId, of this rank
    // Puts messages into the stream that kernels run; empty where there are none.
    std::function<Status()> launch{};
    void* stream = nullptr;
  };
  Status run(const Group& group);

 private:
  // Messages that are waited for at once, and those that come one after the other.
  using Batch = std::vector<const Message*>;
  struct Row {
    int sender = 0;  // of the first
    std::vector<Batch> batches{};
  };

  RankWords& words_of(int rank) const { return *words_[static_cast<std::size_t>(rank)]; }
  // What `sender` fills for `reader`, and back.
  std::uint64_t* ready(int reader, int sender, int slot, int channel) const;
  std::uint64_t* done(int sender, int reader, int slot, int channel) const;

  [[nodiscard]] std::vector<Row> rows_of(const Group& group) const;
  [[nodiscard]] Row in_ring_order(Batch batch) const;
  Status take_aside(std::span<const Row> rows);
  // `steps`: what goes into the stream before, and what is left to go after.
  Status take(const Row& row, void* stream, std::vector<WordStep>& steps) const;
  Status copy(const Batch& batch, void* stream) const;
  static Status end_watches(std::span<const Message> messages, void* stream);
  // Puts the steps into the stream and forgets them: a call of the driver costs microseconds, so
  // they are gathered until something else goes there.
  Status go(std::vector<WordStep>& steps, void* stream) const;
  // The messages and channels whose words say that something is there to be taken.
  template <typename Function>
  void for_each_arrival(const Batch& batch, Function function) const;
  template <typename Function>
  void for_each_direct_arrival(const Batch& batch, Function function) const;

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  int rank_;
  // One for each sender: they take messages while the user's stream waits for something else.
  SideStreams sides_;
  SideStreams slot_sides_;
  host::RingShape slots_;  // none: no message may go through host memory
};

}  // namespace sennit::stream
