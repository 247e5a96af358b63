#include "select/device_paths.hpp"

#include "select/packet_choice.hpp"

#include <algorithm>
#include <charconv>

namespace sennit {
namespace {

constexpr std::string_view kNoHost =
    "path host is not there: SENNIT_PATHS leaves it out, SENNIT_HOST_RING_BYTES has no room for "
    "two slots, or these ranks do not use copy engines (SENNIT_COPY_ENGINES)";

Result<int> parse_share(std::string_view path, std::string_view text) {
  int share = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  return error == std::errc() && end == text.data() + text.size() && share >= 0 && share <= kWhole
             ? Result<int>(share)
             : fail(Code::kInvalidArgument,
                    "path {}: a share is 0 to 100, in percent, or 'dynamic'",
                    path);
}

}  // namespace

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
  constexpr std::string_view kBoth = "nvlink+host";
  const bool has_host = means.host_rings || !facts.nvlink;
  // Within a GPU nothing is gained by a way through the host.
  const bool shares_none = facts.sharing == DeviceSharing::kNone;
  DevicePaths paths{.nvlink = facts.nvlink,
                    .host = has_host,
                    .share = facts.host_share,
                    .is_dynamic = facts.dynamic_share,
                    .shares_calls = shares_none,
                    .shares_messages = facts.is_pair && shares_none};
  if (request.empty()) {
    return paths;
  }
  paths.nvlink = request.starts_with("nvlink");
  paths.host = request != "nvlink";
  paths.is_requested = true;
  if (request == kDynamicPaths) {
    paths.share = -1;
    paths.is_dynamic = true;
  } else if (request.starts_with(kBoth) && request.substr(kBoth.size()).starts_with(':')) {
    SENNIT_ASSIGN_OR_RETURN(paths.share, parse_share(request, request.substr(kBoth.size() + 1)));
    paths.is_dynamic = false;
  } else if (request != "nvlink" && request != "host" && request != kBoth) {
    return fail(Code::kUnsupported,
                "GPU ranks have no path '{}'; there are: nvlink, host, nvlink+host, nvlink+host:8 "
                "(percent through the host), nvlink+host:dynamic",
                request);
  }
  if (paths.host && !has_host) {
    return fail(Code::kUnsupported, "{}", kNoHost);
  }
  if (paths.nvlink && !facts.nvlink) {
    return fail(Code::kUnsupported, "path nvlink is not there: {}", facts.why_no_nvlink);
  }
  return paths;
}

}  // namespace sennit
