#include "memory/device_bootstrap.hpp"

#include <algorithm>
#include <iterator>

namespace sennit {

Result<DeviceBootstrap> DeviceBootstrap::open(CudaDriver& driver,
                                              const DeviceIdentity& identity,
                                              const Exchange& exchange) {
  DeviceBootstrap bootstrap(driver, identity, exchange);
  const Result<CudaDevice> device = driver.describe(identity.device);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(device.status()));
  SENNIT_ASSIGN_OR_RETURN(bootstrap.members_,
                          bootstrap.exchange(Member{.process = driver.process(),
                                                    .uuid = device->uuid,
                                                    .device = identity.device,
                                                    .group = identity.group,
                                                    .has_mps = device->has_mps}));
  return bootstrap;
}

GpusOfRanks DeviceBootstrap::gpus() const {
  GpusOfRanks gpus{.sharing = sharing()};
  for (int rank = 0; gpus.sharing != DeviceSharing::kNone && rank < ranks(); ++rank) {
    const auto first = std::ranges::find(members_, of(rank).uuid, &Member::uuid);
    gpus.by_rank.push_back(static_cast<int>(first - members_.begin()));
  }
  return gpus;
}

std::string DeviceBootstrap::forbidden_reach(int a, int b, std::string_view groups_by) const {
  const bool is_within = share_device(a, b);
  if (!(is_within ? identity_.may_use_device : identity_.may_use_nvlink)) {
    return fmt::format("SENNIT_PATHS leaves out path {}, which would join {} and {}",
                       is_within ? "device" : "nvlink",
                       describe(a),
                       describe(b));
  }
  return of(a).group == of(b).group
             ? std::string()
             : fmt::format(
                   "{} puts {} and {} into different groups", groups_by, describe(a), describe(b));
}

DeviceSharing DeviceBootstrap::sharing() const {
  bool is_shared = false;
  bool has_turns = false;  // also if the service has all ranks but one
  bool all_are_processes_of_one = true;
  for (int a = 0; a < ranks(); ++a) {
    for (int b = a + 1; b < ranks(); ++b) {
      is_shared = is_shared || share_device(a, b);
      has_turns = has_turns || run_in_turn(a, b);
      all_are_processes_of_one =
          all_are_processes_of_one && share_device(a, b) && !share_process(a, b);
    }
  }
  if (!is_shared) {
    return DeviceSharing::kNone;
  }
  return !all_are_processes_of_one ? DeviceSharing::kSome
         : has_turns               ? DeviceSharing::kInTurn
                                   : DeviceSharing::kAtOnce;
}

std::vector<std::uint64_t> DeviceBootstrap::processes() const {
  std::vector<std::uint64_t> processes;
  std::ranges::transform(members_, std::back_inserter(processes), &Member::process);
  return processes;
}

std::string DeviceBootstrap::describe(int rank) const {
  return fmt::format("rank {} (device {})", rank, device_of(rank));
}

std::string DeviceBootstrap::describe(const std::vector<BrokenPair>& pairs) const {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, pairs.size()); ++i) {
    text += fmt::format(
        "{}{} to {}", i == 0 ? "" : ", ", describe(pairs[i].from), describe(pairs[i].to));
  }
  return pairs.size() <= kMost ? text : fmt::format("{} and {} more", text, pairs.size() - kMost);
}

Status DeviceBootstrap::agree(const Status& mine) const {
  SENNIT_ASSIGN_OR_RETURN(const auto all, exchange(static_cast<std::int32_t>(mine.code())));
  SENNIT_RETURN_IF_ERROR(mine);
  const auto failed = std::ranges::find_if(all, [](std::int32_t code) { return code != 0; });
  return failed == all.end() ? Status()
                             : fail(static_cast<Code>(*failed),
                                    "rank {} could not set up its GPU ({}); its own error says why",
                                    failed - all.begin(),
                                    code_name(static_cast<Code>(*failed)));
}

Result<std::vector<BrokenPair>> DeviceBootstrap::gather(const std::vector<char>& broken_to) const {
  const auto width = static_cast<std::size_t>(ranks());
  std::vector<char> all(width * width);
  SENNIT_RETURN_IF_ERROR((*exchange_)(broken_to.data(), all.data(), width));
  std::vector<BrokenPair> pairs;
  for (int from = 0; from < ranks(); ++from) {
    for (int to = 0; to < ranks(); ++to) {
      if (all[static_cast<std::size_t>(from) * width + static_cast<std::size_t>(to)] != 0) {
        pairs.push_back({from, to});
      }
    }
  }
  return pairs;
}

}  // namespace sennit
