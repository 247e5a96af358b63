#include "machine/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace sennit {
namespace {

// Of one node; far more than any has.
constexpr int kMostCards = 256;

}  // namespace

std::string text_of(const Path& path) {
  return path.card < 0 ? std::string(name(path.kind))
                       : fmt::format("{}/{}", name(path.kind), path.card);
}

std::string text_of(const std::vector<Path>& paths) {
  std::vector<std::string> texts;
  std::ranges::transform(
      paths, std::back_inserter(texts), [](const Path& path) { return text_of(path); });
  return fmt::format("{}", fmt::join(texts, "+"));
}

Result<Path> parse_path(std::string_view text) {
  const std::size_t slash = text.find('/');
  SENNIT_ASSIGN_OR_RETURN(Path path, parse_path_kind(text.substr(0, slash)));
  if (slash == std::string_view::npos) {
    return path;
  }
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, path.card);
  if (error != std::errc() || rest != end || path.card < 0 || path.card >= kMostCards ||
      path.kind != PathKind::kRail) {
    return fail(Code::kInvalidArgument,
                "there is no path '{}': only rails have numbers, 0 to {}, as in rail/0",
                text,
                kMostCards - 1);
  }
  return path;
}

Result<std::vector<Path>> parse_path_list(std::string_view text) {
  std::vector<Path> paths;
  while (true) {
    const std::size_t plus = std::min(text.find('+'), text.size());
    SENNIT_ASSIGN_OR_RETURN(const Path path, parse_path(text.substr(0, plus)));
    paths.push_back(path);
    if (plus == text.size()) {
      return paths;
    }
    text.remove_prefix(plus + 1);
  }
}

}  // namespace sennit
