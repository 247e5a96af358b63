#include "path/rail/mirrored_rings.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

namespace sennit::rail {
namespace {

using Clock = std::chrono::steady_clock;

// More than any peers that keep to the protocol send before this rank has opened its rings: they
// stop when their slots are full.
constexpr std::size_t kMostEarlyFrames = 65536;

// Of a call that waits: some ten microseconds, in which a message mostly comes along that takes
// returned slots with it.
constexpr int kIdleRounds = 64;

static_assert(sizeof(Frame) + kMostFreed * sizeof(FreedSlot) <= UcxCard::kMostHeaderBytes);

// Payload of what says nothing: of an empty message nobody would know when it has left.
constexpr std::byte kNothing{};

// Of a connection for a greeting that has failed.
constexpr std::chrono::milliseconds kRetry{100};
// A bye leaves in microseconds, unless its peer is stopped.
constexpr std::chrono::milliseconds kByeTime{100};

}  // namespace

MirroredRings::MirroredRings(std::shared_ptr<CardSet> cards, int rank, int ranks, CardUse use)
    : cards_(std::move(cards)),
      rank_(rank),
      ranks_(ranks),
      secret_(random_secret()),
      use_(std::move(use)),
      peers_(static_cast<std::size_t>(ranks)) {
  const auto guard = cards_->lock();
  for (int peer = 0; peer < ranks_; ++peer) {
    for (int rail = 0; rail < cards_->size(); ++rail) {
      cards_->set_receiver(
          rail, token_of(secret_, peer, rail), [this, peer, rail](const Arrival& arrival) {
            receive(peer, rail, arrival);
          });
    }
  }
}

MirroredRings::~MirroredRings() {
  const auto guard = cards_->lock();
  for (int peer = 0; peer < ranks_; ++peer) {
    for (int rail = 0; rail < cards_->size(); ++rail) {
      cards_->remove_receiver(rail, token_of(secret_, peer, rail));
    }
  }
  // What is on its way is read from these rings, and ends in states that are ours. After flush()
  // there is nothing.
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
    for (std::size_t rail = 0; rail < routes.size(); ++rail) {
      if (is_under_way(peer, static_cast<int>(rail))) {
        cards_->close_endpoint(static_cast<int>(rail), routes[rail].address);
      }
    }
  }
}

bool MirroredRings::is_under_way(int peer, int rail) const {
  const Peer& other = peers_[static_cast<std::size_t>(peer)];
  const Route& to = other.routes[static_cast<std::size_t>(rail)];
  return to.last == MessageState::kUnderWay || to.greeting.hello == MessageState::kUnderWay ||
         to.greeting.answer == MessageState::kUnderWay ||
         std::ranges::any_of(batches_,
                             [&](const Batch& batch) {
                               return batch.state == MessageState::kUnderWay &&
                                      batch.peer == peer && batch.rail == rail;
                             }) ||
         std::ranges::any_of(other.outgoing, [](const auto& ring) {
           return ring && std::ranges::count(ring->states, MessageState::kUnderWay) > 0;
         });
}

Introduction MirroredRings::introduction() const {
  return {.secret = secret_,
          .card_addresses = cards_->addresses(),
          .nearest = use_.nearest,
          .are_named = use_.are_named};
}

Status MirroredRings::open(std::unique_ptr<RingMemory> memory,
                           const RingGeometry& geometry,
                           std::span<const std::string> introductions,
                           std::span<const int> nodes) {
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Introduction> all, parse_introductions(introductions));
  const auto guard = cards_->lock();
  geometry_ = geometry;
  may_bundle_ = why_no_bundles(all).empty();
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    peers_[peer].nearest = all[peer].nearest;
    if (nodes[peer] == nodes[static_cast<std::size_t>(rank_)]) {
      continue;
    }
    Peer& other = peers_[peer];
    other.outgoing.resize(static_cast<std::size_t>(geometry.ports));
    other.incoming.resize(static_cast<std::size_t>(geometry.ports));
    for (int rail = 0; rail < cards_->size(); ++rail) {
      other.routes.push_back({.address = all[peer].card_addresses[static_cast<std::size_t>(rail)],
                              .token = token_of(all[peer].secret, rank_, rail)});
    }
  }
  memory_ = std::move(memory);
  for (const EarlyFrame& early : std::exchange(early_, {})) {
    receive(early.peer,
            early.rail,
            {.frame = early.frame, .freed = early.freed, .payload = early.payload});
  }
  return {};
}

