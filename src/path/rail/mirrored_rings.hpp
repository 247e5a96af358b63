// Path rail: rings between ranks of different nodes. Such a ring is in memory twice, at its writer
// and at its reader; here messages are carried from the one to the other, and free slots back.
//
// The words are those of channel.hpp, so may_write() and is_full() stay loads of local memory:
//
//   writer:  while (!may_write(...)) {}  fill the slot;  publish(...)    instead of
//   channel::publish reader:  while (!is_full(...)) {}    use the slot;   release(...)    instead
//   of release_slot
//
// and both progress() meanwhile. Nothing that a peer wrote is used without a check: a frame has to
// carry the token of its sender and to name a slot that waits for just this message; else it is
// dropped and counted. Frames may arrive in any order.
//
// What is_sent() and flush() ask for has to be awaited before a step and a call end: a rank that
// returns carries nothing until its next call. Slots that it has released may then be returned with
// its next message, but less than half of a ring's; a rank that waits returns all.
#pragma once

#include "channel/channel.hpp"
#include "path/rail/card_set.hpp"
#include "path/rail/frame.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace sennit::rail {

struct RingGeometry {
  int ports = 1;
  std::uint32_t slots = 1;
  std::size_t slot_bytes = 0;
};

// The local copy of a ring: from this rank to `peer`, or from `peer` to this rank.
struct RingName {
  int peer = 0;
  bool outgoing = false;
  int port = 0;
};

// Where the local copies lie.
class RingMemory {
 public:
  virtual ~RingMemory() = default;
  [[nodiscard]] virtual channel::Word& full(const RingName& ring, std::uint64_t position) const = 0;
  [[nodiscard]] virtual channel::Word& free(const RingName& ring, std::uint64_t position) const = 0;
  // `bytes` is at most the geometry's slot_bytes.
  [[nodiscard]] virtual std::byte* payload(const RingName& ring,
                                           std::uint64_t position,
                                           std::size_t bytes) const = 0;
  [[nodiscard]] virtual std::uint64_t& tag(const RingName& ring, std::uint64_t position) const = 0;
};

// How a rank uses its cards.
struct CardUse {
  std::vector<std::uint8_t> nearest{};  // rails that messages to it go over; empty: any
  bool are_named = false;               // see Introduction
};

// What the slot of an outgoing ring holds.
struct SlotMessage {
  std::uint64_t position = 0;
  std::uint64_t word = 0;  // the full word
  std::size_t bytes = 0;
  std::uint64_t tag = 0;  // of a bundle
};

// The rings of one rank of a communicator. From the moment on when others may know its secret,
// frames are kept for it; they are used once it has been opened.
class MirroredRings {
 public:
  MirroredRings(std::shared_ptr<CardSet> cards, int rank, int ranks, CardUse use = {});
  ~MirroredRings();
  MirroredRings(const MirroredRings&) = delete;
  MirroredRings& operator=(const MirroredRings&) = delete;

  // For the join.
  [[nodiscard]] Introduction introduction() const;
  // `introductions` and `nodes` by rank, as all ranks know them. kInvalidArgument names a rank
  // whose introduction is malformed or whose cards are not as many as those of rank 0: the same on
  // all ranks, whether they need that rank or not, so that none waits for one that has failed.
  Status open(std::unique_ptr<RingMemory> memory,
              const RingGeometry& geometry,
              std::span<const std::string> introductions,
              std::span<const int> nodes);

  // A route over which a peer has not answered yet.
  struct Unanswered {
    int peer = 0;
    int rail = 0;
    Status why{};  // of the last connection that failed; ok: none has
  };
  // Greets the ranks of other nodes over the rails of messages and of returned slots, `rails_to` by
  // reader, or over all where bundles may be. To be called again, with progress() between, until
  // nobody is left.
  std::vector<Unanswered> greet(std::span<const int> rails_to);

  [[nodiscard]] const CardSet& cards() const { return *cards_; }
  // Over which messages to `reader` go: the rails nearest to it in turn, by its place among the
  // ranks of its node. Once opened.
  [[nodiscard]] int rail_to(int reader, int place_on_node) const {
    const auto& nearest = peers_[static_cast<std::size_t>(reader)].nearest;
    return nearest.empty() ? place_on_node % cards_->size()
                           : nearest[static_cast<std::size_t>(place_on_node) % nearest.size()];
  }

  // Of the ring to `peer`: its slot holds a message.
  void publish(int peer, int rail, int port, const SlotMessage& message);
  // Whether the slot's memory is not read any more. Also true when it failed.
  [[nodiscard]] bool is_sent(int peer, int port, std::uint64_t position);
  // Of the ring from `peer`: the slot has been used. Slots go back together.
  void release(int peer, int rail, int port, std::uint64_t position);

  // Whether a call still needs this peer, which may be gone otherwise.
  using Needs = std::function<bool(int peer)>;

