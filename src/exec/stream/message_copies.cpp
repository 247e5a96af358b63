#include "exec/stream/message_copies.hpp"

#include "base/log.hpp"
#include "select/device_choice.hpp"
#include "world/host_wait.hpp"

#include <bit>
#include <thread>
#include <utility>

namespace sennit {
namespace {

constexpr std::int64_t kBytesPerNs = 390;
// What is fetched takes 5 % longer than what is put (`h200x4-copies-that-put`).
constexpr std::int64_t kGain = 20;

template <typename Queue>
auto& at(Queue& queue, std::uint64_t number) {
  return queue[number % stream::kMaxMessages];
}

// For how long a sender waits for a post: for what a put would gain. Of ranks that exchange
// messages one that put its own and had to fetch the other would move both with one copy engine, in
// twice the time.
std::chrono::nanoseconds patience(const MessageCopies::End& end) {
  const std::int64_t whole = end.operation.bytes() / kBytesPerNs;
  return std::chrono::nanoseconds(end.group_receives ? whole : whole / kGain);
}

}  // namespace

MessageCopies::MessageCopies(CudaDriver& driver,
                             const DeviceMemory& memory,
                             World& world,
                             std::vector<stream::RankWords*> words)
    : memory_(memory),
      world_(world),
      rings_(driver, world, memory.is_on_host()),
      engine_(driver, std::move(words), world.rank()) {
  for (int rank = 0; rank < world.size(); ++rank) {
    peers_.push_back(std::make_unique<Peer>(driver, memory, world));
  }
}

Result<std::unique_ptr<MessageCopies>> MessageCopies::create(
    CudaDriver& driver,
    const DeviceMemory& memory,
    World& world,
    std::vector<stream::RankWords*> words) {
  std::unique_ptr<MessageCopies> self(new MessageCopies(driver, memory, world, std::move(words)));
  SENNIT_RETURN_IF_ERROR(self->engine_.open());
  return self;
}

MessageLine& MessageCopies::line(int rank, int peer) const {
  return world_.device_line(rank).messages[static_cast<std::size_t>(peer)];
}

Result<std::byte*> MessageCopies::ring_of(const End& end) {
  const Operation& op = end.operation;
  std::byte* const ring =
      op.is_send ? rings_.to(op.peer, !end.is_capturing) : rings_.from(op.peer, !end.is_capturing);
  if (ring == nullptr) {
    return ring;
  }
  if (const Status opened = engine_.use_slots(rings_.shape()); !opened.ok()) {
    SENNIT_INFO("device", "messages do not share with host memory: {}", opened.message());
    return nullptr;
  }
  return ring;
}

Result<stream::Message> MessageCopies::message_of(const End& end,
                                                  const MessageLine::Offer& offer,
                                                  std::uint64_t number) {
  const Operation& op = end.operation;
  stream::Message message{.peer = op.peer,
                          .slot = static_cast<int>(number % stream::kMaxMessages),
                          .bytes = op.bytes(),
                          .is_put = offer.is_put,
                          .input = static_cast<const std::byte*>(op.send),
                          .output = static_cast<std::byte*>(op.recv),
                          .first_slot = offer.first_slot,
                          .is_met = offer.is_timed && (end.leaves_rest || offer.is_put)};
  SENNIT_ASSIGN_OR_RETURN(message.program, end.program_of({offer.host_share, offer.is_put}));
  if (offer.host_share > 0) {
    SENNIT_ASSIGN_OR_RETURN(message.ring, ring_of(end));
  }
  return message;
}

void MessageCopies::read_answers(int rank) {
  Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  while (peer.answered < peer.offered) {
    const std::uint64_t next = peer.answered + 1;
    const MessageLine::Answer answer = MessageLine::Answer::of(
        at(line(rank, world_.rank()).answers, next).load(std::memory_order_acquire));
    if (answer.number != next) {
      return;
    }
    if (answer.reaches_buffer) {
      peer.buffers.confirm(at(line(world_.rank(), rank).offers, next).buffer.id);
    }
    peer.reaches_ring |= answer.reaches_ring;
    peer.answered = next;
  }
}

// A place in the queue is free again when the receiver has answered.
Status MessageCopies::await_room(const End& end) {
  const int rank = end.operation.peer;
  const Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  return wait_on_host(end.trouble, [&] {
    read_answers(rank);
    return peer.offered - peer.answered < stream::kMaxMessages;
  });
}

stream::GroupId MessageCopies::next_group(std::uint32_t partners) {
  stream::GroupId group{.number = ++groups_, .partners = partners};
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    group.first_sent[rank] = static_cast<std::uint32_t>(peers_[rank]->offered + 1);
    group.first_received[rank] = static_cast<std::uint32_t>(peers_[rank]->posted + 1);
  }
  return group;
}

