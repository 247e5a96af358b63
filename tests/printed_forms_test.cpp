// Every algorithm's schedules can be printed in every form, and read back as they were.
#include "algo/algorithm.hpp"
#include "schedule/json_form.hpp"
#include "schedule/picture.hpp"
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
        const Shape shape{.ranks = ranks, .root = is_rooted(collective) ? ranks - 1 : 0};
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
  const Result<Schedule> schedule = make_schedule(**ring, {.ranks = 3});
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(to_text(*schedule), "");
}

}  // namespace
}  // namespace sennit
