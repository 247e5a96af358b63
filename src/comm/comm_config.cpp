#include "comm/comm_config.hpp"

#include "base/env.hpp"

#include <algorithm>
#include <limits>

namespace sennit {
namespace {

Status read_host_share(CommConfig& config) {
  constexpr const char* kName = "SENNIT_HOST_SHARE";
  const std::string text = env_text(kName);
  config.dynamic_share = text == "dynamic";
  if (config.dynamic_share) {
    return {};
  }
  const Result<std::int64_t> share = parse_integer(kName, text, {-1, 100});
  if (!share.ok()) {
    return fail(share.status().code(), "{}, or dynamic", share.status().message());
  }
  config.host_share = static_cast<int>(*share);
  return {};
}

std::string of_rings(const std::optional<std::size_t>& bytes) {
  return bytes ? fmt::format("{}", *bytes) : "by ranks";
}

}  // namespace

Result<CommConfig> CommConfig::from_environment() {
  CommConfig config;
  SENNIT_ASSIGN_OR_RETURN(config.join_timeout_s, env_seconds("SENNIT_JOIN_TIMEOUT_S"));
  SENNIT_ASSIGN_OR_RETURN(config.deadline_s, env_seconds("SENNIT_DEADLINE_S"));
  config.paths = env_text("SENNIT_PATHS");
  config.path_policy = env_text("SENNIT_PATH_POLICY");
  config.codec = env_text("SENNIT_CODEC");
  config.tuning_table = env_text("SENNIT_TUNING_TABLE");
  config.device = env_text("SENNIT_DEVICE");
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t blocks, env_integer("SENNIT_DEVICE_BLOCKS", {1, 256}));
  config.device_blocks = static_cast<int>(blocks);
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t group, env_integer("SENNIT_DEVICE_GROUP", {0, 1024}));
  config.device_group = static_cast<int>(group);
  config.machine = env_text("SENNIT_MACHINE");
  config.gpu_profile = env_text("SENNIT_GPU_PROFILE");
  config.copy_engines = env_text("SENNIT_COPY_ENGINES");
  SENNIT_RETURN_IF_ERROR(read_host_share(config));
  SENNIT_ASSIGN_OR_RETURN(config.host_ring_bytes, env_bytes_if_set("SENNIT_HOST_RING_BYTES"));
  SENNIT_ASSIGN_OR_RETURN(config.host_slot_bytes, env_bytes_if_set("SENNIT_HOST_SLOT_BYTES"));
  SENNIT_ASSIGN_OR_RETURN(const std::uint64_t slot_bytes, env_bytes("SENNIT_SLOT_BYTES"));
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t slots, env_integer("SENNIT_SLOTS", {0, 4096}));
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t ports, env_integer("SENNIT_PORTS", {1, 1024}));
  // What is too large is refused with the other sizes, and must not become negative here.
  config.slot_bytes = static_cast<std::int64_t>(
      std::min(slot_bytes, std::uint64_t{std::numeric_limits<std::int64_t>::max()}));
  config.slots = static_cast<int>(slots);
  config.ports = static_cast<int>(ports);
  SENNIT_ASSIGN_OR_RETURN(config.die_at, DieAt::from_environment());
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t reproducible,
                          env_integer("SENNIT_REPRODUCIBLE", {0, 1}));
  config.reproducible = reproducible != 0;
  return config;
}

// Larger rings of 4 GPUs, 16 MB with slots of 4 MB, left the host's cache: sends of 64 MB in a ring
// took 2579 us in place of 2077; two GPUs, however, 1674 and 1919 ("nop2p-rings").
host::RingShape CommConfig::host_rings(int ranks) const {
  constexpr std::size_t kMega = std::size_t{1} << 20;
  return host::RingShape::within(host_ring_bytes.value_or((ranks <= 2 ? 16 : 8) * kMega),
                                 host_slot_bytes.value_or((ranks <= 2 ? 4 : 2) * kMega));
}

std::string CommConfig::settings(std::string_view table, std::string_view profile) const {
  return fmt::format(
      "slot_bytes={}\nslots={}\nports={}\npaths={}\npath_policy={}\ncodec={}\nreproducible={}"
      "\ndevice={}\n"
      "device_blocks={}\ndevice_group={}\nmachine={}\ncopy_engines={}\nhost_share={}\nhost_ring_"
      "bytes={}\nhost_"
      "slot_bytes={}\n"
      "tuning_table={}\ngpu_profile={}",
      slot_bytes,
      slots,
      ports,
      paths,
      path_policy,
      codec,
      reproducible,
      device.substr(0, device.find(':')),
      device_blocks,
      device_group,
      machine,
      copy_engines,
      dynamic_share ? "dynamic" : fmt::format("{}", host_share),
      of_rings(host_ring_bytes),
      of_rings(host_slot_bytes),
      table,
      profile);
}

}  // namespace sennit
