// Groups: the ranks of a shape in two levels (sockets, nodes), for hierarchical algorithms.
//
// They are Shape::groups. Where a shape names none, they are the ranks in ascending order, in
// floor(sqrt(ranks)) groups whose sizes differ by one at most: 8 ranks are {0 1 2 3} {4 5 6 7}.
#pragma once

#include "schedule/problem.hpp"

#include <string>
#include <vector>

namespace sennit::algo {

class Groups {
 public:
  explicit Groups(const Shape& shape);

  [[nodiscard]] int count() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] const std::vector<int>& members(int group) const;
  [[nodiscard]] int size(int group) const { return static_cast<int>(members(group).size()); }

  [[nodiscard]] int group_of(int rank) const;
  // Its place among the members of its group.
  [[nodiscard]] int place_of(int rank) const;

  // The other members of its group, nearest successor first.
  [[nodiscard]] std::vector<int> other_members(int rank) const;

  // The member of `group` that `rank` deals with there: the one at its own place, counted round
  // where that group is smaller.
  [[nodiscard]] int counterpart(int rank, int group) const;

  [[nodiscard]] int largest() const;
  // Groups with two members or more.
  [[nodiscard]] int count_of_many() const;

 private:
  std::vector<std::vector<int>> members_;
  std::vector<int> group_of_;
  std::vector<int> place_of_;
};

// Closed form: how many of the numbers place, place + size, place + 2 size, ... lie below `end`,
// for place < size.
constexpr int numbers_below(int end, int place, int size) {
  return (end - place + size - 1) / size;
}

// Why the groups of `shape` do not hold each rank exactly once; empty when they do or there are
// none.
std::string defect_of_groups(const Shape& shape);

}  // namespace sennit::algo
