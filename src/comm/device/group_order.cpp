#include "comm/device/group_order.hpp"

#include <map>
#include <utility>

namespace sennit {

std::vector<std::vector<std::size_t>> group_order(const std::vector<PairEnd>& ends,
                                                  int rank,
                                                  int ranks) {
  std::map<std::pair<int, bool>, std::vector<std::size_t>> chains;  // by round; sends first
  for (std::size_t index = 0; index < ends.size(); ++index) {
    const auto [peer, is_send] = ends[index];
    const int distance = is_send ? peer - rank : rank - peer;
    chains[{(distance + ranks) % ranks, !is_send}].push_back(index);
  }
  std::vector<std::vector<std::size_t>> order;
  for (auto& [place, chain] : chains) {
    order.push_back(std::move(chain));
  }
  return order;
}

}  // namespace sennit