  // Carries on; true when anything moved. When nothing has for a while, all slots are returned.
  bool progress();
  // True once nothing sent needs this rank to carry on. A loss counts where the peer is needed.
  bool flush(const Needs& needs);
  // When this rank has ended all its calls: peers may find the connection closed from here on.
  void say_bye();
  // As CardSet::sleep, after all slots have been returned.
  void sleep(Doorbell& bell,
             std::chrono::nanoseconds limit,
             const std::function<bool()>& look_again);

  // Why a rail to a peer that is needed has failed, with the peer as blamed rank; ok while all
  // work. For a call that has waited for long, also a rail whose other end acknowledges nothing.
  [[nodiscard]] Status failure(const Needs& needs, bool has_waited_long = false);
  // Frames with a valid token that were dropped, because they did not fit what was due.
  [[nodiscard]] std::uint64_t dropped_frames() const { return dropped_frames_; }

 private:
  struct Ring {
    // By slot: of an incoming ring the position that may arrive, of an outgoing one the position
    // that may be returned; kNone: nothing may.
    std::vector<std::uint64_t> due;
    std::vector<MessageState> states;  // of outgoing messages
    std::size_t kept = 0;              // of an incoming ring: slots that are still to be returned
  };
  // A batch on its way; stays where it is.
  struct Batch {
    int peer = 0;
    int rail = 0;
    std::vector<FreedSlot> slots;
    MessageState state = MessageState::kDone;
  };
  // Each end sends a greeting and, once it has had the peer's, an answer.
  struct Greeting {
    bool has_come = false;     // the peer's, or its answer
    bool is_answered = false;  // by the peer
    bool is_sent = false;
    bool answer_is_sent = false;
    bool is_over = false;
    MessageState hello = MessageState::kDone;
    MessageState answer = MessageState::kDone;
    std::chrono::steady_clock::time_point next_try{};
    Status why{};
  };
  // One rail to one peer.
  struct Route {
    std::string address;
    std::uint64_t token = 0;  // of what this rank sends
    int endpoint = -1;        // made at first use
    bool is_flushed = true;
    bool is_used = false;                     // by messages, so that its failure matters
    MessageState last = MessageState::kDone;  // of all that was sent
    Status failure{};
    Greeting greeting{};

    [[nodiscard]] Status failure_with(const UcxCard& card) const {
      return !failure.ok() || endpoint < 0 ? failure : card.failure(endpoint);
    }
  };
  struct Peer {
    std::vector<FreedSlot> freed;  // slots that are still to be returned to it
    int rail_of_freed = 0;
    std::vector<std::uint8_t> nearest;
    bool has_left = false;  // it has ended all its calls, so nothing that it lost counts
    std::vector<std::unique_ptr<Ring>> outgoing;  // by port; made at first use
    std::vector<std::unique_ptr<Ring>> incoming;
    std::vector<Route> routes;  // by rail; none for ranks of this node
  };
  struct EarlyFrame {
    int peer = 0;
    int rail = 0;
    Frame frame;
    std::vector<std::byte> freed;
    std::vector<std::byte> payload;
  };
  // What one message takes along; its token and length are added.
  struct Departure {
    Frame frame;
    std::span<const FreedSlot> freed{};
    std::span<const std::byte> payload{};
  };

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  [[nodiscard]] std::size_t slot_of(std::uint64_t position) const {
    return position % geometry_.slots;
  }
  Ring& ring(const RingName& name);
  Route& route(int peer, int rail) {
    return peers_[static_cast<std::size_t>(peer)].routes[static_cast<std::size_t>(rail)];
  }
  // The state says when it has left.
  void send(int peer, int rail, const Departure& departure, MessageState& state);
  std::span<const FreedSlot> take_freed(int peer, std::span<FreedSlot> into);
  void send_freed(int peer);
  void send_all_freed();
  MessageState flush_route(int peer, int rail);
  bool greet_over(int peer, int rail);
  [[nodiscard]] bool is_needed(int peer, const Needs& needs) const {
    return !peers_[static_cast<std::size_t>(peer)].has_left && needs(peer);
  }
  [[nodiscard]] bool is_under_way(int peer, int rail) const;
  void receive(int peer, int rail, const Arrival& arrival);
  void receive_full(int peer, const Frame& frame, std::span<const std::byte> payload);
  void receive_freed(int peer, std::span<const std::byte> slots);

  std::shared_ptr<CardSet> cards_;
  int rank_;
  int ranks_;
  Secret secret_;
  CardUse use_;
  bool may_bundle_ = false;             // see why_no_bundles()
  std::unique_ptr<RingMemory> memory_;  // null until opened
  RingGeometry geometry_;
  std::vector<Peer> peers_;
  std::deque<Batch> batches_;
  std::vector<EarlyFrame> early_;
  std::size_t freed_ = 0;  // slots that are still to be returned to all peers
  int idle_rounds_ = 0;    // since something moved
  std::uint64_t dropped_frames_ = 0;
};

}  // namespace sennit::rail