MirroredRings::Ring& MirroredRings::ring(const RingName& name) {
  Peer& peer = peers_[static_cast<std::size_t>(name.peer)];
  auto& found =
      (name.outgoing ? peer.outgoing : peer.incoming)[static_cast<std::size_t>(name.port)];
  if (!found) {
    found = std::make_unique<Ring>();
    found->states.resize(name.outgoing ? geometry_.slots : 0, MessageState::kDone);
    for (std::uint64_t position = 0; position < geometry_.slots; ++position) {
      found->due.push_back(name.outgoing ? kNone : position);
    }
  }
  return *found;
}

void MirroredRings::send(int peer, int rail, const Departure& departure, MessageState& state) {
  Route& to = route(peer, rail);
  if (to.endpoint < 0 && to.failure.ok()) {
    const Result<int> made = cards_->endpoint(rail, to.address);
    if (made.ok()) {
      to.endpoint = *made;
    } else {
      to.failure = made.status();
    }
  }
  if (!to.failure.ok()) {
    state = MessageState::kFailed;
    return;
  }
  Frame frame = departure.frame;
  frame.token = to.token;
  frame.bytes = departure.payload.size();
  std::array<std::byte, UcxCard::kMostHeaderBytes> header{};
  std::memcpy(header.data(), &frame, sizeof(frame));
  const auto freed = std::as_bytes(departure.freed);
  std::ranges::copy(freed, header.begin() + sizeof(frame));
  to.is_flushed = false;
  cards_->card(rail).send(
      to.endpoint, std::span(header).first(sizeof(frame) + freed.size()), departure.payload, state);
}

void MirroredRings::publish(int peer, int rail, int port, const SlotMessage& message) {
  const auto guard = cards_->lock();
  const RingName name{.peer = peer, .outgoing = true, .port = port};
  Ring& out = ring(name);
  const std::size_t slot = slot_of(message.position);
  out.due[slot] = message.position;
  route(peer, rail).is_used = true;
  // Of an empty message nobody would know when it has left.
  const std::size_t length = std::max<std::size_t>(1, message.bytes);
  std::array<FreedSlot, kMostFreed> freed;
  send(peer,
       rail,
       {.frame = {.kind = FrameKind::kFull,
                  .port = static_cast<std::uint32_t>(port),
                  .word = message.word,
                  .position = message.position,
                  .tag = message.tag},
        .freed = take_freed(peer, freed),
        .payload = {memory_->payload(name, message.position, length), length}},
       out.states[slot]);
}

bool MirroredRings::is_sent(int peer, int port, std::uint64_t position) {
  const auto guard = cards_->lock();
  const auto& out = peers_[static_cast<std::size_t>(peer)].outgoing[static_cast<std::size_t>(port)];
  return !out || out->states[slot_of(position)] != MessageState::kUnderWay;
}

void MirroredRings::release(int peer, int rail, int port, std::uint64_t position) {
  const auto guard = cards_->lock();
  Ring& in = ring({.peer = peer, .outgoing = false, .port = port});
  in.due[slot_of(position)] = position + geometry_.slots;
  Peer& writer = peers_[static_cast<std::size_t>(peer)];
  writer.freed.push_back({.port = static_cast<std::uint64_t>(port), .position = position});
  writer.rail_of_freed = rail;
  ++freed_;
  // One by one they would cost as much as the messages. With half of its slots the writer goes on.
  if (++in.kept >= std::max<std::size_t>(1, geometry_.slots / 2)) {
    send_freed(peer);
  }
}

