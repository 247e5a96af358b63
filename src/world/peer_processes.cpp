#include "world/peer_processes.hpp"

#include "base/usable_cores.hpp"

#include <poll.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace sennit {

bool PeerProcesses::is_local(int rank) const {
  return member(rank).node == member(membership_.identity.rank).node;
}

int PeerProcesses::ranks_of_machine() const {
  const int here = member(membership_.identity.rank).machine;
  return static_cast<int>(std::ranges::count(membership_.members, here, &Member::machine));
}

std::vector<int> PeerProcesses::dead() const {
  // poll() passes over negative descriptors, which stand for threads of this process.
  std::vector<pollfd> entries;
  entries.reserve(membership_.members.size());
  for (const Member& member : membership_.members) {
    entries.push_back({.fd = member.process.get(), .events = POLLIN, .revents = 0});
  }
  std::vector<int> dead;
  if (::poll(entries.data(), entries.size(), 0) > 0) {
    for (std::size_t rank = 0; rank < entries.size(); ++rank) {
      if ((entries[rank].revents & POLLIN) != 0) {
        dead.push_back(static_cast<int>(rank));
      }
    }
  }
  for (int rank = 0; std::cmp_less(rank, membership_.members.size()); ++rank) {
    if (!is_local(rank) && is_reported(rank, kReportedDead | kReportedLost)) {
      dead.push_back(rank);
    }
  }
  std::ranges::sort(dead);
  return dead;
}

bool PeerProcesses::is_lost(int rank) const {
  return !is_local(rank) && is_reported(rank, kReportedLost);
}

bool PeerProcesses::is_dead(int rank) const {
  const std::vector<int> ended = dead();
  return std::ranges::find(ended, rank) != ended.end();
}

int PeerProcesses::usable_cores() const {
  const int here = member(membership_.identity.rank).machine;
  std::vector<pid_t> pids;
  for (int rank = 0; std::cmp_less(rank, membership_.members.size()); ++rank) {
    if (member(rank).machine == here) {
      pids.push_back(is_local(rank) ? member(rank).pid : member(rank).pid_there);
    }
  }
  return sennit::usable_cores(pids);
}

bool PeerProcesses::is_stopped(int rank) const {
  if (!is_local(rank)) {
    return is_reported(rank, kReportedStopped);
  }
  const pid_t pid = member(rank).pid;
  if (pid <= 0) {
    return false;
  }
  // The state is the first word behind the name, which is in parentheses and may hold any others.
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() &&
         (text[end + 2] == 'T' || text[end + 2] == 't');
}

std::string PeerProcesses::describe(int rank) const {
  const Member& of = member(rank);
  return fmt::format("rank {} ({} pid {})", rank, of.host, is_local(rank) ? of.pid : of.pid_there);
}

}  // namespace sennit
