#include "world/world.hpp"

#include "base/seconds.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace sennit {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t lines_offset() { return sizeof(ControlHeader); }
std::size_t bells_offset(int ranks) {
  return lines_offset() + static_cast<std::size_t>(ranks) * sizeof(StatusLine);
}
std::size_t counts_offset(int ranks) {
  return bells_offset(ranks) + static_cast<std::size_t>(ranks) * sizeof(Doorbell);
}
std::size_t message_logs_offset(int ranks) {
  return counts_offset(ranks) + PairCountTable::bytes(ranks);
}
std::size_t device_lines_offset(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t end = message_logs_offset(ranks) + n * n * sizeof(MessageLog);
  return (end + kPage - 1) / kPage * kPage;
}
// These are whole pages: only those that are used become memory.
std::size_t stream_words_offset(int ranks) {
  return device_lines_offset(ranks) + static_cast<std::size_t>(ranks) * sizeof(DeviceLine);
}
std::size_t rings_offset(int ranks) {
  return stream_words_offset(ranks) + static_cast<std::size_t>(ranks) * sizeof(stream::RankWords);
}

std::size_t whole_huge_pages(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

std::size_t host_rings_offset(const shm::RingGeometry& geometry) {
  return whole_huge_pages(rings_offset(geometry.ranks) + shm::RingPool::bytes(geometry));
}

// One for each rank, and one for each pair of them.
std::size_t host_rings_bytes(const World::Layout& layout) {
  const auto ranks = static_cast<std::size_t>(layout.rings.ranks);
  return (ranks + ranks * ranks) * layout.host_rings.bytes();
}

std::size_t host_fifos_offset(const World::Layout& layout) {
  return whole_huge_pages(host_rings_offset(layout.rings) + host_rings_bytes(layout));
}

std::size_t host_fifos_bytes(const World::Layout& layout) {
  return static_cast<std::size_t>(layout.rings.ranks) * layout.fifo_bytes_a_rank;
}

}  // namespace

std::size_t World::segment_bytes(const Layout& layout) {
  if (layout.fifo_bytes_a_rank > 0) {
    return host_fifos_offset(layout) + host_fifos_bytes(layout);
  }
  if (layout.host_rings.slots > 0) {
    return host_rings_offset(layout.rings) + host_rings_bytes(layout);
  }
  return rings_offset(layout.rings.ranks) + shm::RingPool::bytes(layout.rings);
}

// A zeroed segment is a valid initial state of every object in it: no rank needs to construct them,
// so no rank can come too early.
World::World(Membership membership, const Layout& layout)
    : membership_(std::move(membership)),
      header_(reinterpret_cast<ControlHeader*>(membership_.segment->data())),
      lines_(reinterpret_cast<StatusLine*>(membership_.segment->data() + lines_offset())),
      bells_(reinterpret_cast<Doorbell*>(membership_.segment->data() +
                                         bells_offset(layout.rings.ranks))),
      counts_(membership_.segment->data() + counts_offset(layout.rings.ranks), layout.rings.ranks),
      message_logs_(reinterpret_cast<MessageLog*>(membership_.segment->data() +
                                                  message_logs_offset(layout.rings.ranks))),
      device_lines_(reinterpret_cast<DeviceLine*>(membership_.segment->data() +
                                                  device_lines_offset(layout.rings.ranks))),
      stream_words_(reinterpret_cast<stream::RankWords*>(membership_.segment->data() +
                                                         stream_words_offset(layout.rings.ranks))),
      host_rank_(membership_.identity.rank,
                 shm::RingPool(membership_.segment->data() + rings_offset(layout.rings.ranks),
                               layout.rings),
                 bells_),
      gpu_staging_{.ranks = layout.rings.ranks, .shape = layout.host_rings} {
  if (layout.host_rings.slots > 0) {
    gpu_staging_.rings = membership_.segment->data() + host_rings_offset(layout.rings);
  }
  if (layout.fifo_bytes_a_rank > 0) {
    gpu_staging_.fifos = {membership_.segment->data() + host_fifos_offset(layout),
                          host_fifos_bytes(layout)};
  }
  host_rank_.lines = lines_;
  for (int peer = 0; peer < size(); ++peer) {
    host_rank_.peers[static_cast<std::size_t>(peer)] =
        cma::PeerMemory(member(peer).pid, member(peer).same_process);
  }
  my_line().state.store(RankState::kActive, std::memory_order_release);
}

