// World: the shared segment of one communicator as this rank sees it: status lines, doorbells and
// rings, counts, what ranks with GPUs announce, and the processes of the other ranks.
#pragma once

#include "path/host/rings.hpp"
#include "path/shm/ring_pool.hpp"
#include "world/device_line.hpp"
#include "world/host_rank.hpp"
#include "world/message_log.hpp"
#include "world/pair_counts.hpp"
#include "world/peer_processes.hpp"
#include "world/rendezvous/rendezvous.hpp"
#include "world/status_line.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sennit {

using Clock = std::chrono::steady_clock;

// Host memory that GPUs copy through.
struct GpuStaging {
  int ranks = 0;
  // Of the rings of copy engines: one of each rank, and one for what each rank sends to another.
  host::RingShape shape{};
  std::byte* rings = nullptr;
  // For FIFOs of GPUs that do not reach each other: of all ranks, one after the other; empty where
  // they may not use the host's memory.
  std::span<std::byte> fifos{};

  [[nodiscard]] std::byte* ring(int rank) const {
    return rings + static_cast<std::size_t>(rank) * shape.bytes();
  }
  [[nodiscard]] std::byte* pair_ring(int sender, int reader) const {
    return ring(ranks * (1 + sender) + reader);
  }
};

class World {
 public:
  // What lies in the shared segment besides what each has.
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
  // Who this rank is; of ranks of several nodes also where they have met.
  [[nodiscard]] const Identity& identity() const { return membership_.identity; }
  [[nodiscard]] const Member& member(int rank) const {
    return membership_.members[static_cast<std::size_t>(rank)];
  }

  // Several nodes: each has a segment of this layout. Status lines of ranks of other nodes are
  // copies; other parts of theirs are not there.
  [[nodiscard]] int nodes() const { return membership_.nodes; }
  [[nodiscard]] int node_of(int rank) const { return member(rank).node; }
  [[nodiscard]] bool is_local(int rank) const { return peers_.is_local(rank); }
  [[nodiscard]] const PeerProcesses& peers() const { return peers_; }
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
  [[nodiscard]] const GpuStaging& gpu_staging() const { return gpu_staging_; }
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
  GpuStaging gpu_staging_;
  PeerProcesses peers_{membership_, lines_};
  Clock::time_point asked_at_{};
};

}  // namespace sennit
