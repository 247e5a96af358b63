// HostRank and BoundProgram: a program together with the shared memory of the rank that runs it.
#pragma once

#include "exec/cpu/doorbell.hpp"
#include "exec/cpu/program.hpp"
#include "path/cma/peer_memory.hpp"
#include "path/shm/ring_pool.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sennit {

// For tests: a message of a bundle that took `path` is seen only after this time, as if it took so
// long to arrive.
struct SlowPath {
  PathKind path = PathKind::kShm;
  std::chrono::microseconds delay{};
};

// What the engine needs of one rank of a communicator; outlives its programs and jobs.
struct HostRank {
  HostRank(int rank_number, shm::RingPool pool, Doorbell* all_bells);

  // Messages so far on the ring to (from) `peer` at `port`.
  std::uint64_t& sent(int peer, int port) { return sent_[at(peer, port)]; }
  std::uint64_t& received(int peer, int port) { return received_[at(peer, port)]; }
  // The first message on the ring to `peer` that is not known to have a free slot. May lag behind.
  std::uint64_t& credit(int peer, int port) { return credits_[at(peer, port)]; }

  int rank;
  shm::RingPool rings;
  Doorbell* bells;  // by rank
  std::vector<cma::PeerMemory> peers;
  std::optional<SlowPath> slow_path;

 private:
  [[nodiscard]] std::size_t at(int peer, int port) const {
    return static_cast<std::size_t>(peer) * static_cast<std::size_t>(rings.geometry().ports) +
           static_cast<std::size_t>(port);
  }

  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
  std::vector<std::uint64_t> credits_;
};

// A program with its rings looked up. `rank_of_role` maps the plan's ranks to the communicator's;
// empty when they are the same (all but send_recv).
class BoundProgram {
 public:
  struct BoundLink {
    shm::Ring ring;
    Doorbell* bell;           // of the peer
    std::uint64_t* position;  // messages so far, of the rank
    std::uint64_t* credit;    // of an outgoing link, see HostRank
    const cma::PeerMemory* memory;
    int peer;
    int messages_per_tile;
    PathKind path;
    Protocol protocol;
  };

  BoundProgram(Program program, HostRank& rank, std::span<const int> rank_of_role);

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<BoundLink>& links() const { return links_; }
  [[nodiscard]] const HostRank& rank() const { return *rank_; }

 private:
  Program program_;
  HostRank* rank_;
  std::vector<BoundLink> links_;
};

}  // namespace sennit
