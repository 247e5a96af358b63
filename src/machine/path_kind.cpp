#include "machine/path_kind.hpp"

#include <fmt/ranges.h>

#include <vector>

namespace sennit {

Result<PathKind> parse_path_kind(std::string_view text) {
  std::vector<std::string_view> names;
  for (const PathKindInfo& row : kPathKinds) {
    if (row.name == text) {
      return row.kind;
    }
    names.push_back(row.name);
  }
  return fail(
      Code::kInvalidArgument, "there is no path '{}'; there are: {}", text, fmt::join(names, ", "));
}

}  // namespace sennit
