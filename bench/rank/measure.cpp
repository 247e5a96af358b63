#include "measure.hpp"

#include "sennit/tools.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace sennit::bench {
namespace {

// A sample shall take 20 us, or it would measure the clock and the start line; it may be faster
// than the calls that it is planned from.
constexpr double kSampleUs = 30.0;
constexpr int kMostCallsPerSample = 1000;
// Calls that are shorter are timed so many together before the sample is sized.
constexpr double kProbeUs = 500.0;
constexpr int kProbeCalls = 16;
// Of a row that is too slow for all its samples.
constexpr int kFewestSamples = 3;

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

}  // namespace

Measure::Measure(const WorkOrder& order,
                 const TimeLimit& limit,
                 sennit_comm_t comm,
                 const Rival* rival,
                 StartLine& start_line)
    : order_(order), limit_(limit), comm_(comm), start_line_(start_line) {
  check(sennit_comm_rank(comm, &rank_));
  check(sennit_comm_size(comm, &ranks_));
  own_ = std::make_unique<OwnCalls>(order, comm, rank_, ranks_);
  if (rival != nullptr) {
    rival_ = std::make_unique<RivalCalls>(order, *rival, rank_, ranks_);
  }
}

bool Measure::is_over() const {
  return limit_.seconds > 0 && largest_of_all(us_since(limit_.begin)) > limit_.seconds * 1e6;
}

double Measure::time_calls(Calls& calls, Buffers& buffers, int count) {
  // Both libraries come from a barrier of their own, and need no help of ranks that wait here.
  check(sennit_barrier(comm_, nullptr, nullptr));
  calls.settle();
  if (!start_line_.wait()) {
    check(sennit_barrier(comm_, nullptr, nullptr));  // says who died or stopped
  }
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    calls.call(buffers, count_, root_of(order_, ranks_, next_call_++));
    buffers.rotate();
  }
  const double us = us_since(begin) / count;
  calls.settle();
  return us;
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

double Measure::largest_of_all(double value) const {
  std::vector<double> values{value};
  largest_of_all(values);
  return values[0];
}

std::uint64_t Measure::sum_of_all(std::uint64_t value) const {
  check(sennit_all_reduce(&value, &value, 1, SENNIT_UINT64, SENNIT_SUM, comm_, nullptr, nullptr));
  return value;
}

std::string Measure::last_plan() const {
  char* answer = nullptr;
  check(sennit_tool_last_plan(comm_, &answer));
  std::string plan = answer;
  sennit_tool_free(answer);
  return plan;
}

// Warms up, then finds how many calls make a sample of at least kSampleUs, and how many samples the
// row has time for. All ranks come to the same numbers.
void Measure::calibrate(Runner& runner, Buffers& buffers) {
  const double slow_us = order_.slow_seconds * 1e6;
  double us = largest_of_all(time_calls(runner.calls, buffers, 1));
  const int rest = order_.warmup - 1;
  const bool takes_too_long = (slow_us > 0 && us * rest >= slow_us) ||
                              (limit_.seconds > 0 && us * rest >= limit_.seconds * 1e6);
  if (rest > 0 && !takes_too_long) {
    time_calls(runner.calls, buffers, rest);
    us = largest_of_all(time_calls(runner.calls, buffers, 1));
  }
  // Where ranks outnumber the cores, the first call behind a barrier waits for ranks to wake up.
  if (us < kProbeUs) {
    us = largest_of_all(time_calls(runner.calls, buffers, kProbeCalls));
  }
  int calls = 1;
  while (us * calls < kSampleUs && calls < kMostCallsPerSample) {
    const double wanted = std::max(std::ceil(kSampleUs / us), 2.0 * calls);
    calls = static_cast<int>(std::min(wanted, static_cast<double>(kMostCallsPerSample)));
    us = largest_of_all(time_calls(runner.calls, buffers, calls));
  }
  // Every sample has every root equally often. Else two libraries whose samples of one call
  // alternate between two ranks would each have one root all the time.
  const int all_roots = calls_of_all_roots(order_, ranks_);
  calls = (calls + all_roots - 1) / all_roots * all_roots;
  runner.timing.calls_per_sample = calls;
  if (slow_us > 0 && us * calls * runner.samples > slow_us) {
    runner.samples = std::max(kFewestSamples, static_cast<int>(slow_us / (us * calls)));
  }
}

// A call of its own on fresh data: in place, a timed sample's calls have changed their inputs.
std::uint64_t Measure::check_call(Calls& calls, Buffers& buffers) {
  const int root = root_of(order_, ranks_, next_call_++);
  buffers.fill(root);
  calls.call(buffers, count_, root);
  calls.settle();
  return takes_part(order_, rank_) ? buffers.count_wrong(root) : 0;
}