// The oldest, as many as `into` has room for.
std::span<const FreedSlot> MirroredRings::take_freed(int peer, std::span<FreedSlot> into) {
  std::vector<FreedSlot>& freed = peers_[static_cast<std::size_t>(peer)].freed;
  const auto taken = std::min(freed.size(), into.size());
  for (std::size_t i = 0; i < taken; ++i) {
    into[i] = freed[i];
    --ring({.peer = peer, .outgoing = false, .port = static_cast<int>(freed[i].port)}).kept;
  }
  freed.erase(freed.begin(), freed.begin() + static_cast<std::ptrdiff_t>(taken));
  freed_ -= taken;
  return into.first(taken);
}

void MirroredRings::send_freed(int peer) {
  const Peer& writer = peers_[static_cast<std::size_t>(peer)];
  if (writer.freed.empty()) {
    return;
  }
  auto batch = std::ranges::find_if(
      batches_, [](const Batch& other) { return other.state != MessageState::kUnderWay; });
  if (batch == batches_.end()) {
    batch = batches_.emplace(batches_.end());
  }
  batch->peer = peer;
  batch->rail = writer.rail_of_freed;
  batch->slots.resize(writer.freed.size());
  static_cast<void>(take_freed(peer, batch->slots));
  send(peer,
       batch->rail,
       {.frame = {.kind = FrameKind::kFree}, .payload = std::as_bytes(std::span(batch->slots))},
       batch->state);
}

void MirroredRings::send_all_freed() {
  for (int peer = 0; peer < ranks_ && freed_ > 0; ++peer) {
    send_freed(peer);
  }
}

void MirroredRings::receive(int peer, int rail, const Arrival& arrival) {
  const auto& [frame, freed, payload] = arrival;
  if (memory_ == nullptr) {
    if (early_.size() < kMostEarlyFrames) {
      early_.push_back({.peer = peer,
                        .rail = rail,
                        .frame = frame,
                        .freed = std::vector<std::byte>(freed.begin(), freed.end()),
                        .payload = std::vector<std::byte>(payload.begin(), payload.end())});
    } else {
      ++dropped_frames_;
    }
    return;
  }
  const bool is_of_this_node = peers_[static_cast<std::size_t>(peer)].routes.empty();
  if (!is_of_this_node && frame.kind == FrameKind::kFull) {
    receive_freed(peer, freed);
    receive_full(peer, frame, payload);
    route(peer, rail).is_used = true;
  } else if (!is_of_this_node && frame.kind == FrameKind::kFree) {
    receive_freed(peer, payload);
  } else if (!is_of_this_node && frame.kind == FrameKind::kBye) {
    peers_[static_cast<std::size_t>(peer)].has_left = true;
  } else if (!is_of_this_node && frame.kind == FrameKind::kHello && frame.word <= 1) {
    Greeting& greeting = route(peer, rail).greeting;
    greeting.has_come = true;
    greeting.is_answered = greeting.is_answered || frame.word == 1;
  } else if (is_of_this_node || frame.kind != FrameKind::kLast) {
    ++dropped_frames_;
  }
}

void MirroredRings::receive_full(int peer, const Frame& frame, std::span<const std::byte> payload) {
  if (std::cmp_greater_equal(frame.port, geometry_.ports) ||
      payload.size() > geometry_.slot_bytes) {
    ++dropped_frames_;
    return;
  }
  const RingName name{.peer = peer, .outgoing = false, .port = static_cast<int>(frame.port)};
  std::uint64_t& due = ring(name).due[slot_of(frame.position)];
  if (due != frame.position ||
      channel::sequence_of(frame.word) != static_cast<std::uint32_t>(frame.position + 1)) {
    ++dropped_frames_;
    return;
  }
  due = kNone;
  if (!payload.empty()) {
    std::memcpy(
        memory_->payload(name, frame.position, payload.size()), payload.data(), payload.size());
  }
  memory_->tag(name, frame.position) = frame.tag;
  // Partner: channel::is_full in whichever thread of this rank runs the call.
  channel::store_release(memory_->full(name, frame.position), frame.word);
}

