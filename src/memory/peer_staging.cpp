#include "memory/peer_staging.hpp"

#include "base/log.hpp"
#include "memory/fifo_probe.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace sennit {
namespace {

// Pairs that can be told apart before any memory is taken.
Result<std::vector<BrokenPair>> find_far_pairs(const DeviceMeeting& meeting) {
  Result<std::vector<char>> far = find_unreached(meeting);
  SENNIT_RETURN_IF_ERROR(meeting.agree(far.status()));
  for (int rank = 0; rank < meeting.ranks(); ++rank) {
    if (!meeting.share_group(rank, meeting.rank())) {
      (*far)[static_cast<std::size_t>(rank)] = 1;
    }
  }
  return meeting.gather(*far);
}

}  // namespace

std::vector<std::vector<int>> part_ranks(int ranks, const std::vector<BrokenPair>& broken) {
  const auto is_near = [&](int a, int b) {
    return std::ranges::none_of(broken, [&](const BrokenPair& pair) {
      return (pair.from == a && pair.to == b) || (pair.from == b && pair.to == a);
    });
  };
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto home = std::ranges::find_if(groups, [&](const std::vector<int>& members) {
      return std::ranges::all_of(members, [&](int member) { return is_near(rank, member); });
    });
    if (home == groups.end()) {
      groups.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  return groups;
}

Result<std::unique_ptr<PeerStaging>> PeerStaging::open(const DeviceMeeting& meeting,
                                                       const sm::StagingShape& shape) {
  SENNIT_ASSIGN_OR_RETURN(const auto far, find_far_pairs(meeting));
  std::unique_ptr<PeerStaging> staging(new PeerStaging(meeting, shape));
  staging->groups_ = part_ranks(meeting.ranks(), far);
  if (!staging->has_pairs()) {
    return std::unique_ptr<PeerStaging>();
  }
  SENNIT_RETURN_IF_ERROR(staging->place(meeting));
  if (!staging->has_pairs()) {
    return std::unique_ptr<PeerStaging>();
  }
  if (meeting.rank() == 0) {
    SENNIT_INFO("device",
                "calls that run step by step use path nvlink within groups of ranks: {}",
                fmt::join(staging->groups_, " "));
  }
  return staging;
}

// Groups part further where their GPUs do not reach each other after all.
Status PeerStaging::place(const DeviceMeeting& meeting) {
  SENNIT_RETURN_IF_ERROR(
      meeting.agree(memory_.allocate(static_cast<std::size_t>(meeting.ranks()) * shape_.bytes())));
  SENNIT_ASSIGN_OR_RETURN(const auto unmapped,
                          memory_.map(meeting, members_beside(meeting.rank())));
  SENNIT_ASSIGN_OR_RETURN(const auto broken, meeting.gather(unmapped));
  part_further(broken);
  std::vector<std::byte*> probed = memory_.bases();
  const std::vector<char> near = members_beside(meeting.rank());
  for (std::size_t rank = 0; rank < probed.size(); ++rank) {
    const bool is_own = rank == static_cast<std::size_t>(meeting.rank());
    probed[rank] = is_own || near[rank] != 0 ? probed[rank] : nullptr;
  }
  const auto corrupting = find_corrupting_pairs(meeting, probed);
  if (corrupting.ok()) {
    part_further(*corrupting);
  }
  if (!corrupting.ok() || !has_pairs()) {
    memory_.close();
    (void)meeting.agree({});  // memory may be freed once nobody has it mapped
  }
  return corrupting.status();
}

std::vector<char> PeerStaging::members_beside(int rank) const {
  std::vector<char> beside(memory_.bases().size(), 0);
  for (const std::vector<int>& members : groups_) {
    if (std::ranges::find(members, rank) != members.end()) {
      for (const int member : members) {
        beside[static_cast<std::size_t>(member)] = member == rank ? 0 : 1;
      }
    }
  }
  return beside;
}

bool PeerStaging::has_pairs() const {
  return std::ranges::any_of(groups_,
                             [](const std::vector<int>& members) { return members.size() > 1; });
}

// No rank comes to one that was not of its group before: their memory is not mapped.
void PeerStaging::part_further(const std::vector<BrokenPair>& broken) {
  std::vector<BrokenPair> far = broken;
  const auto ranks = static_cast<int>(memory_.bases().size());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<char> beside = members_beside(rank);
    for (int other = 0; other < ranks; ++other) {
      if (other != rank && beside[static_cast<std::size_t>(other)] == 0) {
        far.push_back({rank, other});
      }
    }
  }
  groups_ = part_ranks(ranks, far);
}

std::byte* PeerStaging::staging(int writer, int reader) const {
  if (members_beside(reader)[static_cast<std::size_t>(writer)] == 0) {
    return nullptr;
  }
  return memory_.bases()[static_cast<std::size_t>(reader)] +
         static_cast<std::size_t>(writer) * shape_.bytes();
}

}  // namespace sennit
