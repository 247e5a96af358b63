// BoundProgram: a program together with the shared memory of the rank that runs it.
#pragma once

#include "exec/cpu/program.hpp"
#include "world/host_rank.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace sennit {

// A program with its rings looked up. `rank_of_role` maps the plan's ranks to the communicator's;
// empty when they are the same (all but send_recv).
class BoundProgram {
 public:
  struct BoundLink {
    shm::Ring ring;
    Doorbell* bell;           // of the peer
    std::uint64_t* position;  // messages so far, of the rank
    std::uint64_t* credit;    // of an outgoing link, see HostRank
    shm::SlotStores* stores;  // of an outgoing link
    const cma::PeerMemory* memory;
    const StatusLine* line;  // of the peer; may be null
    int peer;
    int port;
    int messages_per_tile;
    Path path;
    Protocol protocol;
    int rail;  // that carries the messages; -1: none, the peer is of this node

    // The program of a rank that gives up a call may use its buffers again. Such a rank says so in
    // its line before the call returns: what was read before this is asked was intact if the line
    // says nothing.
    [[nodiscard]] bool has_given_up() const {
      std::atomic_thread_fence(std::memory_order_acquire);
      return line != nullptr && line->state.load(std::memory_order_relaxed) != RankState::kActive;
    }
  };

  BoundProgram(Program program, HostRank& rank, std::span<const int> rank_of_role);

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<BoundLink>& links() const { return links_; }
  [[nodiscard]] const HostRank& rank() const { return *rank_; }
  // Null: all ranks are of one node.
  [[nodiscard]] rail::MirroredRings* rails() const { return rank_->rails; }
  [[nodiscard]] bool has_rails() const {
    return std::ranges::any_of(links_, [](const BoundLink& link) { return link.rail >= 0; });
  }

 private:
  Program program_;
  HostRank* rank_;
  std::vector<BoundLink> links_;
};

}  // namespace sennit