void MirroredRings::receive_freed(int peer, std::span<const std::byte> slots) {
  if (slots.size() % sizeof(FreedSlot) != 0) {
    ++dropped_frames_;
    return;
  }
  for (std::size_t offset = 0; offset < slots.size(); offset += sizeof(FreedSlot)) {
    FreedSlot freed;
    std::memcpy(&freed, slots.data() + offset, sizeof(freed));
    if (std::cmp_greater_equal(freed.port, geometry_.ports)) {
      ++dropped_frames_;
      continue;
    }
    const RingName name{.peer = peer, .outgoing = true, .port = static_cast<int>(freed.port)};
    std::uint64_t& due = ring(name).due[slot_of(freed.position)];
    if (due != freed.position) {
      ++dropped_frames_;
      continue;
    }
    due = kNone;
    channel::release_slot(memory_->free(name, freed.position), freed.position);
  }
}

bool MirroredRings::progress() {
  const bool moved = cards_->progress();
  const auto guard = cards_->lock();
  idle_rounds_ = moved || freed_ == 0 ? 0 : idle_rounds_ + 1;
  if (idle_rounds_ == kIdleRounds) {
    send_all_freed();
  }
  return moved;
}

bool MirroredRings::flush(const Needs& needs) {
  const auto guard = cards_->lock();
  bool is_done = std::ranges::none_of(
      batches_, [](const Batch& batch) { return batch.state == MessageState::kUnderWay; });
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
    for (std::size_t rail = 0; rail < routes.size(); ++rail) {
      const MessageState state = flush_route(peer, static_cast<int>(rail));
      is_done = is_done && state != MessageState::kUnderWay &&
                (state != MessageState::kFailed || !is_needed(peer, needs));
    }
  }
  return is_done;
}

// What has been sent to the peer since the last call ended. UCX's own flush waits for an answer of
// the peer, which may have returned to its program. Where a message may end before it has left, a
// frame more waits for the card alone.
MessageState MirroredRings::flush_route(int peer, int rail) {
  Route& to = route(peer, rail);
  if (to.is_flushed || to.last == MessageState::kUnderWay) {
    return to.last;
  }
  if (!cards_->card(rail).ends_when_left()) {
    send(peer, rail, {.frame = {.kind = FrameKind::kLast}}, to.last);
  } else {
    const auto has_failed = [](const auto& ring) {
      return ring && std::ranges::count(ring->states, MessageState::kFailed) > 0;
    };
    const auto is_lost = [&](const Batch& batch) {
      return batch.peer == peer && batch.state == MessageState::kFailed;
    };
    to.last = std::ranges::any_of(peers_[static_cast<std::size_t>(peer)].outgoing, has_failed) ||
                      std::ranges::any_of(batches_, is_lost)
                  ? MessageState::kFailed
                  : MessageState::kDone;
  }
  to.is_flushed = true;
  return to.last;
}

std::vector<MirroredRings::Unanswered> MirroredRings::greet(std::span<const int> rails_to) {
  const auto guard = cards_->lock();
  std::vector<Unanswered> unanswered;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peers_[static_cast<std::size_t>(peer)].routes.empty()) {
      continue;
    }
    // Slots of a ring go back over the rail of its messages.
    const std::set own{rails_to[static_cast<std::size_t>(peer)],
                       rails_to[static_cast<std::size_t>(rank_)]};
    for (int rail = 0; rail < cards_->size(); ++rail) {
      if ((own.contains(rail) || may_bundle_) && !greet_over(peer, rail)) {
        unanswered.push_back({.peer = peer, .rail = rail, .why = route(peer, rail).greeting.why});
      }
      route(peer, rail).is_used |= own.contains(rail);
    }
  }
  return unanswered;
}

