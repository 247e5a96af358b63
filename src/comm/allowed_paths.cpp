#include "comm/allowed_paths.hpp"

#include "machine/path_kind.hpp"

#include <algorithm>
#include <array>

namespace sennit {

Result<AllowedPaths> parse_paths(std::string_view text, bool have_devices) {
  std::array<bool, kPathKinds.size()> named{};
  const auto is_named = [&](PathKind path) -> bool& {
    return named[static_cast<std::size_t>(path)];
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    SENNIT_ASSIGN_OR_RETURN(const PathKind path, parse_path_kind(text.substr(begin, end - begin)));
    const bool joins_devices =
        path == PathKind::kNvlink || path == PathKind::kDevice || path == PathKind::kHost;
    if (!info(path).host_ranks && !(have_devices && joins_devices)) {
      return fail(Code::kUnsupported,
                  "SENNIT_PATHS is '{}', but path {} does not join {}; {} do",
                  text,
                  name(path),
                  have_devices ? "ranks with GPUs" : "host ranks",
                  have_devices ? "nvlink, device and host" : "shm and cma");
    }
    is_named(path) = true;
    begin = end + 1;
  }
  AllowedPaths allowed{.shm = is_named(PathKind::kShm),
                       .cma = is_named(PathKind::kCma),
                       .nvlink = is_named(PathKind::kNvlink),
                       .device = is_named(PathKind::kDevice),
                       .host = is_named(PathKind::kHost)};
  if (have_devices && !allowed.shm && !allowed.cma) {
    allowed.shm = allowed.cma = true;
  }
  if (have_devices && !allowed.nvlink && !allowed.device && !allowed.host) {
    allowed.nvlink = allowed.device = allowed.host = true;
  }
  return allowed;
}

}  // namespace sennit
