#include "path/rail/mirrored_rings.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace sennit::rail {
namespace {

// More than any peers that keep to the protocol send before this rank has opened its rings: they
// stop when their slots are full.
constexpr std::size_t kMostEarlyFrames = 65536;

Secret random_secret() {
  Secret secret{};
  SENNIT_CHECK(::getrandom(secret.data(), secret.size(), 0) == static_cast<ssize_t>(secret.size()),
               "the system gives no random bytes");
  return secret;
}

}  // namespace

MirroredRings::MirroredRings(std::shared_ptr<CardSet> cards, int rank, int ranks)
    : cards_(std::move(cards)),
      rank_(rank),
      ranks_(ranks),
      secret_(random_secret()),
      peers_(static_cast<std::size_t>(ranks)) {
  const auto guard = cards_->lock();
  for (int peer = 0; peer < ranks_; ++peer) {
    for (int rail = 0; rail < cards_->size(); ++rail) {
      cards_->set_receiver(rail,
                           token_of(secret_, peer, rail),
                           [this, peer](const Frame& frame, std::span<const std::byte> payload) {
                             receive(peer, frame, payload);
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
  return other.routes[static_cast<std::size_t>(rail)].last == MessageState::kUnderWay ||
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
  return {.secret = secret_, .card_addresses = cards_->addresses()};
}

Status MirroredRings::open(std::unique_ptr<RingMemory> memory,
                           const RingGeometry& geometry,
                           std::span<const std::string> introductions) {
  const auto guard = cards_->lock();
  geometry_ = geometry;
  for (int peer = 0; peer < ranks_; ++peer) {
    const std::string& text = introductions[static_cast<std::size_t>(peer)];
    if (text.empty()) {
      continue;
    }
    const auto introduction = Introduction::parse(text);
    if (!introduction) {
      return fail(Code::kInvalidArgument,
                  "rank {} described its network cards in a form that is not known here",
                  peer);
    }
    if (std::cmp_not_equal(introduction->card_addresses.size(), cards_->size())) {
      return fail(
          Code::kInvalidArgument,
          "rank {} has {} network cards for messages between nodes, rank {} has {}; name as "
          "many on every node in SENNIT_RAILS",
          peer,
          introduction->card_addresses.size(),
          rank_,
          cards_->size());
    }
    Peer& other = peers_[static_cast<std::size_t>(peer)];
    other.outgoing.resize(static_cast<std::size_t>(geometry.ports));
    other.incoming.resize(static_cast<std::size_t>(geometry.ports));
    for (int rail = 0; rail < cards_->size(); ++rail) {
      other.routes.push_back(
          {.address = introduction->card_addresses[static_cast<std::size_t>(rail)],
           .token = token_of(introduction->secret, rank_, rail)});
    }
  }
  memory_ = std::move(memory);
  for (const EarlyFrame& early : std::exchange(early_, {})) {
    receive(early.peer, early.frame, early.payload);
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

void MirroredRings::send(
    int peer, int rail, Frame frame, std::span<const std::byte> payload, MessageState& state) {
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
  frame.token = to.token;
  frame.bytes = payload.size();
  to.is_flushed = false;
  cards_->card(rail).send(to.endpoint, std::as_bytes(std::span(&frame, 1)), payload, state);
}

void MirroredRings::publish(
    int peer, int rail, int port, std::uint64_t position, std::uint64_t word, std::size_t bytes) {
  const auto guard = cards_->lock();
  const RingName name{.peer = peer, .outgoing = true, .port = port};
  Ring& out = ring(name);
  const std::size_t slot = slot_of(position);
  out.due[slot] = position;
  send(peer,
       rail,
       {.kind = FrameKind::kFull,
        .port = static_cast<std::uint32_t>(port),
        .word = word,
        .position = position},
       {memory_->payload(name, position, bytes), bytes},
       out.states[slot]);
}

bool MirroredRings::is_sent(int peer, int port, std::uint64_t position) {
  const auto guard = cards_->lock();
  const auto& out = peers_[static_cast<std::size_t>(peer)].outgoing[static_cast<std::size_t>(port)];
  return !out || out->states[slot_of(position)] != MessageState::kUnderWay;
}

void MirroredRings::release(int peer, int rail, int port, std::uint64_t position) {
  const auto guard = cards_->lock();
  ring({.peer = peer, .outgoing = false, .port = port}).due[slot_of(position)] =
      position + geometry_.slots;
  std::vector<FreedSlot>& freed = route(peer, rail).freed;
  freed.push_back({.port = static_cast<std::uint64_t>(port), .position = position});
  ++freed_;
  // One by one they would cost as much as the messages.
  if (freed.size() >= std::max<std::size_t>(1, geometry_.slots / 2)) {
    send_freed(peer, rail);
  }
}

void MirroredRings::send_freed(int peer, int rail) {
  std::vector<FreedSlot>& freed = route(peer, rail).freed;
  if (freed.empty()) {
    return;
  }
  auto batch = std::ranges::find_if(
      batches_, [](const Batch& other) { return other.state != MessageState::kUnderWay; });
  if (batch == batches_.end()) {
    batch = batches_.emplace(batches_.end());
  }
  freed_ -= freed.size();
  batch->peer = peer;
  batch->rail = rail;
  batch->slots.clear();
  std::swap(batch->slots, freed);
  send(peer,
       rail,
       {.kind = FrameKind::kFree, .position = batch->slots.size()},
       std::as_bytes(std::span(batch->slots)),
       batch->state);
}

void MirroredRings::send_all_freed() {
  if (freed_ == 0) {
    return;
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
    for (std::size_t rail = 0; rail < routes.size(); ++rail) {
      send_freed(peer, static_cast<int>(rail));
    }
  }
}

void MirroredRings::receive(int peer, const Frame& frame, std::span<const std::byte> payload) {
  if (memory_ == nullptr) {
    if (early_.size() < kMostEarlyFrames) {
      early_.push_back({.peer = peer,
                        .frame = frame,
                        .payload = std::vector<std::byte>(payload.begin(), payload.end())});
    } else {
      ++dropped_frames_;
    }
    return;
  }
  const bool is_of_this_node = peers_[static_cast<std::size_t>(peer)].routes.empty();
  if (!is_of_this_node && frame.kind == FrameKind::kFull) {
    receive_full(peer, frame, payload);
  } else if (!is_of_this_node && frame.kind == FrameKind::kFree) {
    receive_free(peer, frame, payload);
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
  // Partner: channel::is_full in whichever thread of this rank runs the call.
  channel::store_release(memory_->full(name, frame.position), frame.word);
}

void MirroredRings::receive_free(int peer, const Frame& frame, std::span<const std::byte> payload) {
  if (payload.size() % sizeof(FreedSlot) != 0 ||
      payload.size() / sizeof(FreedSlot) != frame.position) {
    ++dropped_frames_;
    return;
  }
  for (std::size_t offset = 0; offset < payload.size(); offset += sizeof(FreedSlot)) {
    FreedSlot freed;
    std::memcpy(&freed, payload.data() + offset, sizeof(freed));
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
  if (cards_->progress()) {
    return true;
  }
  if (freed_ > 0) {
    const auto guard = cards_->lock();
    send_all_freed();
  }
  return false;
}

// UCX's own flush waits for an answer of the peer, which may have returned to its program. A frame
// more waits for the card alone.
bool MirroredRings::flush(const Needs& needs) {
  const auto guard = cards_->lock();
  send_all_freed();
  bool is_done = true;
  for (int peer = 0; peer < ranks_; ++peer) {
    auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
    for (std::size_t rail = 0; rail < routes.size(); ++rail) {
      Route& to = routes[rail];
      if (!to.is_flushed && to.last != MessageState::kUnderWay) {
        send(peer, static_cast<int>(rail), {.kind = FrameKind::kLast}, {}, to.last);
        to.is_flushed = true;
      }
      is_done = is_done && to.last != MessageState::kUnderWay &&
                (to.last != MessageState::kFailed || !needs(peer));
    }
  }
  return is_done;
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

Status MirroredRings::failure(const Needs& needs) {
  const auto guard = cards_->lock();
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto& routes = peers_[static_cast<std::size_t>(peer)].routes;
    if (routes.empty() || !needs(peer)) {
      continue;
    }
    for (std::size_t rail = 0; rail < routes.size(); ++rail) {
      const Route& to = routes[rail];
      const Status status = !to.failure.ok() || to.endpoint < 0
                                ? to.failure
                                : cards_->card(static_cast<int>(rail)).failure(to.endpoint);
      if (!status.ok()) {
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
