// MessageEngine: runs sends and recvs with copy engines alone: the receiver takes a message out of
// the memory of its sender, and both wait in words of that message (exec/stream/words.hpp).
//
//   MessageEngine engine(driver, words, rank);
//   SENNIT_RETURN_IF_ERROR(engine.open());
//   SENNIT_RETURN_IF_ERROR(engine.run({.messages = messages, .stream = stream}));
//
// What goes into a stream at once, a group, runs side by side: all that the rank sends is offered
// before it waits for anything; messages from one rank are taken in their order, those of several
// ranks in streams of their own, since none of them may hold up another; the end of what it sends
// is waited for last. So messages wait for each other only as their groups do. It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/stream_program.hpp"
#include "exec/stream/word_walk.hpp"
#include "exec/stream/words.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sennit::stream {

// One end of a message.
struct Message {
  // What this end does in a plan of send_recv: it offers blocks of the sender's input or takes
  // them, nothing else.
  const StreamProgram* program = nullptr;
  int peer = 0;
  int slot = 0;  // whose words it uses; not that of another message that is under way
  std::int64_t bytes = 0;
  const std::byte* input = nullptr;  // of the sender, as this device sees it; for who takes
  std::byte* output = nullptr;       // for who takes
};

class MessageEngine {
 public:
  // `words`: of every rank, as this device sees them.
  MessageEngine(CudaDriver& driver, std::vector<RankWords*> words, int rank);
  ~MessageEngine();
  MessageEngine(const MessageEngine&) = delete;
  MessageEngine& operator=(const MessageEngine&) = delete;

  Status open();

  struct Group {
    std::span<const Message> messages{};
    // Puts messages into the stream that kernels run; empty where there are none.
    std::function<Status()> launch{};
    int run = 0;  // index of the word that says that the group runs
    void* stream = nullptr;
  };
  Status run(const Group& group);

 private:
  // Takes what one rank sends while the user's stream waits for something else.
  struct Side {
    void* stream = nullptr;
    void* event = nullptr;  // how far it is
  };

  RankWords& words_of(int rank) const { return *words_[static_cast<std::size_t>(rank)]; }
  // What `sender` fills for `reader`, and back.
  std::uint64_t* ready(int reader, int sender, int slot, int channel) const;
  std::uint64_t* done(int sender, int reader, int slot, int channel) const;

  Status take_aside(const Group& group, std::span<const int> senders);
  Status take_all_of(int sender, const Group& group, void* stream, WordWalk& walk) const;
  Status take(const Message& message, void* stream, WordWalk& walk) const;

  CudaDriver& driver_;
  std::vector<RankWords*> words_;
  int rank_;
  std::vector<Side> sides_;  // by sender
  void* began_ = nullptr;    // event
};

}  // namespace sennit::stream
