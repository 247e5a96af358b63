#include "select/device_paths.hpp"

#include "select/packet_choice.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace sennit {
namespace {

constexpr std::string_view kNoHost =
    "path host is not there: SENNIT_PATHS leaves it out, SENNIT_HOST_RING_BYTES has no room for "
    "two slots, or these ranks do not use copy engines (SENNIT_COPY_ENGINES)";

constexpr std::string_view kDynamic = "dynamic";

Result<int> parse_share(std::string_view path, std::string_view text) {
  int share = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  return error == std::errc() && end == text.data() + text.size() && share >= 0 && share <= kWhole
             ? Result<int>(share)
             : fail(Code::kInvalidArgument,
                    "path {}: a share is 0 to 100, in percent, or 'dynamic'",
                    path);
}

// "nvlink", "host", "device+host", "nvlink+host:8", "nvlink+host:dynamic".
struct PathRequest {
  std::optional<PathKind> direct{};
  bool host = false;
  std::optional<int> share{};
  bool is_dynamic = false;
};

Result<PathRequest> parse_request(std::string_view path) {
  PathRequest result;
  const std::string_view paths = path.substr(0, path.find(':'));
  const std::string_view first = paths.substr(0, paths.find('+'));
  for (const PathKind kind : {PathKind::kDevice, PathKind::kNvlink}) {
    if (first == name(kind)) {
      result.direct = kind;
    }
  }
  result.host = paths == name(PathKind::kHost) || paths.ends_with("+host");
  const std::size_t parts = (result.direct ? 1 : 0) + (result.host ? 1 : 0);
  const bool has_share = paths.size() < path.size();
  if (parts == 0 || parts != 1 + static_cast<std::size_t>(std::ranges::count(paths, '+')) ||
      (has_share && parts != 2)) {
    return fail(Code::kUnsupported,
                "GPU ranks have no path '{}'; there are: nvlink, device (of ranks that share one "
                "GPU), host, and nvlink+host, nvlink+host:8 (percent through the host), "
                "nvlink+host:dynamic, or device in place of nvlink",
                path);
  }
  if (has_share) {
    const std::string_view share = path.substr(paths.size() + 1);
    result.is_dynamic = share == kDynamic;
    if (!result.is_dynamic) {
      SENNIT_ASSIGN_OR_RETURN(result.share, parse_share(path, share));
    }
  }
  return result;
}

Status refuse_direct(PathKind path) {
  return path == PathKind::kDevice
             ? fail(Code::kUnsupported,
                    "path device is not there: it joins ranks that share one GPU, and these do "
                    "not all share one; request nvlink, under which ranks of one GPU use device")
             : fail(Code::kUnsupported,
                    "path nvlink is not there: all of these ranks share one GPU; request device");
}

}  // namespace

PathKind direct_path(const DeviceFacts& facts, int a, int b) {
  const auto gpu_of = [&](int rank) { return facts.gpus[static_cast<std::size_t>(rank)]; };
  return !facts.gpus.empty() && gpu_of(a) == gpu_of(b) ? PathKind::kDevice : PathKind::kNvlink;
}

PathKind direct_path(const DeviceFacts& facts) {
  const bool share_one = facts.gpus.size() > 1 && std::ranges::all_of(facts.gpus, [&](int gpu) {
                           return gpu == facts.gpus.front();
                         });
  return share_one ? PathKind::kDevice : PathKind::kNvlink;
}

void bind_direct_paths(Strand& strand, const DeviceFacts& facts) {
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    const Channel& channel = strand.schedule->channels[c];
    const bool is_within = std::ranges::all_of(channel.readers, [&](LaneId reader) {
      return direct_path(facts, channel.writer.rank, reader.rank) == PathKind::kDevice;
    });
    if (is_within) {
      std::ranges::replace(strand.channels[c].paths, PathKind::kNvlink, PathKind::kDevice);
    }
  }
}

std::vector<std::vector<int>> groups_of(const DeviceFacts& facts) {
  if (!facts.reach || direct_path(facts) == PathKind::kDevice) {
    return facts.groups;
  }
  std::map<int, std::vector<int>> by_gpu;
  for (std::size_t rank = 0; rank < facts.gpus.size(); ++rank) {
    by_gpu[facts.gpus[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> groups;
  for (auto& [gpu, ranks] : by_gpu) {
    groups.push_back(std::move(ranks));
  }
  return groups;
}

DeviceFacts facts_of_message(const DeviceFacts& facts, int sender, int receiver) {
  DeviceFacts result = facts;
  if (!facts.gpus.empty()) {
    result.gpus = {facts.gpus[static_cast<std::size_t>(sender)],
                   facts.gpus[static_cast<std::size_t>(receiver)]};
  }
  return result;
}

bool is_dynamic_request(std::string_view path) {
  const Result<PathRequest> request = parse_request(path);
  return request.ok() && request->is_dynamic;
}

int usual_host_share(const GpuProfile& profile,
                     Collective collective,
                     int ranks,
                     std::int64_t bytes) {
  const auto row = std::ranges::find_if(profile.host_shares, [&](const auto& share) {
    return share.collective == collective && ranks <= share.up_to_ranks &&
           total_bytes(collective, ranks, bytes) >= share.from_bytes;
  });
  return row != profile.host_shares.end() && ranks > 1 ? row->percent : 0;
}

Result<DevicePaths> paths_for(std::string_view request,
                              const DeviceFacts& facts,
                              const Means& means) {
  const bool has_host = means.host_rings || !facts.reach;
  // Within a GPU nothing is gained by a way through the host.
  const bool shares_none = facts.sharing == DeviceSharing::kNone;
  DevicePaths paths{.direct = facts.reach,
                    .host = has_host,
                    .share = facts.host_share,
                    .is_dynamic = facts.dynamic_share,
                    .shares_calls = shares_none,
                    .shares_messages = facts.is_pair && shares_none};
  if (request.empty()) {
    return paths;
  }
  SENNIT_ASSIGN_OR_RETURN(const PathRequest wanted, parse_request(request));
  paths.direct = wanted.direct.has_value();
  paths.host = wanted.host;
  paths.is_requested = true;
  if (wanted.is_dynamic || wanted.share) {
    paths.share = wanted.share.value_or(-1);
    paths.is_dynamic = wanted.is_dynamic;
  }
  if (paths.host && !has_host) {
    return fail(Code::kUnsupported, "{}", kNoHost);
  }
  if (paths.direct && *wanted.direct != direct_path(facts)) {
    return refuse_direct(*wanted.direct);
  }
  if (paths.direct && !facts.reach) {
    return fail(
        Code::kUnsupported, "path {} is not there: {}", name(*wanted.direct), facts.why_no_reach);
  }
  return paths;
}

}  // namespace sennit