void MessageCopies::post(const End& end) {
  Peer& peer = *peers_[static_cast<std::size_t>(end.operation.peer)];
  const std::uint64_t number = ++peer.posted;
  MessageLine::Post& mine = at(line(world_.rank(), end.operation.peer).posts, number);
  mine.words = end.words;
  mine.group = end.group;
  mine.there = end.may_be_put ? end.there : nullptr;
  // Partner: the acquire in find_post().
  mine.number.store(number, std::memory_order_release);
}

const MessageLine::Post* MessageCopies::find_post(const End& end, std::uint64_t number) const {
  if (!end.may_be_put || !may_copy(end)) {
    return nullptr;
  }
  const MessageLine::Post& theirs = at(line(end.operation.peer, world_.rank()).posts, number);
  const Clock::time_point until = Clock::now() + patience(end);
  while (theirs.number.load(std::memory_order_acquire) != number) {
    if (Clock::now() >= until) {
      return nullptr;
    }
    std::this_thread::yield();  // the receiver may have this core
  }
  // A post of something else is none: who compares the logs of both ends reports it.
  return theirs.there != nullptr && theirs.words == end.words ? &theirs : nullptr;
}

void MessageCopies::describe_buffer(const End& end, MessageLine::Offer& offer) {
  using State = BufferOffer::State;
  PeerBuffers& buffers = peers_[static_cast<std::size_t>(end.operation.peer)]->buffers;
  offer.retired = {};
  if (end.leaves_rest || end.host_share == kWhole) {
    offer.buffer = {};
    return;
  }
  const Operation& op = end.operation;
  offer.buffer = buffers.offer(op.send, op.bytes());
  if (offer.buffer.state != State::kNew) {
    return;
  }
  // A new buffer often stands in the place of one that was freed.
  offer.retired = buffers.retired();
  if (offer.buffer.base != nullptr && memory_.is_of_this_process(op.peer)) {
    offer.buffer.state = State::kKnown;
  }
}

// Graphs of kernels and copies that threads of one process replay were seen to hang. The likely
// reason is that the launch of a graph waits with a lock of the process, for what another thread
// has yet to launch (docs/decisions/0043-streams-that-share-queues.md).
bool MessageCopies::may_copy(const End& end) const {
  return !end.is_capturing || !memory_.is_of_this_process(end.operation.peer);
}

bool MessageCopies::can_fetch(const End& end, const MessageLine::Offer& offer, int share) const {
  if (end.leaves_rest) {
    return share > 0 || offer.is_timed;
  }
  const bool suits = !offer.buffer.is_slow_to_copy || end.operation.request.name_a_way();
  return share == kWhole || (offer.buffer.state == BufferOffer::State::kKnown && suits);
}

void MessageCopies::decide(const End& end, MessageLine::Offer& offer) {
  const Operation& op = end.operation;
  Peer& peer = *peers_[static_cast<std::size_t>(op.peer)];
  // In a graph the messages of a group wait in a few streams: one peer could hold up another, whose
  // groups are cut differently. Of two ranks there is no other.
  const bool may_share =
      (offer.is_put || !end.shares_puts_alone) && (!end.is_capturing || world_.size() == 2);
  const bool is_reached = offer.has_ring && peer.reaches_ring && may_share && may_copy(end);
  int share = is_reached ? end.host_share : 0;
  offer.dynamic_from = end.dynamic_share ? end.host_share : -1;
  offer.is_timed = end.dynamic_share && is_reached && end.is_alone && !end.is_capturing &&
                   (end.leaves_rest || offer.is_put || can_fetch(end, offer, share));
  if (end.dynamic_share && is_reached) {
    const MessageShares::Next next =
        peer.shares.next(line(op.peer, world_.rank()), op.bytes(), share, offer.is_timed);
    share = next.share;
    offer.is_timed = next.is_timed;
  }
  const bool can_copy = may_copy(end) && (offer.is_put || can_fetch(end, offer, share));
  offer.host_share = can_copy ? share : MessageLine::Offer::kByKernels;
}

void MessageCopies::set_group(const End& end,
                              const stream::GroupId& others,
                              stream::Message& message) const {
  message.group = others;
  message.before = stream::messages_before(end.group, world_.rank(), others, end.operation.peer);
}

