// Timing of one row: samples of several calls, each begun together by all ranks; the time of a
// sample is the longest of any rank. A rival's samples alternate with ours.
#pragma once

#include "calls.hpp"
#include "rival.hpp"
#include "start_line.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit::bench {

// What one library's calls took.
struct Timing {
  int calls_per_sample = 1;
  std::vector<double> call_us;  // of each sample, the longest rank's; sorted
};

struct Row {
  RowSize size;
  Timing own;
  std::optional<Timing> rival;  // none: not asked for, or too slow at a smaller size
  // With the same buffers for all calls, where the order asks for it.
  std::optional<Timing> own_warm;
  std::optional<Timing> rival_warm;
  std::uint64_t wrong = 0;  // elements on all ranks, over all checks
  std::uint64_t rival_wrong = 0;
  Buffers::Errors errors;  // of a row with a codec, in place of `wrong`; on all ranks
  int number = -1;         // of the order's try; -1: it has none
  std::string plan;        // how our calls were carried out, as sennit_tool_last_plan tells
};

// How long a job may take, on the clock of the slowest rank.
struct TimeLimit {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  double seconds = 0;  // 0: any time
};

class Measure {
 public:
  // `rival` may be null.
  Measure(const WorkOrder& order,
          const TimeLimit& limit,
          sennit_comm_t comm,
          const Rival* rival,
          StartLine& start_line);

  // Whether the time of the job is over; all ranks ask together, and get the same answer.
  [[nodiscard]] bool is_over() const;

  // Makes the next calls so, beginning with one; false where it is refused, on all ranks alike.
  bool try_once(Buffers& buffers, RowSize size, const Try& one);
  Row run(Buffers& buffers, RowSize size);

 private:
  // One library's part in a row.
  struct Runner {
    Calls& calls;
    Timing& timing;
    std::uint64_t& wrong;
    int samples;
  };

  double time_calls(Calls& calls, Buffers& buffers, int count);
  // The largest of all ranks' values, element by element.
  void largest_of_all(std::vector<double>& values) const;
  [[nodiscard]] double largest_of_all(double value) const;
  [[nodiscard]] std::uint64_t sum_of_all(std::uint64_t value) const;
  [[nodiscard]] std::string last_plan() const;
  bool time_row(Buffers& buffers, Row& row, bool is_warm);
  void calibrate(Runner& runner, Buffers& buffers);
  void take_samples(std::vector<Runner>& runners, Buffers& buffers, bool checks);
  std::uint64_t check_call(Calls& calls, Buffers& buffers);
  void check_error(Buffers& buffers, Row& row);

  const WorkOrder& order_;
  const TimeLimit& limit_;
  sennit_comm_t comm_;
  StartLine& start_line_;
  int rank_ = 0;
  int ranks_ = 0;
  std::unique_ptr<OwnCalls> own_;
  std::unique_ptr<RivalCalls> rival_;
  bool rival_is_slow_ = false;
  std::size_t count_ = 0;      // of the row
  std::size_t next_call_ = 0;  // counts calls, for rotating roots
};

}  // namespace sennit::bench
