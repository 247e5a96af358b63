// Contest: the tries of a work order, timed one after the other at each size.
#pragma once

#include "measure.hpp"

#include <functional>
#include <vector>

namespace sennit::bench {

class Contest {
 public:
  // All tries take part in the first size.
  explicit Contest(const WorkOrder& order) : order_(order), in_(order.tries.size(), true) {}

  // Times those that take part and gives each row. All ranks decide alike who is
  // too slow for the next size, since the times of a row are those of the slowest rank.
  void run(Measure& measure,
           Buffers& buffers,
           RowSize size,
           const std::function<void(const Row&)>& finish);

 private:
  const WorkOrder& order_;
  std::vector<bool> in_;
};

}  // namespace sennit::bench
