// The kinds of path as a table; path_kinds.def says what the columns mean.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace sennit {

enum class PathKind : std::uint8_t {
#define SENNIT_PATH_KIND(name, enumerator, host_ranks, single_copy, hub) enumerator,
#include "machine/path_kinds.def"
#undef SENNIT_PATH_KIND
};

struct PathKindInfo {
  PathKind kind;
  std::string_view name;
  bool host_ranks;
  bool single_copy;
  bool hub;
};

inline constexpr std::array kPathKinds = {
#define SENNIT_PATH_KIND(name, enumerator, host_ranks, single_copy, hub) \
  PathKindInfo{PathKind::enumerator, #name, host_ranks, single_copy, hub},
#include "machine/path_kinds.def"
#undef SENNIT_PATH_KIND
};

// The rows stand in the order of the enumerators.
constexpr const PathKindInfo& info(PathKind kind) {
  return kPathKinds[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name(PathKind kind) { return info(kind).name; }

// The row with this name; a failure lists the names there are.
Result<PathKind> parse_path_kind(std::string_view text);

}  // namespace sennit
