#include "comm/device/group_order.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace sennit {

std::vector<std::size_t> group_order(const std::vector<PairEnd>& ends, int rank, int ranks) {
  struct Place {
    int round = 0;
    int number = 0;  // of the message between the two ranks
    bool is_recv = false;
    std::size_t index = 0;

    auto operator<=>(const Place&) const = default;
  };
  std::map<std::pair<int, bool>, int> numbers;
  std::vector<Place> places;
  for (std::size_t index = 0; index < ends.size(); ++index) {
    const auto [peer, is_send] = ends[index];
    const int distance = is_send ? peer - rank : rank - peer;
    places.push_back({.round = (distance + ranks) % ranks,
                      .number = numbers[{peer, is_send}]++,
                      .is_recv = !is_send,
                      .index = index});
  }
  std::ranges::sort(places);
  std::vector<std::size_t> order;
  for (const Place& place : places) {
    order.push_back(place.index);
  }
  return order;
}

}  // namespace sennit
