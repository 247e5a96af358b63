#include "comm/device/message_puts.hpp"

#include "base/log.hpp"

namespace sennit {

MessagePuts::MessagePuts(CudaDriver& driver, const DeviceMemory& memory, World& world)
    : memory_(memory), world_(world) {
  for (int rank = 0; rank < world.size(); ++rank) {
    peers_.push_back(std::make_unique<Peer>(driver, memory, world));
  }
}

MessageLine& MessagePuts::line(int rank, int peer) const {
  return world_.device_line(rank).messages[static_cast<std::size_t>(peer)];
}

void MessagePuts::read_answer(int sender) {
  Peer& peer = *peers_[static_cast<std::size_t>(sender)];
  const MessageLine::Mapped& theirs = line(sender, world_.rank()).mapped;
  // Partner: the release in map_loan_of().
  if (peer.answered < peer.lent && theirs.number.load(std::memory_order_acquire) == peer.lent) {
    peer.buffers.confirm(peer.lent_id, theirs.base);
    peer.answered = peer.lent;
  }
}

void MessagePuts::lend(int sender, const BufferOffer& buffer) {
  Peer& peer = *peers_[static_cast<std::size_t>(sender)];
  MessageLine::Loan& mine = line(world_.rank(), sender).loan;
  mine.buffer = buffer;
  mine.buffer.offset = 0;
  // A new buffer often stands in the place of one that was freed.
  mine.retired = peer.buffers.retired();
  peer.lent_id = buffer.id;
  // Partner: the acquire in map_loan_of().
  mine.number.store(++peer.lent, std::memory_order_release);
}

std::byte* MessagePuts::address_at(int sender, std::byte* memory, std::int64_t bytes) {
  read_answer(sender);
  Peer& peer = *peers_[static_cast<std::size_t>(sender)];
  PeerBuffers& buffers = peer.buffers;
  const BufferOffer buffer = buffers.offer(memory, bytes, peer.may_lend());
  switch (buffer.state) {
    case BufferOffer::State::kNew:
      if (sender == world_.rank() ||
          (buffer.base != nullptr && memory_.is_of_this_process(sender))) {
        (void)buffers.retired();  // nobody has mapped them
        buffers.confirm(buffer.id, memory - buffer.offset);
        return memory;
      }
      if (peer.may_lend()) {
        lend(sender, buffer);
      }
      return nullptr;
    case BufferOffer::State::kKnown:
      return buffers.address_there(buffer);
    case BufferOffer::State::kUnused:
    case BufferOffer::State::kUnreachable:
      return nullptr;
  }
  return nullptr;
}

void MessagePuts::map_loan_of(int receiver) {
  Peer& peer = *peers_[static_cast<std::size_t>(receiver)];
  const MessageLine::Loan& theirs = line(receiver, world_.rank()).loan;
  // Partner: the release in lend(). It is not written again before it has been answered.
  const std::uint64_t number = theirs.number.load(std::memory_order_acquire);
  if (number == peer.mapped) {
    return;
  }
  for (const std::uint64_t id : theirs.retired) {
    peer.buffers.forget_later(receiver, id);
  }
  peer.buffers.forget_now();
  const Result<std::byte*> base = peer.buffers.locate(receiver, theirs.buffer);
  if (!base.ok()) {
    SENNIT_INFO("device",
                "messages to {} go by packets: {}",
                world_.describe(receiver),
                base.status().message());
  }
  MessageLine::Mapped& mine = line(world_.rank(), receiver).mapped;
  mine.base = base.ok() ? *base : nullptr;
  mine.number.store(number, std::memory_order_release);
  peer.mapped = number;
}

}  // namespace sennit
