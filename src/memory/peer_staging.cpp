#include "memory/peer_staging.hpp"

#include "base/log.hpp"
#include "memory/fifo_probe.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace sennit {
namespace {

// Pairs that can be distinguished before any memory is taken.
Result<std::vector<BrokenPair>> find_far_pairs(const DeviceBootstrap& bootstrap) {
  Result<std::vector<char>> far = find_unreached(bootstrap);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(far.status()));
  for (int rank = 0; rank < bootstrap.ranks(); ++rank) {
    if (!bootstrap.forbidden_reach(rank, bootstrap.rank(), {}).empty()) {
      (*far)[static_cast<std::size_t>(rank)] = 1;
    }
  }
  return bootstrap.gather(*far);
}

}  // namespace

std::vector<std::vector<int>> part_ranks(int ranks, const std::vector<BrokenPair>& broken) {
  const auto is_joined = [&](int a, int b) {
    return std::ranges::none_of(broken, [&](const BrokenPair& pair) {
      return (pair.from == a && pair.to == b) || (pair.from == b && pair.to == a);
    });
  };
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto home = std::ranges::find_if(groups, [&](const std::vector<int>& members) {
      return std::ranges::all_of(members, [&](int member) { return is_joined(rank, member); });
    });
    if (home == groups.end()) {
      groups.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  return groups;
}

Result<std::unique_ptr<PeerStaging>> PeerStaging::open(const DeviceBootstrap& bootstrap,
                                                       const sm::StagingShape& shape) {
  SENNIT_ASSIGN_OR_RETURN(const auto far, find_far_pairs(bootstrap));
  std::unique_ptr<PeerStaging> staging(new PeerStaging(bootstrap, shape));
  staging->groups_ = part_ranks(bootstrap.ranks(), far);
  if (!staging->has_pairs()) {
    return std::unique_ptr<PeerStaging>();
  }
  SENNIT_RETURN_IF_ERROR(staging->place(bootstrap));
  if (!staging->has_pairs()) {
    return std::unique_ptr<PeerStaging>();
  }
  if (bootstrap.rank() == 0) {
    SENNIT_INFO("device",
                "calls that run step by step use paths nvlink and device within groups of ranks: "
                "{}",
                fmt::join(staging->groups_, " "));
  }
  return staging;
}

// Groups part further where their GPUs do not reach each other after all.
Status PeerStaging::place(const DeviceBootstrap& bootstrap) {
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(
      memory_.allocate(static_cast<std::size_t>(bootstrap.ranks()) * shape_.bytes())));
  SENNIT_ASSIGN_OR_RETURN(const auto unmapped,
                          memory_.map(bootstrap, others_of_group(bootstrap.rank())));
  SENNIT_ASSIGN_OR_RETURN(const auto broken, bootstrap.gather(unmapped));
  part_further(broken);
  std::vector<std::byte*> probed = memory_.bases();
  const std::vector<char> others = others_of_group(bootstrap.rank());
  for (std::size_t rank = 0; rank < probed.size(); ++rank) {
    const bool is_own = rank == static_cast<std::size_t>(bootstrap.rank());
    probed[rank] = is_own || others[rank] != 0 ? probed[rank] : nullptr;
  }
  const auto corrupting = find_corrupting_pairs(bootstrap, probed);
  if (corrupting.ok()) {
    part_further(*corrupting);
  }
  if (!corrupting.ok() || !has_pairs()) {
    memory_.close();
    (void)bootstrap.agree({});  // memory may be freed once nobody has it mapped
  }
  return corrupting.status();
}

std::vector<char> PeerStaging::others_of_group(int rank) const {
  std::vector<char> others(memory_.bases().size(), 0);
  for (const std::vector<int>& members : groups_) {
    if (std::ranges::find(members, rank) != members.end()) {
      for (const int member : members) {
        others[static_cast<std::size_t>(member)] = member == rank ? 0 : 1;
      }
    }
  }
  return others;
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
    const std::vector<char> others = others_of_group(rank);
    for (int other = 0; other < ranks; ++other) {
      if (other != rank && others[static_cast<std::size_t>(other)] == 0) {
        far.push_back({rank, other});
      }
    }
  }
  groups_ = part_ranks(ranks, far);
}

std::byte* PeerStaging::staging(int writer, int reader) const {
  if (others_of_group(reader)[static_cast<std::size_t>(writer)] == 0) {
    return nullptr;
  }
  return memory_.bases()[static_cast<std::size_t>(reader)] +
         static_cast<std::size_t>(writer) * shape_.bytes();
}

}  // namespace sennit
