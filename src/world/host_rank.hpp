// HostRank: what one rank of a communicator works with: rings, doorbells, the memory of its peers.
#pragma once

#include "channel/doorbell.hpp"
#include "machine/path_kind.hpp"
#include "path/cma/peer_memory.hpp"
#include "path/rail/mirrored_rings.hpp"
#include "path/shm/ring_pool.hpp"
#include "path/shm/slot_stores.hpp"
#include "world/status_line.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace sennit {

// For tests: a message of a bundle that took `path` is seen only after this time, as if it took so
// long to arrive.
struct SlowPath {
  PathKind path = PathKind::kShm;
  std::chrono::microseconds delay{};
};

// What the cpu engine needs of one rank of a communicator; outlives its programs and jobs.
struct HostRank {
  HostRank(int rank_number, shm::RingPool pool, Doorbell* all_bells);

  // Messages so far on the ring to (from) `peer` at `port`.
  std::uint64_t& sent(int peer, int port) { return sent_[at(peer, port)]; }
  std::uint64_t& received(int peer, int port) { return received_[at(peer, port)]; }
  // The first message on the ring to `peer` that is not known to have a free slot. May lag behind.
  std::uint64_t& credit(int peer, int port) { return credits_[at(peer, port)]; }

  shm::SlotStores& stores(int peer, int port) { return stores_[at(peer, port)]; }

  int rank;
  shm::RingPool rings;
  Doorbell* bells;                    // by rank
  const StatusLine* lines = nullptr;  // by rank; null: a peer never gives up a call
  std::vector<cma::PeerMemory> peers;
  std::optional<SlowPath> slow_path;
  // Where there are several nodes: the node of each rank, the rail over which messages to it come,
  // and who carries them; null: nobody.
  std::vector<int> nodes{};
  std::vector<int> rails_to{};
  rail::MirroredRings* rails = nullptr;

  [[nodiscard]] int rail_to(int reader) const {
    return rails_to.empty() ? -1 : rails_to[static_cast<std::size_t>(reader)];
  }
  [[nodiscard]] bool is_on_another_node(int peer) const {
    return !nodes.empty() &&
           nodes[static_cast<std::size_t>(peer)] != nodes[static_cast<std::size_t>(rank)];
  }

 private:
  [[nodiscard]] std::size_t at(int peer, int port) const {
    return static_cast<std::size_t>(peer) * static_cast<std::size_t>(rings.geometry().ports) +
           static_cast<std::size_t>(port);
  }

  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
  std::vector<std::uint64_t> credits_;
  std::vector<shm::SlotStores> stores_;
};

}  // namespace sennit