// Of one call on fresh data: what a codec loses is the same in every call.
void Measure::check_error(Buffers& buffers, Row& row) {
  buffers.lay_out(row.size.count, row.size.bytes, /*rotates=*/false);
  const int root = root_of(order_, ranks_, next_call_++);
  buffers.fill(root);
  own_->call(buffers, count_, root);
  Buffers::Errors& errors = row.errors;
  if (takes_part(order_, rank_)) {
    buffers.add_errors(root, errors);
  }
  std::array<double, 2> sums{errors.squared, errors.expected_squared};
  check(sennit_all_reduce(
      sums.data(), sums.data(), sums.size(), SENNIT_FLOAT64, SENNIT_SUM, comm_, nullptr, nullptr));
  errors = {.squared = sums[0],
            .expected_squared = sums[1],
            .most_squared = largest_of_all(errors.most_squared),
            .most_expected_squared = largest_of_all(errors.most_expected_squared)};
}

void Measure::take_samples(std::vector<Runner>& runners, Buffers& buffers, bool checks) {
  const Clock::time_point begin = Clock::now();
  const int most = std::ranges::max_element(runners, {}, &Runner::samples)->samples;
  bool is_late = false;
  for (int sample = 0; sample < most && !is_late; ++sample) {
    if (order_.max_seconds > 0) {
      // The slowest rank's clock decides for all; this sample is the row's last one.
      is_late = largest_of_all(us_since(begin)) > order_.max_seconds * 1e6;
    }
    is_late = is_over() || is_late;
    for (Runner& runner : runners) {
      if (sample >= runner.samples) {
        continue;
      }
      runner.timing.call_us.push_back(
          time_calls(runner.calls, buffers, runner.timing.calls_per_sample));
      if (checks && (sample == 0 || sample == runner.samples / 2 || sample == runner.samples - 1 ||
                     is_late)) {
        runner.wrong += check_call(runner.calls, buffers);
      }
    }
  }
  for (Runner& runner : runners) {
    largest_of_all(runner.timing.call_us);
    std::ranges::sort(runner.timing.call_us);
  }
}

// Whether the rival is too slow for larger rows.
bool Measure::time_row(Buffers& buffers, Row& row, bool is_warm) {
  Timing& own = is_warm ? row.own_warm.emplace() : row.own;
  std::vector<Runner> runners{{*own_, own, row.wrong, order_.iterations}};
  if (rival_ != nullptr && !rival_is_slow_) {
    Timing& rival = (is_warm ? row.rival_warm : row.rival).emplace();
    runners.push_back({*rival_, rival, row.rival_wrong, order_.iterations});
  }
  buffers.lay_out(row.size.count, row.size.bytes, !is_warm && order_.rotate_bytes > 0);
  for (Runner& runner : runners) {
    calibrate(runner, buffers);
  }
  take_samples(runners, buffers, order_.check && order_.codec.empty() && !is_warm);
  return runners.size() > 1 && runners.back().samples < order_.iterations;
}

bool Measure::try_once(Buffers& buffers, RowSize size, const Try& one) {
  own_->request(one);
  buffers.lay_out(size.count, size.bytes, /*rotates=*/false);
  const sennit_status_t status =
      own_->attempt(buffers, size.count, root_of(order_, ranks_, next_call_++));
  if (status == SENNIT_UNSUPPORTED || status == SENNIT_NOT_PROVED) {
    return false;
  }
  check(status);
  return true;
}

Row Measure::run(Buffers& buffers, RowSize size) {
  Row row;
  row.size = size;
  count_ = size.count;
  buffers.lay_out(size.count, size.bytes, /*rotates=*/false);
  // Made here, so that the plan that is reported is that of this call.
  own_->call(buffers, count_, root_of(order_, ranks_, next_call_++));
  row.plan = last_plan();
  const bool is_slow = time_row(buffers, row, /*is_warm=*/false);
  if (size.bytes > 0 && size.bytes <= order_.warm_bytes) {
    time_row(buffers, row, /*is_warm=*/true);
  }
  rival_is_slow_ = rival_is_slow_ || is_slow;
  if (order_.check && !order_.codec.empty() && size.count > 0) {
    check_error(buffers, row);
  }
  row.wrong = sum_of_all(row.wrong);
  row.rival_wrong = sum_of_all(row.rival_wrong);
  return row;
}

}  // namespace sennit::bench
