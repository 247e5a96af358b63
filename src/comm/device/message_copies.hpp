// MessageCopies: the sends and recvs of a communicator that copy engines run. The two ends of each
// message decide alike, and a sender never waits for its receiver on the host:
//
//   1. The sender offers its buffer, in a queue of the two ranks in shared memory, and decides: by
//      copy engines if the receiver is known to reach the buffer, else by kernels.
//   2. The receiver waits for the offer, does what it says, maps what it could not reach so far and
//      answers whether it could: then the next message out of that memory goes by copy engines.
//
// docs/decisions/0020-messages-by-copy-engines.md says why.
#pragma once

#include "comm/device/peer_buffers.hpp"
#include "comm/operation.hpp"
#include "comm/world.hpp"
#include "exec/stream/message_engine.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace sennit {

class MessageCopies {
 public:
  // `words`: of every rank, as this device sees them. `memory` and `world` outlive the result.
  static Result<std::unique_ptr<MessageCopies>> create(CudaDriver& driver,
                                                       const DeviceMemory& memory,
                                                       World& world,
                                                       std::vector<stream::RankWords*> words);

  struct End {
    const Operation& operation;
    CallWords words;  // equal at both ends
    // What this end does in the plan; outlives the message.
    const stream::StreamProgram& program;
    stream::GroupId group;      // of this rank
    bool is_capturing = false;  // nothing may be mapped now
    // Asked while waiting: why it is in vain, or ok.
    std::function<Status()> trouble;
  };
  // The message as copy engines run it, or none where kernels do. Sends of a group come before its
  // recvs, and at most kMaxMessages of it go to one rank.
  using Decision = std::optional<stream::Message>;
  Result<Decision> offer(const End& end);
  Result<Decision> accept(const End& end);

  Status run(const stream::MessageEngine::Group& group) { return engine_.run(group); }

 private:
  // The messages between this rank and another.
  struct Peer {
    explicit Peer(CudaDriver& driver, const DeviceMemory& memory) : buffers(driver, memory) {}

    PeerBuffers buffers;
    std::uint64_t offered = 0;   // number of the last message, as numbers in MessageLine
    std::uint64_t answered = 0;  // of the last whose answer was read
    std::uint64_t accepted = 0;  // of the last from there
  };

  MessageCopies(CudaDriver& driver,
                const DeviceMemory& memory,
                World& world,
                std::vector<stream::RankWords*> words);

  [[nodiscard]] MessageLine& line(int rank, int peer) const;
  void read_answers(int rank);
  Status await_room(const End& end);
  void describe_buffer(const End& end, MessageLine::Offer& offer);
  bool map(int rank, const MessageLine::Offer& offer, bool is_capturing);
  [[nodiscard]] static stream::Message message_of(const End& end, std::uint64_t number);

  const DeviceMemory& memory_;
  World& world_;
  stream::MessageEngine engine_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
};

}  // namespace sennit
