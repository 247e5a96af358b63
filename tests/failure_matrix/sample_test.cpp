// A sample of the failure matrix, drawn anew by the seed. All of it: sennit_failure_matrix.
#include "rank_processes.hpp"

#include "failure_matrix/fault_case.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

class FailureMatrixSample : public testing::Test {
 protected:
  FailureMatrixSample() : random_(seed_of_this_run()) {}

  int draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  // One case of each of `count` subjects; a subject that cannot be had here is passed over.
  void run_cases(Fault fault, int count) {
    SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed_of_this_run()));
    int struck = 0;
    for (int k = 0; k < count; ++k) {
      const std::vector<Subject> all = subjects(draw(2, 5));
      FaultCase one{.subject =
                        all[static_cast<std::size_t>(draw(0, static_cast<int>(all.size()) - 1))]};
      if (run(one).refused) {
        continue;
      }
      one.fault = fault;
      one.victim = draw(0, one.subject.ranks - 1);
      struck += run_at_a_moment(one) ? 1 : 0;
    }
    EXPECT_GT(struck, count / 3) << "most subjects should have been possible";
  }

 private:
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

}  // namespace
}  // namespace sennit::tests
