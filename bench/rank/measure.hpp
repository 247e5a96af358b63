// Timing of one row: samples of several calls, each begun together by all ranks; the time of a
// sample is the longest of any rank.
#pragma once

#include "calls.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sennit::bench {

struct Row {
  RowSize size;
  int calls_per_sample = 1;
  std::vector<double> call_us;  // of each sample, the longest rank's; sorted
  std::uint64_t wrong = 0;      // elements on all ranks, over all checks
  std::string plan;             // how the calls were carried out, as sennit_tool_last_plan tells
};

class Measure {
 public:
  Measure(const WorkOrder& order, sennit_comm_t comm, int rank, int ranks);

  // Makes the next calls so, beginning with one; false where it is refused, on all ranks alike.
  bool try_once(Buffers& buffers, RowSize size, const Try& one);
  Row run(Buffers& buffers, RowSize size);

 private:
  double time_calls(const Buffers& buffers, RowSize size, int calls);
  // The largest of all ranks' values, element by element.
  void largest_of_all(std::vector<double>& values) const;
  [[nodiscard]] std::string last_plan() const;
  void calibrate(const Buffers& buffers, Row& row);
  std::uint64_t check_call(Buffers& buffers, RowSize size);

  const WorkOrder& order_;
  sennit_comm_t comm_;
  Caller caller_;
  std::size_t next_call_ = 0;  // counts calls, for rotating roots
};

}  // namespace sennit::bench
