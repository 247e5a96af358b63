#include "measure.hpp"

#include "sennit/tools.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace sennit::bench {
namespace {

// Shorter samples would measure the clock and the barrier.
constexpr double kSampleUs = 20.0;
constexpr int kMostCallsPerSample = 1000;

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

}  // namespace

Measure::Measure(const WorkOrder& order, sennit_comm_t comm, int rank, int ranks)
    : order_(order), comm_(comm), caller_(order, comm, rank, ranks) {}

double Measure::time_calls(const Buffers& buffers, RowSize size, int calls) {
  check(sennit_barrier(comm_, nullptr, nullptr));
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < calls; ++i) {
    check(caller_.call(buffers, size.count, caller_.root(next_call_++)));
  }
  return us_since(begin) / calls;
}

void Measure::largest_of_all(std::vector<double>& values) const {
  check(sennit_all_reduce(values.data(),
                          values.data(),
                          values.size(),
                          SENNIT_FLOAT64,
                          SENNIT_MAX,
                          comm_,
                          nullptr,
                          nullptr));
}

std::string Measure::last_plan() const {
  char* answer = nullptr;
  check(sennit_tool_last_plan(comm_, &answer));
  std::string plan = answer;
  sennit_tool_free(answer);
  return plan;
}

// Calls for a sample of at least kSampleUs; all ranks come to the same number.
void Measure::calibrate(const Buffers& buffers, Row& row) {
  std::vector<double> us{time_calls(buffers, row.size, std::max(1, order_.warmup))};
  row.plan = last_plan();
  largest_of_all(us);
  row.calls_per_sample = static_cast<int>(
      std::clamp(std::ceil(kSampleUs / us[0]), 1.0, static_cast<double>(kMostCallsPerSample)));
}

// A call of its own on fresh data: in place, a timed sample's calls have changed their inputs.
std::uint64_t Measure::check_call(Buffers& buffers, RowSize size) {
  const int root = caller_.root(next_call_++);
  buffers.fill(root);
  check(caller_.call(buffers, size.count, root));
  return caller_.takes_part() ? buffers.count_wrong(root) : 0;
}

bool Measure::try_once(Buffers& buffers, RowSize size, const Try& one) {
  caller_.wish(one);
  buffers.set_count(size.count);
  buffers.fill(caller_.root(next_call_));
  const sennit_status_t status = caller_.call(buffers, size.count, caller_.root(next_call_++));
  if (status == SENNIT_UNSUPPORTED || status == SENNIT_NOT_PROVED) {
    return false;
  }
  check(status);
  return true;
}

Row Measure::run(Buffers& buffers, RowSize size) {
  Row row{.size = size, .call_us = {}, .plan = {}};
  buffers.set_count(size.count);
  buffers.fill(caller_.root(next_call_));
  calibrate(buffers, row);
  const Clock::time_point begin = Clock::now();
  for (int sample = 0; sample < order_.iterations; ++sample) {
    row.call_us.push_back(time_calls(buffers, size, row.calls_per_sample));
    if (order_.check &&
        (sample == 0 || sample == order_.iterations / 2 || sample == order_.iterations - 1)) {
      row.wrong += check_call(buffers, size);
    }
    if (order_.max_seconds > 0) {
      // The slowest rank's clock decides for all; the row ends early, its last check comes now.
      std::vector<double> us{us_since(begin)};
      largest_of_all(us);
      if (us[0] > order_.max_seconds * 1e6 && sample + 1 < order_.iterations) {
        row.wrong += order_.check ? check_call(buffers, size) : 0;
        break;
      }
    }
  }
  largest_of_all(row.call_us);
  std::ranges::sort(row.call_us);
  auto wrong = static_cast<std::int64_t>(row.wrong);
  check(sennit_all_reduce(&wrong, &wrong, 1, SENNIT_INT64, SENNIT_SUM, comm_, nullptr, nullptr));
  row.wrong = static_cast<std::uint64_t>(wrong);
  return row;
}

}  // namespace sennit::bench
