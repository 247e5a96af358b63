#include "barrier.hpp"

#include <algorithm>

namespace sennit {

Status check_barrier(const Graph& graph, const Order& order) {
  const int ranks = graph.program().schedule().problem.ranks;
  const auto rank_of = [&](int node) {
    const auto step = static_cast<std::size_t>(graph.step_of(node));
    return static_cast<std::size_t>(graph.program().steps()[step].rank);
  };
  // For each node the ranks that have come before it runs; then the same for each rank's end.
  std::vector<std::vector<bool>> came(static_cast<std::size_t>(graph.size()),
                                      std::vector<bool>(static_cast<std::size_t>(ranks), false));
  std::vector<std::vector<const Edge*>> waits(static_cast<std::size_t>(graph.size()));
  for (const Edge& edge : graph.edges()) {
    if (edge.delay == 0) {
      waits[static_cast<std::size_t>(edge.to)].push_back(&edge);
    }
  }
  std::vector<std::vector<bool>> left(static_cast<std::size_t>(ranks),
                                      std::vector<bool>(static_cast<std::size_t>(ranks), false));
  const auto merge = [](std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t r = 0; r < from.size(); ++r) {
      into[r] = into[r] || from[r];
    }
  };
  for (const int node : order.nodes()) {
    std::vector<bool>& known = came[static_cast<std::size_t>(node)];
    for (const Edge* edge : waits[static_cast<std::size_t>(node)]) {
      merge(known, came[static_cast<std::size_t>(edge->from)]);
    }
    if (graph.step_of(node) >= 0) {
      known[rank_of(node)] = true;
      merge(left[rank_of(node)], known);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<bool>& known = left[static_cast<std::size_t>(rank)];
    const auto missing = std::ranges::find(known, false) - known.begin();
    if (missing < ranks && missing != rank) {
      return fail(Code::kNotProved,
                  "values: rank {} can leave the barrier before rank {} has come",
                  rank,
                  missing);
    }
  }
  return {};
}

}  // namespace sennit