std::vector<int> World::nodes_of_ranks() const {
  std::vector<int> nodes;
  for (const Member& member : membership_.members) {
    nodes.push_back(member.node);
  }
  return membership_.nodes > 1 ? nodes : std::vector<int>();
}

Status World::await_probe(ProbeState state, Clock::time_point deadline) {
  for (int peer = 0; peer < size(); ++peer) {
    const auto there = [&] { return line(peer).probe.load(std::memory_order_seq_cst) >= state; };
    while (!there()) {
      ask_nodes();
      // Asked again, so that its last word counts the same for all who wait for it.
      if (peers_.is_dead(peer) && !there()) {
        return fail(Code::kRankFailed, "{} died while the ranks joined", peers_.describe(peer));
      }
      if (Clock::now() > deadline) {
        return fail(
            Code::kJoinTimeout, "{} joined, but then made no progress", peers_.describe(peer));
      }
      sleep_on(bell(rank()), std::chrono::milliseconds(10), there);
    }
  }
  return {};
}

Result<bool> World::probe_memory(bool wanted, double timeout_s) {
  const auto deadline = Clock::now() + clock_span(timeout_s);
  const auto has_come = [this](int peer, ProbeState state) {
    return line(peer).probe.load(std::memory_order_seq_cst) >=
           std::min(state, ProbeState::kFailed);  // or further: it works, or does not
  };
  const auto announce = [&](ProbeState state) {
    my_line().probe.store(state, std::memory_order_seq_cst);
    bool is_last_of_node = true;
    for (int peer = 0; peer < size(); ++peer) {
      wake(bell(peer));
      is_last_of_node = is_last_of_node && (!is_local(peer) || has_come(peer, state));
    }
    // It sends the lines of all to the other nodes, which else ask now and then.
    if (nodes() > 1 && is_last_of_node) {
      sound_alarm();
    }
  };
  // Any word that differs from rank to rank will do; it must stay where it is until all have read.
  const std::uint64_t word = 0x5e441700ULL + static_cast<std::uint64_t>(rank());
  my_line().probe_address.store(reinterpret_cast<std::uint64_t>(&word), std::memory_order_release);
  announce(ProbeState::kOffered);
  SENNIT_RETURN_IF_ERROR(await_probe(ProbeState::kOffered, deadline));
  bool works = wanted;
  for (int peer = 0; peer < size() && works; ++peer) {
    std::uint64_t seen = 0;
    const std::uint64_t address = line(peer).probe_address.load(std::memory_order_acquire);
    works =
        peer == rank() || !is_local(peer) ||
        (host_rank_.peers[static_cast<std::size_t>(peer)].read(&seen, address, sizeof(seen)).ok() &&
         seen == word - static_cast<std::uint64_t>(rank()) + static_cast<std::uint64_t>(peer));
  }
  announce(works ? ProbeState::kWorks : ProbeState::kFailed);
  SENNIT_RETURN_IF_ERROR(await_probe(ProbeState::kFailed, deadline));
  for (int peer = 0; peer < size() && works; ++peer) {
    works = works && line(peer).probe.load(std::memory_order_acquire) == ProbeState::kWorks;
  }
  return works;
}

void World::sound_alarm() const {
  sound_alarm_here();
  wake_star();
}

void World::ask_nodes() {
  constexpr auto kInterval = std::chrono::milliseconds(50);
  if (nodes() == 1) {
    return;
  }
  if (const auto now = Clock::now(); now >= asked_at_ + kInterval) {
    asked_at_ = now;
    header_->asks.fetch_add(1, std::memory_order_release);
    wake_star();
  }
}

void World::wake_star() const {
  if (waker() >= 0) {
    // A counter that is full wakes as well as one more.
    constexpr std::uint64_t kOne = 1;
    static_cast<void>(!::write(waker(), &kOne, sizeof kOne));
  }
}

void World::sound_alarm_here() const {
  header_->alarms.fetch_add(1, std::memory_order_seq_cst);
  for (int peer = 0; peer < size(); ++peer) {
    wake(bells_[peer]);
  }
}

}  // namespace sennit
