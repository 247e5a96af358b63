#include "contest.hpp"

#include <algorithm>
#include <limits>

namespace sennit::bench {

void Contest::run(Measure& measure,
                  Buffers& buffers,
                  RowSize size,
                  const std::function<void(const Row&)>& finish) {
  constexpr double kNotRun = std::numeric_limits<double>::infinity();
  std::vector<double> us(order_.tries.size(), kNotRun);
  for (std::size_t i = 0; i < order_.tries.size(); ++i) {
    if (in_[i] && measure.try_once(buffers, size, order_.tries[i])) {
      Row row = measure.run(buffers, size);
      row.number = static_cast<int>(i);
      us[i] = row.own.call_us.front();  // the least, which no other process has disturbed
      finish(row);
    }
  }
  const double best = std::ranges::min(us);
  for (std::size_t i = 0; i < us.size(); ++i) {
    // What is refused at one size may run at the next.
    in_[i] = order_.prune == 0 || us[i] == kNotRun ? in_[i] : us[i] <= order_.prune * best;
  }
}

}  // namespace sennit::bench
