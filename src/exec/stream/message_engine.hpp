// MessageEngine: runs sends and recvs with copy engines alone. One end of a message moves it, the
// receiver out of the memory of its sender or the sender into that of its receiver; both wait for
// flags of that message (world/stream_words.hpp). A part of the message, or all of it, may go
// through host memory meanwhile.
//
//   MessageEngine engine(driver, words, rank);
//   SENNIT_RETURN_IF_ERROR(engine.open());
//   SENNIT_RETURN_IF_ERROR(engine.run({.messages = messages, .stream = stream}));
//
// What goes into a stream at once is a group, and a list of operations (message_operations.hpp says
// which, and in what order). It may be captured.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "exec/stream/message.hpp"
#include "exec/stream/operation_list.hpp"
#include "exec/stream/player.hpp"
#include "path/host/rings.hpp"
#include "world/stream_words.hpp"

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
    std::uint64_t number = 0;  // this and the rest as of a StreamCall
    std::uint32_t deadline_ms = 0;
    bool is_captured = false;
  };
  Status run(const Group& group);

 private:
  [[nodiscard]] int ranks() const { return static_cast<int>(player_.words().size()); }

  int rank_;
  Player player_;
  host::RingShape ring_;  // none: no message may go through host memory
  OperationList list_;    // of the last group: its memory serves the next one
};

}  // namespace sennit::stream
