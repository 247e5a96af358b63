// PeerProcesses: the processes of a communicator's ranks: which of them have ended, stand still, or
// can no longer be reached. Of ranks on other nodes their own node reports it, in their lines.
#pragma once

#include "world/rendezvous/rendezvous.hpp"
#include "world/status_line.hpp"

#include <string>
#include <vector>

namespace sennit {

class PeerProcesses {
 public:
  // Both outlive it; `lines` are those of all ranks.
  PeerProcesses(const Membership& membership, const StatusLine* lines)
      : membership_(membership), lines_(lines) {}

  [[nodiscard]] bool is_local(int rank) const;
  // How many ranks this machine has, on whatever nodes.
  [[nodiscard]] int ranks_of_machine() const;
  // On which any of them may run. Launchers often bind each rank to a core of its own, so one
  // rank's cores alone say little.
  [[nodiscard]] int usable_cores() const;

  // The ranks whose process has ended; one system call for all. A thread of this process never is
  // among them.
  [[nodiscard]] std::vector<int> dead() const;
  [[nodiscard]] bool is_dead(int rank) const;
  // Whether the rank's node no longer answers.
  [[nodiscard]] bool is_lost(int rank) const;
  // Stopped by a signal or a debugger, as far as /proc says.
  [[nodiscard]] bool is_stopped(int rank) const;
  // "rank 3 (node7 pid 4711)"
  [[nodiscard]] std::string describe(int rank) const;

 private:
  [[nodiscard]] const Member& member(int rank) const {
    return membership_.members[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool is_reported(int rank, std::uint32_t what) const {
    return (lines_[rank].reported.load(std::memory_order_acquire) & what) != 0;
  }

  const Membership& membership_;
  const StatusLine* lines_;
};

}  // namespace sennit
