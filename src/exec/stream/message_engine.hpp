// MessageEngine: runs sends and recvs with copy engines alone: one end of a message moves it, the
// receiver out of the memory of its sender or the sender into that of its receiver, and both wait
// in words of that message (world/stream_words.hpp). A part of the message, or all of it, may go
// through host memory meanwhile (exec/stream/message_slots.hpp).
//
//   MessageEngine engine(driver, words, rank);
//   SENNIT_RETURN_IF_ERROR(engine.open());
//   SENNIT_RETURN_IF_ERROR(engine.run({.messages = messages, .stream = stream}));
//
// What goes into a stream at once is a group. Whatever other ranks are to move is offered before
// the rank waits for anything, and the end of that is waited for last. What it moves itself, out of
// or into the memory of several ranks, moves in streams of their own, since none may hold up
// another: those may be in quite different groups. So messages wait for each other only as their
// groups do.
//
// Copies are fast only if they follow one another without waits between them, so what one rank
// offers at once is waited for at once. Where all ranks of a set exchange messages with each other
// in one group (an all_to_all in sends and recvs), no group can end before all have begun: then all
// that a rank fetches is waited for at once, and fetched in the order of a ring, and so is what it
// puts.
//
// Where streams share a queue, what waits holds up what is behind it. So what the first group of a
// peer needs goes into the streams before what waits for its second one, straight or through slots.
//
// Where a message has a stopwatch, its receiver says when both ends had begun and when each strand
// ended. What kernels carry has no words of its own, and those of what is put do not tell when its
// sender began: such a message is `is_met`, so its ends also meet by a fetch of nothing, which
// holds up nothing but the end of both groups.
//
// It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/message.hpp"
#include "exec/stream/side_streams.hpp"
#include "exec/stream/word_steps.hpp"
#include "world/stream_words.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sennit::stream {

class MessageSlots;

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
    std::uint64_t number = 0;  // this and the next as of a StreamCall
    std::uint32_t deadline_ms = 0;
  };
  Status run(const Group& group);

 private:
  static constexpr int kUsersStream = -1;
  // Messages that are waited for at once.
  struct Batch {
    int side = 0;  // of `sides_`, or the user's stream
    // The more groups of that rank come before here, the later: that many or more, as messages
    // before it are counted.
    int turn = 0;
    std::vector<const Message*> messages{};
  };

  RankWords& words_of(int rank) const { return *words_[static_cast<std::size_t>(rank)]; }
  // Of a message, by channel: the word in which this rank waits for the other end, and back.
  std::uint64_t* own_word(const Message& message, int channel) const;
  std::uint64_t* peers_word(const Message& message, int channel) const;

  // In the order in which they go into their streams.
  [[nodiscard]] std::vector<Batch> batches_of(const std::vector<Message>& messages,
                                              std::uint32_t partners) const;
  [[nodiscard]] std::vector<Batch> all_at_once(std::vector<const Message*> moved) const;
  static std::vector<Batch> one_by_one(std::vector<const Message*> moved);
  // Gives them to the user's stream, if they can all be in one.
  static void lead_back(std::vector<Batch>& batches);
  // How many streams of ours they take.
  static int sides_of(const std::vector<Batch>& batches);
  // `steps`: what goes into the stream before, and what is left to go after.
  Status move(std::span<const Batch> batches, void* users, std::vector<WordStep>& steps);
  // All that goes straight and all that goes through slots, turn by turn.
  Status move_in_turns(const std::vector<Batch>& batches,
                       MessageSlots& slots,
                       void* users,
                       std::vector<WordStep>& steps);
  Status move(const Batch& batch, void* stream, std::vector<WordStep>& steps) const;
  Status copy(const Batch& batch, void* stream) const;
  Result<void*> stream_of(const Batch& batch, void* users);
  static Status end_watches_of_kernels(const std::vector<Message>& messages, void* stream);
  // Each in the stream in which its ends have met.
  Status end_watches_of_puts(const std::vector<Message>& messages,
                             const std::vector<Batch>& batches,
                             void* users,
                             std::vector<WordStep>& steps);
  // Puts the steps into the stream and forgets them: a call of the driver costs microseconds, so
  // they are gathered until something else goes there.
  Status go(std::vector<WordStep>& steps, void* stream) const;

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  int rank_;
  // They move messages while the user's stream waits for something else: what is fetched from a
  // rank, or put there.
  SideStreams sides_;
  SideStreams slot_sides_;
  host::RingShape slots_;  // none: no message may go through host memory
};

}  // namespace sennit::stream
