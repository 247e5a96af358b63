#include "algo/groups.hpp"

#include "algo/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sennit::algo {
namespace {

std::vector<std::vector<int>> balanced(int ranks) {
  int count = 1;
  while ((count + 1) * (count + 1) <= ranks) {
    ++count;
  }
  std::vector<std::vector<int>> groups;
  for (int group = 0, next = 0; group < count; ++group) {
    const int size = ranks / count + (group < ranks % count ? 1 : 0);
    groups.emplace_back(static_cast<std::size_t>(size));
    std::ranges::generate(groups.back(), [&] { return next++; });
  }
  return groups;
}

}  // namespace

Groups::Groups(const Shape& shape)
    : members_(shape.groups.empty() ? balanced(shape.ranks) : shape.groups),
      group_of_(static_cast<std::size_t>(shape.ranks)),
      place_of_(static_cast<std::size_t>(shape.ranks)) {
  for (int group = 0; group < count(); ++group) {
    for (int place = 0; place < size(group); ++place) {
      const auto rank = static_cast<std::size_t>(at(members(group), place));
      group_of_[rank] = group;
      place_of_[rank] = place;
    }
  }
}

const std::vector<int>& Groups::members(int group) const { return at(members_, group); }
int Groups::group_of(int rank) const { return at(group_of_, rank); }
int Groups::place_of(int rank) const { return at(place_of_, rank); }

std::vector<int> Groups::other_members(int rank) const {
  const int group = group_of(rank);
  std::vector<int> list;
  for (const int place : successors(place_of(rank), size(group))) {
    list.push_back(at(members(group), place));
  }
  return list;
}

int Groups::counterpart(int rank, int group) const {
  return at(members(group), place_of(rank) % size(group));
}

int Groups::largest() const {
  int largest = 0;
  for (int group = 0; group < count(); ++group) {
    largest = std::max(largest, size(group));
  }
  return largest;
}

int Groups::count_of_many() const {
  return static_cast<int>(
      std::ranges::count_if(members_, [](const auto& members) { return members.size() > 1; }));
}

std::string defect_of_groups(const Shape& shape) {
  if (shape.groups.empty()) {
    return {};
  }
  std::vector<int> times(static_cast<std::size_t>(shape.ranks), 0);
  for (const std::vector<int>& members : shape.groups) {
    if (members.empty()) {
      return "a group is empty";
    }
    for (const int rank : members) {
      if (rank < 0 || rank >= shape.ranks) {
        return fmt::format("a group holds rank {}, which there is not", rank);
      }
      ++times[static_cast<std::size_t>(rank)];
    }
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    if (at(times, rank) != 1) {
      return fmt::format("rank {} is in {} groups, not in one", rank, at(times, rank));
    }
  }
  return {};
}

}  // namespace sennit::algo
