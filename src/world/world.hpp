// World: the shared segment of one communicator as this rank sees it: status lines, doorbells and
// rings, counts, what ranks with GPUs tell each other, and what it takes to know whether the other
// ranks live.
#pragma once

#include "path/host/rings.hpp"
#include "path/shm/ring_pool.hpp"
#include "world/device_line.hpp"
#include "world/host_rank.hpp"
#include "world/message_log.hpp"
#include "world/pair_counts.hpp"
#include "world/rendezvous/rendezvous.hpp"
#include "world/status_line.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sennit {

using Clock = std::chrono::steady_clock;

class World {
 public:
  // What lies in the shared segment beside what each has.
  struct Layout {
    shm::RingGeometry rings;
    host::RingShape host_rings;         // of each rank with a GPU
    std::size_t fifo_bytes_a_rank = 0;  // in whole pages; 0: no FIFOs in host memory
  };
  // Bytes of the shared segment.
  static std::size_t segment_bytes(const Layout& layout);

  World(Membership membership, const Layout& layout);

  [[nodiscard]] int rank() const { return membership_.identity.rank; }
  [[nodiscard]] int size() const { return membership_.identity.size; }
  [[nodiscard]] const std::string& key() const { return membership_.identity.key; }
  // Who this rank is; of ranks of several nodes also where they have met.
  [[nodiscard]] const Identity& identity() const { return membership_.identity; }
  [[nodiscard]] const Member& member(int rank) const {
    return membership_.members[static_cast<std::size_t>(rank)];
  }

  // Several nodes: each has a segment of this layout. Status lines of ranks of other nodes are
  // copies; other parts of theirs are not there.
  [[nodiscard]] int nodes() const { return membership_.nodes; }
  [[nodiscard]] int node_of(int rank) const { return member(rank).node; }
  [[nodiscard]] bool is_local(int rank) const { return node_of(rank) == node_of(this->rank()); }
  [[nodiscard]] int local_ranks() const;
  // Of all ranks; empty where there is one node.
  [[nodiscard]] std::vector<int> nodes_of_ranks() const;

  [[nodiscard]] HostRank& host_rank() { return host_rank_; }
  [[nodiscard]] StatusLine& line(int rank) const { return lines_[rank]; }
  [[nodiscard]] StatusLine& my_line() const { return lines_[rank()]; }
  [[nodiscard]] const PairCountTable& counts() const { return counts_; }
  // What `rank` has called with `peer`; written by `rank`.
  [[nodiscard]] MessageLog& message_log(int rank, int peer) const {
    return message_logs_[rank * size() + peer];
  }
  [[nodiscard]] DeviceLine& device_line(int rank) const { return device_lines_[rank]; }
  // Of all ranks, one after the other, in whole pages.
  [[nodiscard]] stream::RankWords* stream_words() const { return stream_words_; }
  // Of each rank, for the copy engines of GPUs, where the shape has slots.
  [[nodiscard]] const host::RingShape& host_ring_shape() const { return host_ring_shape_; }
  [[nodiscard]] std::byte* host_ring(int rank) const {
    return host_rings_ + static_cast<std::size_t>(rank) * host_ring_shape_.bytes();
  }
  // Of the same shape, for what one rank sends to another.
  [[nodiscard]] std::byte* pair_ring(int sender, int reader) const {
    return host_ring(size() * (1 + sender) + reader);
  }
  // For FIFOs of GPUs that do not reach each other: of all ranks, one after the other; empty where
  // they may not use the host's memory.
  [[nodiscard]] std::span<std::byte> host_fifos() const { return host_fifos_; }
  [[nodiscard]] Doorbell& bell(int rank) const { return bells_[rank]; }
  [[nodiscard]] std::uint32_t alarms() const {
    return header_->alarms.load(std::memory_order_acquire);
  }

  // Waits for all ranks; each tries to read a word of every other where `wanted`. The answer is the
  // same on all ranks: true when every rank could.
  Result<bool> probe_memory(bool wanted, double timeout_s);

  // Makes every waiting rank look at the lines now.
  void sound_alarm() const;
  // Those of this node alone.
  void sound_alarm_here() const;

  // Several nodes: has the lines of other nodes' ranks brought up to date soon; cheap to call
  // often.
  void ask_nodes();
  [[nodiscard]] std::uint32_t asks() const { return header_->asks.load(std::memory_order_acquire); }
  // Readable after wake_star(), by any rank of this node.
  [[nodiscard]] int waker() const { return membership_.waker.get(); }
  void wake_star() const;
  // The connections of this node's lowest rank, once.
  std::shared_ptr<NodeLinks> take_links() { return std::move(membership_.links); }

  // The ranks whose process has ended; one system call for all. A thread of this process never is
  // among them.
  [[nodiscard]] std::vector<int> dead_ranks() const;
  [[nodiscard]] bool is_dead(int rank) const;
  // Whose node no longer answers.
  [[nodiscard]] bool is_lost(int rank) const;
  // On which any of the ranks may run. Launchers often bind each rank to a core of its own, so one
  // rank's cores alone say little.
  [[nodiscard]] int usable_cores() const;
  // Stopped by a signal or a debugger, as far as /proc tells.
  [[nodiscard]] bool is_stopped(int rank) const;
  // "rank 3 (node7 pid 4711)"
  [[nodiscard]] std::string describe(int rank) const;

 private:
  // Sleeps until line(rank).probe has reached at least `state` on all ranks.
  Status await_probe(ProbeState state, Clock::time_point deadline);

  Membership membership_;
  ControlHeader* header_;
  StatusLine* lines_;
  Doorbell* bells_;
  PairCountTable counts_;
  MessageLog* message_logs_;
  DeviceLine* device_lines_;
  stream::RankWords* stream_words_;
  HostRank host_rank_;
  host::RingShape host_ring_shape_;
  std::byte* host_rings_;
  std::span<std::byte> host_fifos_;
  Clock::time_point asked_at_{};
};

}  // namespace sennit
