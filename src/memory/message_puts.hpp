// MessagePuts: which buffers of a receiver its senders reach, so that kernels may store messages
// straight there (memory/message_put.hpp) and copy engines may put them (MessageCopies). Neither
// end waits for the other on the host:
//
//   1. A receiver that does not know of a sender whether it reaches the allocation of its buffer
//      announces it: says in shared memory what it is. The message goes another way.
//   2. The sender maps it when it next sends to that rank, and answers where it sees it.
//   3. The receiver reads the answer when it next receives from there. From then on it offers the
//      buffer.
//
// Memory that a program registers is announced before anything is received in it, so that any other
// calls do for the first two steps.
//
// docs/decisions/0029-offered-puts.md says why.
#pragma once

#include "memory/peer_buffers.hpp"
#include "world/world.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace sennit {

// From any thread: programs register memory beside their calls.
class MessagePuts {
 public:
  // `memory` and `world` outlive the result.
  MessagePuts(CudaDriver& driver, const DeviceMemory& memory, World& world);

  struct Place {
    std::byte* memory = nullptr;
    std::int64_t bytes = 0;
    bool takes_slow = true;  // also memory that copy engines are slow with
  };
  // Where `sender` sees such memory of this rank; null: not there, or not yet.
  std::byte* address_at(int sender, const Place& place);
  // Maps what `receiver` has announced. Not while a stream captures.
  void map_buffer_of(int receiver);
  // Whether this rank sees the memory that `receiver` has announced last. A hint that it reaches
  // what is received there next.
  [[nodiscard]] bool has_mapped_last_buffer_of(int receiver);

  // Announces the memory to all other ranks, allocation by allocation, each when the one before it
  // has been answered. A hint: what cannot be announced is passed over.
  void announce_to_all(std::byte* memory, std::size_t bytes);
  // Goes on with that, as far as the others have come. Takes a few loads where there is nothing to
  // do.
  void keep_up();
  // Whether others have announced what is not mapped here yet; and maps it, as map_buffer_of()
  // does.
  [[nodiscard]] bool has_announcements();
  void map_all_announced();

 private:
  // What this rank and another have announced each other.
  struct Peer {
    Peer(CudaDriver& driver, const DeviceMemory& memory, const World& world)
        : buffers(driver, memory, world) {}

    // One announcement at a time: the next one waits until this one has been answered.
    [[nodiscard]] bool may_announce() const { return answered == announced; }

    PeerBuffers buffers;
    std::uint64_t announced = 0;     // number of the last announcement to there
    std::uint64_t announced_id = 0;  // of its allocation
    std::uint64_t answered = 0;      // of the last whose answer was read
    std::uint64_t mapped = 0;        // of the last from there
    bool is_seen = false;            // whether that last one could be mapped
    std::deque<std::byte*> waiting;  // in allocations that are to be announced
  };

  [[nodiscard]] MessageLine& line(int rank, int peer) const;
  void read_answer(int sender);
  void announce(int sender, const BufferOffer& buffer);
  [[nodiscard]] bool reaches(int sender, const BufferOffer& buffer) const;
  [[nodiscard]] std::uint64_t last_number_of(int receiver) const;
  void map_announced(int receiver);
  void announce_what_waits();

  CudaDriver& driver_;
  const DeviceMemory& memory_;
  World& world_;
  std::mutex mutex_;                          // of the public functions
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
};

}  // namespace sennit
