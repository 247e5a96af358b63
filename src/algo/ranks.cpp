#include "algo/ranks.hpp"

namespace sennit::algo {

std::vector<int> successors(int own, int ranks) {
  std::vector<int> list;
  for (int distance = 1; distance < ranks; ++distance) {
    list.push_back(wrap(own + distance, ranks));
  }
  return list;
}

std::vector<int> predecessors(int own, int ranks) {
  std::vector<int> list;
  for (int distance = 1; distance < ranks; ++distance) {
    list.push_back(wrap(own - distance, ranks));
  }
  return list;
}

std::vector<int> others(int own, int ranks) {
  std::vector<int> list;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != own) {
      list.push_back(rank);
    }
  }
  return list;
}

std::vector<int> rank_order(int own, int ranks) {
  std::vector<int> order;
  for (int rank = 0; rank < ranks; ++rank) {
    // Operand 0 is the own block, operand 1 + i the message of the i-th other rank.
    order.push_back(rank == own ? 0 : rank < own ? rank + 1 : rank);
  }
  return order;
}

}  // namespace sennit::algo
