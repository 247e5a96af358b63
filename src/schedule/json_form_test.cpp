#include "schedule/json_form.hpp"

#include "schedule/testing/sample_schedules.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

namespace sennit {
namespace {

Plan plan_with_everything() {
  Strand strand = bind(std::make_shared<const Schedule>(schedule_with_everything()),
                       PathKind::kShm,
                       Protocol::kSlots,
                       3,
                       Engine::kCpu);
  Strand other = strand;
  other.channels[1] = {.paths = {PathKind::kNvlink, PathKind::kHost},
                       .protocol = Protocol::kLl128,
                       .slots = 8,
                       .chooser = Chooser::kReader};
  other.lanes[1][0] = {.engine = Engine::kStream, .burst = 4};
  other.tile_bytes = std::int64_t{1} << 40;
  other.width = 16;
  other.share = 0;
  return {.strands = {strand, other}, .division = Division::kClaimed};
}

TEST(JsonForm, ReadsBackASchedule) {
  const Schedule schedule = schedule_with_everything();
  const Result<Schedule> read = schedule_from_json(dump_json(to_json(schedule)), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, schedule);
}

TEST(JsonForm, ReadsBackAPlan) {
  const Plan plan = plan_with_everything();
  const Result<Plan> read = plan_from_json(dump_json(to_json(plan)), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, plan);
  EXPECT_EQ(plan_hash(*read), plan_hash(plan));
}

TEST(JsonForm, ReadsBackCodecs) {
  Plan plan{{bind(std::make_shared<const Schedule>(schedule_with_everything()),
                  PathKind::kShm,
                  Protocol::kSlots,
                  3,
                  Engine::kCpu)}};
  plan.strands.front().channels[1].codec = Codec::kZfp16;
  plan.strands.front().home_codec = Codec::kQ8;
  Json json = to_json(plan);
  const Result<Plan> read = plan_from_json(dump_json(json), "f");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, plan);
  EXPECT_FALSE(json["strands"][0]["channels"][0].contains("codec")) << "most channels have none";
  json["strands"][0]["channels"][1]["codec"] = "q9";
  EXPECT_TRUE(
      plan_from_json(dump_json(json), "f")
          .status()
          .message()
          .starts_with("f.strands[0].channels[1].codec: there is no codec 'q9'; there are: "));
}

TEST(JsonForm, NamesLineAndColumnOfASyntaxError) {
  const Status status = schedule_from_json("{\n  \"schema\": 1,\n  oops}", "f").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(status.message().starts_with("f:3:3: ")) << status.message();
  EXPECT_TRUE(schedule_from_json("", "f").status().message().starts_with("f:1:1: "));
}

// Changes one value of the JSON form of the plan, and expects an error about it.
void expect_refused(const char* pointer, const Json& value, std::string_view message) {
  Json json = to_json(plan_with_everything());
  json[Json::json_pointer(pointer)] = value;
  const Status status = plan_from_json(dump_json(json), "f").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(status.message().starts_with(message)) << status.message();
}

TEST(JsonForm, RefusesWrongFieldsByTheirPath) {
  expect_refused("/schema", 2, "f.schema is 2, expected 1 to 1");
  expect_refused("/colour", "red", "f has an unknown key 'colour'; there are: schema, strands");
  expect_refused("/strands/0/width", 1.5, "f.strands[0].width is of type number, expected an int");
  expect_refused("/strands/0/width", 0, "f.strands[0].width is 0, expected 1 to ");
  expect_refused("/strands/0/tile_bytes",
                 18446744073709551615U,
                 "f.strands[0].tile_bytes is 18446744073709551615, expected 1 to ");
  expect_refused("/strands/1/channels/0/paths/0", "wifi", "f.strands[1].channels[0].paths[0]: ");
  expect_refused("/strands/1/channels/0/protocol",
                 7,
                 "f.strands[1].channels[0].protocol is of type number, expected a string");
  expect_refused("/strands/0/lanes", Json::object(), "f.strands[0].lanes is of type object");
  expect_refused("/strands/0/schedule/programs/0/0/steps/0/size",
                 1,
                 "f.strands[0].schedule.programs[0][0].steps[0] has an unknown key 'size'");
  expect_refused("/strands/0/schedule/programs/0/0/steps/0/from/1",
                 Json::array({"heap", 0}),
                 "f.strands[0].schedule.programs[0][0].steps[0].from[1][0] is 'heap', expected");
  expect_refused("/strands/0/schedule/channels/0/writer",
                 Json::array({0}),
                 "f.strands[0].schedule.channels[0].writer has 1 numbers, expected 2");
  expect_refused(
      "/strands/0/schedule/ranks", 2, "f.strands[0].schedule.root is 2, expected 0 to 1");
}

TEST(JsonForm, NamesAMissingKey) {
  EXPECT_EQ(plan_from_json("{\"schema\": 1}", "f").status().message(), "f lacks the key 'strands'");
}

TEST(JsonForm, SurvivesMutations) {
  constexpr unsigned kSeed = 977;
  std::mt19937 random(kSeed);
  const std::string original = to_json(plan_with_everything()).dump();
  const std::string_view pieces[] = {"0", "-1", "1e99", "\"", "[", "]", "{", "}", ",", "null", "9"};
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = original;
    text.replace(random() % text.size(), random() % 3, pieces[random() % std::size(pieces)]);
    const Result<Plan> read = plan_from_json(text, "mutant");
    if (read.ok()) {
      ++accepted;
      const Result<Plan> again = plan_from_json(dump_json(to_json(*read)), "again");
      ASSERT_TRUE(again.ok()) << "round " << round << " of seed " << kSeed;
      ASSERT_EQ(*again, *read) << "round " << round << " of seed " << kSeed;
    } else {
      ASSERT_EQ(read.status().code(), Code::kInvalidArgument);
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace sennit
