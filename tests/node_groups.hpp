// For tests: the groups that schedules get of nodes that a text names.
#pragma once

#include <map>
#include <string_view>
#include <vector>

namespace sennit::tests {

// The ranks of each node, where nodes[r] names that of rank r. None if nodes differ in size, as the
// library has it (comm/plan_cache.cpp).
inline std::vector<std::vector<int>> groups_of(std::string_view nodes) {
  std::map<char, std::vector<int>> members;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    members[nodes[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> groups;
  for (const auto& [node, ranks] : members) {
    if (ranks.size() != members.begin()->second.size()) {
      return {};
    }
    groups.push_back(ranks);
  }
  return groups;
}

}  // namespace sennit::tests
