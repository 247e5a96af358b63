#include "memory/message_puts.hpp"

#include "base/log.hpp"

#include <algorithm>

namespace sennit {

MessagePuts::MessagePuts(CudaDriver& driver, const DeviceMemory& memory, World& world)
    : driver_(driver), memory_(memory), world_(world) {
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
  // Partner: the release in map_buffer_of().
  if (peer.answered < peer.announced &&
      theirs.number.load(std::memory_order_acquire) == peer.announced) {
    peer.buffers.confirm(peer.announced_id, theirs.base);
    peer.answered = peer.announced;
  }
}

void MessagePuts::announce(int sender, const BufferOffer& buffer) {
  Peer& peer = *peers_[static_cast<std::size_t>(sender)];
  MessageLine::Announcement& mine = line(world_.rank(), sender).announcement;
  mine.buffer = buffer;
  mine.buffer.offset = 0;
  // A new buffer often stands in the place of one that was freed.
  mine.retired = peer.buffers.retired();
  peer.announced_id = buffer.id;
  // Partner: the acquire in map_buffer_of().
  mine.number.store(++peer.announced, std::memory_order_release);
}

// Without mapping it.
bool MessagePuts::reaches(int sender, const BufferOffer& buffer) const {
  return sender == world_.rank() || (buffer.base != nullptr && memory_.is_of_this_process(sender));
}

std::byte* MessagePuts::address_at(int sender, const Place& place) {
  const std::scoped_lock lock(mutex_);
  read_answer(sender);
  Peer& peer = *peers_[static_cast<std::size_t>(sender)];
  PeerBuffers& buffers = peer.buffers;
  const BufferOffer buffer = buffers.offer(place.memory, place.bytes, peer.may_announce());
  if (buffer.is_slow_to_copy && !place.takes_slow) {
    return nullptr;
  }
  switch (buffer.state) {
    case BufferOffer::State::kNew:
      if (reaches(sender, buffer)) {
        if (sender == world_.rank()) {
          (void)buffers.retired();  // nobody has mapped them
        } else {
          buffers.retire_open();
        }
        buffers.confirm(buffer.id, place.memory - buffer.offset);
        return place.memory;
      }
      if (peer.may_announce()) {
        announce(sender, buffer);
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

// Of what `receiver` has announced. Partner: the release in announce(). An announcement is not
// written again before it has been answered.
std::uint64_t MessagePuts::last_number_of(int receiver) const {
  return line(receiver, world_.rank()).announcement.number.load(std::memory_order_acquire);
}

void MessagePuts::map_buffer_of(int receiver) {
  const std::scoped_lock lock(mutex_);
  map_announced(receiver);
}

void MessagePuts::map_announced(int receiver) {
  Peer& peer = *peers_[static_cast<std::size_t>(receiver)];
  const MessageLine::Announcement& theirs = line(receiver, world_.rank()).announcement;
  const std::uint64_t number = last_number_of(receiver);
  if (number == peer.mapped) {
    return;
  }
  for (const std::uint64_t id : theirs.retired) {
    peer.buffers.forget_later(receiver, id);
  }
  peer.buffers.forget_now();
  const Result<std::byte*> base = peer.buffers.locate(receiver, theirs.buffer);
  if (base.ok()) {
    const bool is_ipc = theirs.buffer.handle.kind == MemoryHandle::Kind::kIpc;
    SENNIT_INFO("device",
                "memory of {} is mapped by {} for what is sent there",
                world_.peers().describe(receiver),
                is_ipc ? "CUDA IPC" : "a descriptor");
  } else {
    SENNIT_INFO("device",
                "messages to {} do not go straight into its memory: {}",
                world_.peers().describe(receiver),
                base.status().message());
  }
  MessageLine::Mapped& mine = line(world_.rank(), receiver).mapped;
  mine.base = base.ok() ? *base : nullptr;
  mine.number.store(number, std::memory_order_release);
  peer.mapped = number;
  peer.is_seen = base.ok();
}

bool MessagePuts::has_mapped_last_buffer_of(int receiver) {
  const std::scoped_lock lock(mutex_);
  const Peer& peer = *peers_[static_cast<std::size_t>(receiver)];
  return memory_.is_of_this_process(receiver) ||
         (peer.is_seen && last_number_of(receiver) == peer.mapped);
}

void MessagePuts::announce_to_all(std::byte* memory, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  for (std::byte* at = memory; at < memory + bytes;) {
    const Result<Allocation> allocation = driver_.allocation_of(at);
    if (!allocation.ok() || allocation->base + allocation->bytes <= at) {
      break;
    }
    for (const std::unique_ptr<Peer>& peer : peers_) {
      if (std::ranges::find(peer->waiting, at) == peer->waiting.end()) {
        peer->waiting.push_back(at);
      }
    }
    at = allocation->base + allocation->bytes;
  }
  announce_what_waits();
}

void MessagePuts::keep_up() {
  const std::scoped_lock lock(mutex_);
  announce_what_waits();
}

void MessagePuts::announce_what_waits() {
  for (int sender = 0; sender < world_.size(); ++sender) {
    Peer& peer = *peers_[static_cast<std::size_t>(sender)];
    read_answer(sender);
    while (peer.may_announce() && !peer.waiting.empty()) {
      std::byte* const memory = peer.waiting.front();
      peer.waiting.pop_front();
      const BufferOffer buffer = peer.buffers.offer(memory, 1);
      if (buffer.state != BufferOffer::State::kNew) {
        continue;
      }
      if (reaches(sender, buffer)) {
        peer.buffers.confirm(buffer.id, memory - buffer.offset);
      } else {
        announce(sender, buffer);
      }
    }
  }
}

bool MessagePuts::has_announcements() {
  const std::scoped_lock lock(mutex_);
  for (int receiver = 0; receiver < world_.size(); ++receiver) {
    if (last_number_of(receiver) != peers_[static_cast<std::size_t>(receiver)]->mapped) {
      return true;
    }
  }
  return false;
}

void MessagePuts::map_all_announced() {
  const std::scoped_lock lock(mutex_);
  for (int receiver = 0; receiver < world_.size(); ++receiver) {
    map_announced(receiver);
  }
}

}  // namespace sennit
