// A sample of the failure matrix, drawn anew by the seed. All of it: sennit_failure_matrix.
#include "leaves_nothing.hpp"
#include "node_processes.hpp"
#include "rank_processes.hpp"

#include "failure_matrix/fault_case.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sennit::tests {
namespace {

class FailureMatrixSample : public LeavesNothing {
 protected:
  FailureMatrixSample() : random_(seed_of_this_run()) {}

  int draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  // One case of each of `count` subjects; a subject that cannot be had here is passed over.
  void run_cases(Fault fault, int count) {
    run_cases(fault, count, [&] { return subjects(draw(2, 5)); });
  }
  void run_cases_on_nodes(Fault fault, int count) {
    constexpr std::array<std::string_view, 4> kNodes = {"ab", "aabb", "aaab", "abc"};
    run_cases(fault, count, [&] { return subjects_on(kNodes[at(kNodes)]); });
  }

 private:
  template <typename Container>
  std::size_t at(const Container& container) {
    return static_cast<std::size_t>(draw(0, static_cast<int>(std::ssize(container)) - 1));
  }

  void run_cases(Fault fault, int count, const std::function<std::vector<Subject>()>& draw_all) {
    SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed_of_this_run()));
    int struck = 0;
    for (int k = 0; k < count; ++k) {
      const std::vector<Subject> all = draw_all();
      FaultCase one{.subject = all[at(all)]};
      if (run(one).refused) {
        continue;
      }
      one.fault = fault;
      one.victim = draw(0, one.subject.ranks - 1);
      struck += run_at_a_moment(one) ? 1 : 0;
    }
    EXPECT_GT(struck, count / 3) << "most subjects should have been possible";
  }

  // At a moment of the call: nobody knows how many there are, but the first is always there.
  bool run_at_a_moment(FaultCase one) {
    one.moment = draw(0, 1 << draw(0, 5)) - 1;
    while (true) {
      one.moment = std::max(one.moment, 0);
      const CaseResult result = run(one);
      for (const std::string& complaint : result.complaints) {
        ADD_FAILURE() << complaint;
      }
      if (result.struck || one.moment == 0) {
        return result.struck;
      }
      one.moment /= 2;
    }
  }

  std::mt19937 random_;
};

TEST_F(FailureMatrixSample, AKillIsToldByEverySurvivorInTime) { run_cases(Fault::kKill, 40); }

TEST_F(FailureMatrixSample, AStopIsToldAtTheDeadline) { run_cases(Fault::kStop, 8); }

TEST_F(FailureMatrixSample, ARankThatGoesOnHarmsNothing) { run_cases(Fault::kStopAndGoOn, 8); }

class FailureMatrixSampleOnNodes : public FailureMatrixSample {
 protected:
  void SetUp() override {
    if (!why_no_ucx().empty()) {
      GTEST_SKIP() << "ucx: " << why_no_ucx();
    }
    FailureMatrixSample::SetUp();
  }
};

TEST_F(FailureMatrixSampleOnNodes, AKillIsReportedByEverySurvivorInTime) {
  run_cases_on_nodes(Fault::kKill, 16);
}

TEST_F(FailureMatrixSampleOnNodes, AStopIsReportedAtTheDeadline) {
  run_cases_on_nodes(Fault::kStop, 2);
}

TEST_F(FailureMatrixSampleOnNodes, ARankThatGoesOnHarmsNothing) {
  run_cases_on_nodes(Fault::kStopAndGoOn, 4);
}

}  // namespace
}  // namespace sennit::tests