Result<MessageCopies::Decision> MessageCopies::offer(const End& end) {
  SENNIT_RETURN_IF_ERROR(await_room(end));
  Peer& peer = *peers_[static_cast<std::size_t>(end.operation.peer)];
  const std::uint64_t number = ++peer.offered;
  MessageLine::Offer& mine = at(line(world_.rank(), end.operation.peer).offers, number);
  mine.words = end.words;
  mine.group = end.group;
  describe_buffer(end, mine);
  mine.has_ring = false;
  if (end.host_share > 0) {
    SENNIT_ASSIGN_OR_RETURN(const std::byte* const ring, ring_of(end));
    mine.has_ring = ring != nullptr;
  }
  const MessageLine::Post* const post = find_post(end, number);
  mine.is_put = post != nullptr;
  decide(end, mine);
  Decision decision;
  if (mine.host_share != MessageLine::Offer::kByKernels) {
    const host::RingShape& shape = rings_.shape();
    mine.first_slot = mine.has_ring ? static_cast<std::int32_t>(peer.slots % shape.slots) : 0;
    SENNIT_ASSIGN_OR_RETURN(decision, message_of(end, mine, number));
    peer.slots += stream::slots_for(*decision->program, decision->bytes, shape);
    if (post != nullptr) {
      decision->output = post->there;
      set_group(end, post->group, *decision);
    }
  }
  // Partner: the acquire in accept().
  mine.number.store(number, std::memory_order_release);
  return decision;
}

// Also where the message itself needs nothing mapped: it is said once.
void MessageCopies::forget_retired(int rank, const MessageLine::Offer& offer, bool is_capturing) {
  PeerBuffers& buffers = peers_[static_cast<std::size_t>(rank)]->buffers;
  for (const std::uint64_t id : offer.retired) {
    buffers.forget_later(rank, id);
  }
  if (!is_capturing) {
    buffers.forget_now();
  }
}

bool MessageCopies::map(int rank, const MessageLine::Offer& offer, bool is_capturing) {
  PeerBuffers& buffers = peers_[static_cast<std::size_t>(rank)]->buffers;
  return !is_capturing && offer.buffer.state == BufferOffer::State::kNew &&
         buffers.locate(rank, offer.buffer).ok();
}

stream::Stopwatch* MessageCopies::watch_of(const End& end, const MessageLine::Offer& offer) {
  // While something is captured, nothing is measured, and nothing is asked that was. Of what is put
  // to several ranks of an exchange at once it is said together that it has arrived.
  const bool is_one_of_many = offer.is_put && std::popcount(offer.group.partners) > 2;
  if (offer.dynamic_from < 0 || end.is_capturing || is_one_of_many) {
    return nullptr;
  }
  const int rank = end.operation.peer;
  return peers_[static_cast<std::size_t>(rank)]->shares.take(
      {.bytes = end.operation.bytes(),
       .share = offer.host_share,
       .first = offer.dynamic_from,
       .is_timed = offer.is_timed && end.is_alone,
       .by_kernels = end.leaves_rest},
      line(world_.rank(), rank));
}

Result<MessageCopies::Decision> MessageCopies::accept(const End& end) {
  const int rank = end.operation.peer;
  Peer& peer = *peers_[static_cast<std::size_t>(rank)];
  const std::uint64_t number = ++peer.accepted;
  const MessageLine::Offer& theirs = at(line(rank, world_.rank()).offers, number);
  // An offer of something else is none: both ends have logged it, so that `trouble` knows.
  SENNIT_RETURN_IF_ERROR(wait_on_host(end.trouble, [&] {
    return theirs.number.load(std::memory_order_acquire) == number && theirs.words == end.words;
  }));
  // Another process has written it, and it says where to copy to.
  if (theirs.first_slot < 0 || theirs.first_slot >= std::max(1, rings_.shape().slots) ||
      theirs.host_share < MessageLine::Offer::kByKernels || theirs.host_share > kWhole) {
    return fail(Code::kInternalError,
                "rank {} offers a message from slot {} on, {} percent through host memory: that is "
                "none",
                rank,
                theirs.first_slot,
                theirs.host_share);
  }
  forget_retired(rank, theirs, end.is_capturing);
  MessageLine::Answer answer{.number = number};
  if (theirs.has_ring) {
    SENNIT_ASSIGN_OR_RETURN(const std::byte* const ring, ring_of(end));
    answer.reaches_ring = ring != nullptr;
  }
  Decision decision;
  if (theirs.host_share != MessageLine::Offer::kByKernels) {
    SENNIT_ASSIGN_OR_RETURN(decision, message_of(end, theirs, number));
    set_group(end, theirs.group, *decision);
    decision->watch = watch_of(end, theirs);
    if (!theirs.is_put && theirs.buffer.state == BufferOffer::State::kKnown) {
      SENNIT_ASSIGN_OR_RETURN(decision->input, peer.buffers.locate(rank, theirs.buffer));
    }
  }
  answer.reaches_buffer = !theirs.is_put && map(rank, theirs, end.is_capturing);
  // Partner: the acquire in read_answers(). The offer has been read: its place may be filled again.
  at(line(world_.rank(), rank).answers, number).store(answer.word(), std::memory_order_release);
  return decision;
}

}  // namespace sennit
