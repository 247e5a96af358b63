// Every algorithm's schedules can be printed in every form, and read back as they were.
#include "algo/algorithm.hpp"
#include "schedule/json_form.hpp"
#include "schedule/text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sennit {
namespace {

constexpr int kMaxRanks = 9;

std::vector<Schedule> schedules_of_all_algorithms() {
  std::vector<Schedule> schedules;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
        Shape shape;
        shape.ranks = ranks;
        shape.root = is_rooted(collective) ? ranks - 1 : 0;
        Result<Schedule> schedule = make_schedule(algorithm, shape);
        if (schedule.ok()) {
          schedules.push_back(std::move(*schedule));
        }
      }
    }
  }
  return schedules;
}

TEST(PrintedForms, ReadBackAsTheyWere) {
  const std::vector<Schedule> schedules = schedules_of_all_algorithms();
  EXPECT_GE(schedules.size(), 2U * kMaxRanks);
  for (const Schedule& schedule : schedules) {
    const std::string text = to_text(schedule);
    const Result<Schedule> from_text = schedule_from_text(text, "text");
    ASSERT_TRUE(from_text.ok()) << from_text.status().message() << "\n" << text;
    EXPECT_EQ(*from_text, schedule) << text;
    const Result<Schedule> from_json = schedule_from_json(dump_json(to_json(schedule)), "json");
    ASSERT_TRUE(from_json.ok()) << from_json.status().message() << "\n" << text;
    EXPECT_EQ(*from_json, schedule) << text;
  }
}

TEST(PrintedForms, ShowTheRingOfThreeAsInTheDocumentation) {
  const Result<const Algorithm*> ring = find_algorithm(Collective::kAllReduce, "ring");
  ASSERT_TRUE(ring.ok());
  Shape shape;
  shape.ranks = 3;
  const Result<Schedule> schedule = make_schedule(**ring, shape);
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(to_text(*schedule),
            R"(schedule all_reduce ring ranks=3 root=0 cut=3
channel c0 0.0 -> 1.0
channel c1 1.0 -> 2.0
channel c2 2.0 -> 0.0
rank 0
  lane 0 reduce
    0 send        input[0] -> c0
    1 recv_reduce input[2] + c2 -> c0
    2 recv_reduce input[1] + c2 -> output[1], c0
    3 recv        c2 -> output[0], c0
    4 recv        c2 -> output[2]
rank 1
  lane 0 reduce
    0 send        input[1] -> c1
    1 recv_reduce input[0] + c0 -> c1
    2 recv_reduce input[2] + c0 -> output[2], c1
    3 recv        c0 -> output[1], c1
    4 recv        c0 -> output[0]
rank 2
  lane 0 reduce
    0 send        input[2] -> c2
    1 recv_reduce input[1] + c1 -> c2
    2 recv_reduce input[0] + c1 -> output[0], c2
    3 recv        c1 -> output[2], c2
    4 recv        c1 -> output[1]
)");
}

}  // namespace
}  // namespace sennit
