// Cells: the memory of one tile. Every block of every rank is a cell; in place, an output block and
// the input block that it is aliased with are one cell, on every rank.
#pragma once

#include "schedule/schedule.hpp"

#include <string>
#include <vector>

namespace sennit {

class Cells {
 public:
  // `schedule` outlives the cells.
  Cells(const Schedule& schedule, bool in_place);

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] int of(int rank, const Block& block) const;

  // "output[3] of rank 1"; in place the output's name comes first.
  [[nodiscard]] std::string describe(int cell) const;

  [[nodiscard]] const Schedule& schedule() const { return *schedule_; }

 private:
  struct RankCells {
    int first_input = 0;
    std::vector<int> outputs;
    int first_scratch = 0;
  };

  const Schedule* schedule_;
  std::vector<RankCells> ranks_;
  std::vector<int> scratch_offset_;  // from first_scratch
  int count_ = 0;
};

// "output[3]", "scratch stage[0]"
std::string describe(const Schedule& schedule, const Block& block);

}  // namespace sennit
