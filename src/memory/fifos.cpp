#include "memory/fifos.hpp"

#include "base/log.hpp"
#include "memory/fifo_probe.hpp"
#include "path/host/rings.hpp"

#include <utility>

namespace sennit {
namespace {

// Why device memory cannot be used, before any is taken; empty: it may be tried.
Result<std::string> find_obstacle(const DeviceBootstrap& bootstrap, const Fifos::Options& options) {
  for (int a = 0; a < bootstrap.ranks(); ++a) {
    for (int b = a + 1; b < bootstrap.ranks(); ++b) {
      if (std::string forbidden = bootstrap.forbidden_reach(a, b, options.groups_by);
          !forbidden.empty()) {
        return forbidden;
      }
    }
  }
  const Result<std::vector<char>> unreached = find_unreached(bootstrap);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(unreached.status()));
  SENNIT_ASSIGN_OR_RETURN(const auto pairs, bootstrap.gather(*unreached));
  return pairs.empty() ? std::string()
                       : fmt::format("there is no P2P from {}", bootstrap.describe(pairs));
}

}  // namespace

Fifos::Fifos(const DeviceBootstrap& bootstrap, const FifoPlan& plan)
    : driver_(bootstrap.driver()),
      rank_(bootstrap.rank()),
      plan_(plan),
      bases_(static_cast<std::size_t>(bootstrap.ranks())) {}

Result<std::unique_ptr<Fifos>> Fifos::open(const DeviceBootstrap& bootstrap,
                                           const Options& options) {
  SENNIT_ASSIGN_OR_RETURN(std::string obstacle, find_obstacle(bootstrap, options));
  const auto make = [&](FifoPlace place) {
    return std::unique_ptr<Fifos>(new Fifos(
        bootstrap, FifoPlan::make(place, bootstrap.ranks(), options.blocks, options.resident)));
  };
  if (obstacle.empty()) {
    std::unique_ptr<Fifos> fifos = make(FifoPlace::kDevice);
    SENNIT_RETURN_IF_ERROR(fifos->place_on_devices(bootstrap));
    if (fifos->obstacle_.empty()) {
      return fifos;
    }
    obstacle = fifos->obstacle_;
  }
  if (options.host.empty()) {
    return fail(Code::kUnsupported,
                "no path joins all GPU ranks: not all reach each other's memory ({}), and "
                "SENNIT_PATHS leaves path host out; allow all: SENNIT_PATHS=device,nvlink,host",
                obstacle);
  }
  std::unique_ptr<Fifos> fifos = make(FifoPlace::kHost);
  fifos->obstacle_ = std::move(obstacle);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(fifos->place_on_host(bootstrap, options.host)));
  if (bootstrap.rank() == 0) {
    SENNIT_INFO("device",
                "kernels use path host: {} bytes of pinned host memory for each of {} ranks; paths "
                "nvlink and device are not used: {}",
                fifos->plan_.bytes(),
                bootstrap.ranks(),
                fifos->obstacle_);
  }
  return fifos;
}

// Leaves an obstacle where the GPUs do not reach each other after all.
Status Fifos::place_on_devices(const DeviceBootstrap& bootstrap) {
  on_devices_ = std::make_unique<PeerMemory>(bootstrap);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(on_devices_->allocate(plan_.bytes())));
  SENNIT_ASSIGN_OR_RETURN(const std::vector<char> unmapped,
                          on_devices_->map(bootstrap, std::vector<char>(bases_.size(), 1)));
  bases_ = on_devices_->bases();
  SENNIT_ASSIGN_OR_RETURN(const auto pairs, bootstrap.gather(unmapped));
  if (!pairs.empty()) {
    obstacle_ = fmt::format("memory cannot be mapped from {}", bootstrap.describe(pairs));
  } else {
    auto corrupting = find_corrupting_pairs(bootstrap, bases_);
    if (!corrupting.ok()) {
      on_devices_->close();
      (void)bootstrap.agree({});  // memory may be freed once nobody has it mapped
      return corrupting.status();
    }
    if (!corrupting->empty()) {
      obstacle_ = fmt::format(
          "data is corrupted from {}; see the IOMMU and ACS settings of this "
          "machine (docs/multipath.md)",
          bootstrap.describe(*corrupting));
    }
  }
  if (obstacle_.empty()) {
    return {};
  }
  if (rank_ == 0) {
    SENNIT_WARN("device", "GPUs that should reach each other's memory do not: {}", obstacle_);
  }
  // Memory may be freed once nobody has it mapped.
  on_devices_->close();
  return bootstrap.agree({});
}

Status Fifos::pin(const DeviceBootstrap& bootstrap, std::span<std::byte> memory) {
  host::advise_huge_pages(memory.data(), memory.size());
  Result<std::shared_ptr<HeldMemory>> pinned =
      HeldMemory::pin(driver_, memory.data(), memory.size());
  if (!pinned.ok()) {
    return fail(pinned.status().code(),
                "{} cannot pin the {} bytes of host memory through which GPUs without P2P "
                "exchange data ({} bytes for each of {} ranks): {}. Give the process more memory "
                "that it may lock (its container's limit, ulimit -l), or run fewer ranks",
                bootstrap.describe(rank_),
                memory.size(),
                plan_.bytes(),
                plan_.ranks,
                pinned.status().message());
  }
  pinned_ = std::move(pinned).value();
  return {};
}

Status Fifos::place_on_host(const DeviceBootstrap& bootstrap, std::span<std::byte> memory) {
  const std::size_t bytes = plan_.bytes();
  const std::size_t all = bytes * static_cast<std::size_t>(plan_.ranks);
  if (all > memory.size()) {
    return fail(Code::kInternalError,
                "the shared segment has {} bytes for FIFOs, which take {}",
                memory.size(),
                all);
  }
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(pin(bootstrap, memory.first(all))));
  for (std::size_t rank = 0; rank < bases_.size(); ++rank) {
    bases_[rank] = pinned_->on_device() + rank * bytes;
  }
  return {};
}

}  // namespace sennit