// True once the peer has answered, and the answer to it has left: then the peer needs nothing more
// of this rank. A first message leaves after UCX has had the other end's reply to the connection.
// So what has come from the peer shows that no such reply is pending here; UCX 1.13 would abort the
// process if the peer or this rank left meanwhile.
bool MirroredRings::greet_over(int peer, int rail) {
  Route& to = route(peer, rail);
  Greeting& own = to.greeting;
  if (own.is_over) {
    return true;
  }
  if (const Status failure = to.failure_with(cards_->card(rail)); !failure.ok()) {
    own.why = failure;
    if (Clock::now() < own.next_try) {
      return false;
    }
    // It may be one of an earlier communicator that the peer has closed.
    cards_->close_endpoint(rail, to.address);
    to = {.address = to.address,
          .token = to.token,
          .greeting = {.has_come = own.has_come, .is_answered = own.is_answered, .why = failure}};
  }
  const auto say = [&](std::uint64_t word, bool& is_sent, MessageState& state) {
    if (!std::exchange(is_sent, true)) {
      own.next_try = Clock::now() + kRetry;
      send(peer,
           rail,
           {.frame = {.kind = FrameKind::kHello, .word = word}, .payload = {&kNothing, 1}},
           state);
    }
  };
  if (!own.has_come) {
    say(0, own.is_sent, own.hello);
  } else {
    say(1, own.answer_is_sent, own.answer);
  }
  own.is_over = own.is_answered && own.answer_is_sent && own.hello == MessageState::kDone &&
                own.answer == MessageState::kDone && flush_route(peer, rail) == MessageState::kDone;
  return own.is_over;
}

void MirroredRings::say_bye() {
  {
    const auto guard = cards_->lock();
    for (int peer = 0; peer < ranks_; ++peer) {
      auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
      for (std::size_t rail = 0; rail < routes.size(); ++rail) {
        if (routes[rail].endpoint >= 0 && routes[rail].last != MessageState::kUnderWay) {
          send(peer,
               static_cast<int>(rail),
               {.frame = {.kind = FrameKind::kBye}, .payload = {&kNothing, 1}},
               routes[rail].last);
        }
      }
    }
  }
  // What a card still holds when it is closed is lost, and peers would take this rank for lost.
  const auto end = Clock::now() + kByeTime;
  while (!flush([](int /*peer*/) { return false; }) && Clock::now() < end) {
    if (!progress()) {
      std::this_thread::yield();
    }
  }
}

void MirroredRings::sleep(Doorbell& bell,
                          std::chrono::nanoseconds limit,
                          const std::function<bool()>& look_again) {
  {
    const auto guard = cards_->lock();
    send_all_freed();
  }
  cards_->sleep(bell, limit, look_again);
}

Status MirroredRings::failure(const Needs& needs, bool has_waited_long) {
  if (has_waited_long) {
    cards_->notice_silence();
  }
  const auto guard = cards_->lock();
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
    if (routes.empty() || !is_needed(peer, needs)) {
      continue;
    }
    for (std::size_t rail = 0; rail < routes.size(); ++rail) {
      const Status status = routes[rail].failure_with(cards_->card(static_cast<int>(rail)));
      if (!status.ok() && routes[rail].is_used) {
        ErrorDetail detail;
        detail.blamed_ranks = {peer};
        return {status.code(),
                fmt::format("rail/{} ({}) from rank {} to rank {} has failed: {}",
                            rail,
                            cards_->name(static_cast<int>(rail)),
                            rank_,
                            peer,
                            status.message()),
                std::move(detail)};
      }
    }
  }
  return {};
}

}  // namespace sennit::rail
