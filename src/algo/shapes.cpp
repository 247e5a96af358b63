#include "algo/shapes.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

namespace sennit::algo {
namespace {

using GroupList = std::vector<std::vector<int>>;

constexpr std::array kRadixes = {3, 4, 8};
constexpr int kInterleavedGroups = 3;

// Groups of consecutive ranks, of size_of(0), size_of(1), ... members.
template <typename SizeOf>
GroupList consecutive(int ranks, SizeOf size_of) {
  GroupList groups;
  for (int rank = 0, left = 0; rank < ranks; ++rank, --left) {
    if (left == 0) {
      left = size_of(static_cast<int>(groups.size()));
      groups.emplace_back();
    }
    groups.back().push_back(rank);
  }
  return groups;
}

GroupList interleaved(int ranks) {
  GroupList groups(static_cast<std::size_t>(std::min(ranks, kInterleavedGroups)));
  for (int rank = ranks; rank-- > 0;) {
    groups[static_cast<std::size_t>(rank) % groups.size()].push_back(rank);
  }
  return groups;
}

std::vector<GroupList> groups_to_try(int ranks) {
  std::vector<GroupList> lists;
  const auto add = [&](GroupList groups) {
    if (std::ranges::find(lists, groups) == lists.end()) {
      lists.push_back(std::move(groups));
    }
  };
  add(consecutive(ranks, [&](int) { return ranks; }));
  add(consecutive(ranks, [](int) { return 1; }));
  add(consecutive(ranks, [](int) { return 2; }));
  add(consecutive(ranks, [](int group) { return group + 1; }));
  add(consecutive(ranks, [](int group) { return group == 0 ? 3 : 1; }));
  add(interleaved(ranks));
  return lists;
}

}  // namespace

std::vector<Shape> shapes_to_try(const Algorithm& algorithm, int ranks) {
  std::vector<Shape> shapes;
  for (int root = 0; root < (is_rooted(algorithm.collective) ? ranks : 1); ++root) {
    shapes.push_back({.ranks = ranks, .root = root});
  }
  // Trees of all roots are equal up to a rotation, which radix 2 has tried.
  for (const int radix : kRadixes) {
    if (algorithm.takes_radix) {
      shapes.push_back({.ranks = ranks,
                        .root = is_rooted(algorithm.collective) ? ranks / 2 : 0,
                        .radix = radix});
    }
  }
  if (algorithm.takes_groups) {
    for (const GroupList& groups : groups_to_try(ranks)) {
      // The first, one in between, the last: roots differ by their places in groups of all sizes.
      for (const int root :
           is_rooted(algorithm.collective) ? std::set{0, ranks / 2, ranks - 1} : std::set{0}) {
        shapes.push_back({.ranks = ranks, .root = root, .groups = groups});
      }
    }
  }
  return shapes;
}

std::string in_words(const Shape& shape) {
  std::string words = fmt::format("root {}", shape.root);
  if (shape.radix != 0) {
    words += fmt::format(", radix {}", shape.radix);
  }
  if (!shape.groups.empty()) {
    words += ", groups";
    for (const std::vector<int>& members : shape.groups) {
      words += fmt::format(" {{{}}}", fmt::join(members, " "));
    }
  }
  return words;
}

}  // namespace sennit::algo
