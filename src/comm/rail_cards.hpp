// RailCards: the network cards of the communicators that one thread makes, or others on its behalf.
#pragma once

#include "path/rail/mirrored_rings.hpp"
#include "path/shm/ring_pool.hpp"
#include "world/rendezvous/rendezvous.hpp"

#include <memory>
#include <mutex>
#include <string>

namespace sennit {

// Any thread may call anything.
class RailCards {
 public:
  static std::shared_ptr<RailCards> of_this_thread();
  // Communicators that this thread makes from now on have these cards, which are those of a thread
  // that will use them.
  static void adopt(std::shared_ptr<RailCards> cards);

  // Those that SENNIT_RAILS names, opened at first use and closed with the last communicator.
  Result<std::shared_ptr<rail::CardSet>> open();
  // Null where they are not open.
  [[nodiscard]] std::shared_ptr<rail::CardSet> find() const;

 private:
  mutable std::mutex mutex_;
  std::weak_ptr<rail::CardSet> cards_;
};

// The rings of a rank of a new communicator, over the cards of this thread. Null where there are
// none; a warning says why. Messages to the rank come over the cards nearest to its GPU;
// `gpu_bus_id` is empty if it has none.
std::unique_ptr<rail::MirroredRings> make_rails(int rank, int ranks, const std::string& gpu_bus_id);

// Lets the cards of this thread carry on while it waits in a join: peers may wait for them.
JoinInterruption progressing(const JoinInterruption& interruption);

// The rings of one rank in its node's segment.
class PoolRings final : public rail::RingMemory {
 public:
  PoolRings(int rank, const shm::RingPool& pool) : rank_(rank), pool_(pool) {}

  [[nodiscard]] channel::Word& full(const rail::RingName& name,
                                    std::uint64_t position) const override {
    return ring(name).full(position);
  }
  [[nodiscard]] channel::Word& free(const rail::RingName& name,
                                    std::uint64_t position) const override {
    return ring(name).free(position);
  }
  [[nodiscard]] std::byte* payload(const rail::RingName& name,
                                   std::uint64_t position,
                                   std::size_t bytes) const override {
    return ring(name).payload(position, bytes);
  }
  [[nodiscard]] std::uint64_t& tag(const rail::RingName& name,
                                   std::uint64_t position) const override {
    return ring(name).tag(position);
  }

 private:
  [[nodiscard]] shm::Ring ring(const rail::RingName& name) const {
    return name.outgoing ? pool_.ring(rank_, name.peer, name.port)
                         : pool_.ring(name.peer, rank_, name.port);
  }

  int rank_;
  shm::RingPool pool_;
};

}  // namespace sennit
