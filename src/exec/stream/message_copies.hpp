// MessageCopies: the sends and recvs of a communicator that copy engines run. The two ends of each
// message decide the same, and a sender does not depend on its receiver's host:
//
//   1. The receiver posts where its sender sees the buffer, if it does.
//   2. The sender offers its own buffer, in a queue of the two ranks in shared memory, and decides:
//      by its copy engines if it finds the post, which it waits for no longer than that would gain;
//      by those of the receiver if the receiver is known to reach the buffer, else by kernels; and
//      a share of it through host memory if the receiver is known to reach the ring of the two.
//   3. The receiver waits for the offer, does what it says, maps what it could not reach so far and
//      answers whether it could: then the next message out of that memory can be fetched, and the
//      next one for host memory goes through the ring.
//
// Where the share follows the load, the receiver measures messages and advises the sender
// (exec/stream/message_shares.hpp).
//
// docs/decisions/0020-messages-by-copy-engines.md, 0026-messages-over-two-paths.md,
// 0033-shares-that-follow-the-load.md and 0038-messages-that-are-put.md say why.
#pragma once

#include "exec/stream/message_engine.hpp"
#include "exec/stream/message_shares.hpp"
#include "memory/pair_rings.hpp"
#include "memory/peer_buffers.hpp"
#include "world/operation.hpp"
#include "world/world.hpp"

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

  struct Way {
    int host_share = 0;   // percent of it that go through host memory
    bool is_put = false;  // the rest, rather than fetched
  };
  struct End {
    const Operation& operation;
    CallWords words;  // equal at both ends
    // What goes through host memory, in percent; the sender's request is the one that counts.
    int host_share = 0;
    // It begins with that and follows the load; also the sender's request.
    bool dynamic_share = false;
    bool shares_puts_alone = false;  // as of a DeviceChoice
    // Whether nothing else goes from the sender to the receiver in the group of this end.
    bool is_alone = false;
    // Whether the group of this end, a sender, receives as well.
    bool group_receives = false;
    // Whether kernels have the rest, so that nobody needs to reach the buffer; equal at both ends.
    bool leaves_rest = false;
    // What this end does; outlives the message.
    std::function<Result<const stream::PlanProgram*>(const Way& way)> program_of;
    // Whether this end agrees to a put, and, of a receiver, where the sender sees the buffer; null:
    // it does not.
    bool may_be_put = false;
    std::byte* there = nullptr;
    stream::GroupId group;      // of this rank
    bool is_capturing = false;  // nothing may be mapped now
    // Asked while waiting: why it is in vain, or ok.
    std::function<Status()> trouble;
  };
  // Before the messages of a group; `partners` as in stream::GroupId.
  stream::GroupId next_group(std::uint32_t partners);
  // Of a receiver, before it accepts; those of a group come before its sends.
  void post(const End& end);
  // The message as copy engines run it, or none where kernels do. Sends of a group come before its
  // recvs, and at most kMaxMessages of it go to one rank.
  using Decision = std::optional<stream::Message>;
  Result<Decision> offer(const End& end);
  Result<Decision> accept(const End& end);

  [[nodiscard]] stream::MessageEngine& engine() { return engine_; }

 private:
  // The messages between this rank and another.
  struct Peer {
    Peer(CudaDriver& driver, const DeviceMemory& memory, const World& world)
        : buffers(driver, memory, world), shares(driver.events()) {}

    PeerBuffers buffers;
    MessageShares shares;
    std::uint64_t offered = 0;   // number of the last message, as numbers in MessageLine
    std::uint64_t answered = 0;  // of the last whose answer was read
    std::uint64_t posted = 0;    // of the last from there that this rank expects
    std::uint64_t accepted = 0;  // of the last from there
    bool reaches_ring = false;   // that from here to there, and has said so
    std::int64_t slots = 0;      // that messages to there have gone through
  };

  MessageCopies(CudaDriver& driver,
                const DeviceMemory& memory,
                World& world,
                std::vector<stream::RankWords*> words);

  [[nodiscard]] MessageLine& line(int rank, int peer) const;
  void read_answers(int rank);
  Status await_room(const End& end);
  // The receiver's, of the message of this number; null: there is none that says where to put it.
  [[nodiscard]] const MessageLine::Post* find_post(const End& end, std::uint64_t number) const;
  void describe_buffer(const End& end, MessageLine::Offer& offer);
  // Whether copy engines may have any of it; asked of a sender.
  [[nodiscard]] bool may_copy(const End& end) const;
  // Whether copy engines can have their part of it, if they fetch it.
  [[nodiscard]] bool can_fetch(const End& end, const MessageLine::Offer& offer, int share) const;
  // Writes what goes how.
  void decide(const End& end, MessageLine::Offer& offer);
  // `others`: that of the other end.
  void set_group(const End& end, const stream::GroupId& others, stream::Message& message) const;
  stream::Stopwatch* watch_of(const End& end, const MessageLine::Offer& offer);
  // The ring from or to the other end; null where it is not there.
  Result<std::byte*> ring_of(const End& end);
  void forget_retired(int rank, const MessageLine::Offer& offer, bool is_capturing);
  bool map(int rank, const MessageLine::Offer& offer, bool is_capturing);
  // As the offer says.
  [[nodiscard]] Result<stream::Message> message_of(const End& end,
                                                   const MessageLine::Offer& offer,
                                                   std::uint64_t number);

  const DeviceMemory& memory_;
  World& world_;
  PairRings rings_;
  stream::MessageEngine engine_;              // its streams use the rings
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::uint64_t groups_ = 0;
};

}  // namespace sennit
