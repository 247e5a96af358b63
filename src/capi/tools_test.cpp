#include "sennit/tools.h"

#include "base/json.hpp"
#include "schedule/json_form.hpp"
#include "schedule/text.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace sennit {
namespace {

using Tool = sennit_status_t (*)(const char*, char**);

Json answer_of(Tool tool, const char* request) {
  char* answer = nullptr;
  EXPECT_EQ(tool(request, &answer), SENNIT_OK) << sennit_last_error_message();
  const Result<Json> json = parse_json(answer == nullptr ? "null" : answer, "answer");
  sennit_tool_free(answer);
  EXPECT_TRUE(json.ok()) << json.status().message();
  return json.ok() ? *json : Json();
}

void expect_refused(Tool tool, const char* request, std::string_view message) {
  char unchanged = 'x';
  char* answer = &unchanged;
  EXPECT_EQ(tool(request, &answer), SENNIT_INVALID_ARGUMENT) << request;
  EXPECT_EQ(answer, nullptr);
  EXPECT_TRUE(std::string_view(sennit_last_error_message()).starts_with(message))
      << sennit_last_error_message();
}

TEST(Tools, VerifyProvesEveryAlgorithmForAFewRanks) {
  const Json answer = answer_of(sennit_tool_verify, R"({"ranks": "1:4"})");
  EXPECT_GT(answer["instances"], 40);
  EXPECT_EQ(answer["failed"], 0) << answer["failures"].dump();
  EXPECT_TRUE(answer["failures"].empty());
  EXPECT_GT(answer["seconds"], 0.0);
}

TEST(Tools, VerifyNarrowsToWhatIsAskedFor) {
  const Json one = answer_of(sennit_tool_verify,
                             R"({"collective": "all_reduce", "algorithm": "ring", "ranks": 3})");
  EXPECT_EQ(one["instances"], 1);
  const Json rooted = answer_of(sennit_tool_verify,
                                R"({"collective": "broadcast", "algorithm": "chain", "ranks": "3",)"
                                R"( "protocol": "direct"})");
  EXPECT_EQ(rooted["instances"], 3) << "every root";
}

// A broadcast from rank 0 to rank 1, whose step at rank 1 stores into `place`.
std::string request_with_schedule(std::string_view place) {
  const std::string schedule = fmt::format(
      R"({{"schema": 1, "collective": "broadcast", "algorithm": "mine", "ranks": 2, "root": 0,)"
      R"( "cut": 1, "scratch": [], "channels": [{{"writer": [0, 0], "readers": [[1, 0]]}}],)"
      R"( "programs": [[{{"need": "move", "steps": [)"
      R"({{"kind": "copy", "from": [["input", 0]], "to": [["output", 0]]}},)"
      R"( {{"kind": "send", "from": [["input", 0]], "out": [0]}}]}}],)"
      R"( [{{"need": "move", "steps": [{{"kind": "recv", "in": [0], "to": [["{}", 0]]}}]}}]]}})",
      place);
  return Json{{"schedule_text", schedule}, {"schedule_file", "mine.json"}}.dump();
}

TEST(Tools, TakeASchedule) {
  const std::string request = request_with_schedule("output");
  const Json taken = answer_of(sennit_tool_schedule, request.c_str());
  EXPECT_TRUE(taken["algorithm"].get<std::string>().starts_with("schedule:mine:"));
  EXPECT_EQ(taken["ranks"], 2);
  EXPECT_EQ(answer_of(sennit_tool_show, request.c_str())["proof"]["proved"], true);
  const Json verified = answer_of(sennit_tool_verify, request.c_str());
  EXPECT_EQ(verified["failed"], 0);
  EXPECT_EQ(verified["proof"]["proved"], true);
}

TEST(Tools, SayWhereAScheduleIsWrong) {
  expect_refused(
      sennit_tool_schedule,
      request_with_schedule("input").c_str(),
      "mine.json: schedule broadcast mine: rank 1 lane 0 step 0: input[0] is outside its "
      "0 blocks");
  expect_refused(sennit_tool_schedule,
                 request_with_schedule("nowhere").c_str(),
                 "mine.json.programs[1][0].steps[0].to[0][0] is 'nowhere'");
  expect_refused(sennit_tool_schedule, "{}", "request lacks the key 'schedule_text'");
}

TEST(Tools, VerifyCountsByAlgorithm) {
  const Json answer = answer_of(sennit_tool_verify, R"({"collective": "barrier", "ranks": "2:5"})");
  ASSERT_EQ(answer["algorithms"].size(), 2U);
  const Json& row = answer["algorithms"][0];
  EXPECT_EQ(row["algorithm"], "dissemination");
  EXPECT_EQ(row["ranks_first"], 2);
  EXPECT_EQ(row["ranks_last"], 5);
  EXPECT_EQ(row["instances"], 4);
}

TEST(Tools, RefuseWhatTheyDoNotKnowByName) {
  expect_refused(sennit_tool_verify,
                 R"({"rank": 3})",
                 "request has an unknown key 'rank'; there are: collective, algorithm, ranks");
  expect_refused(sennit_tool_info, R"({"x": 1})", "request has an unknown key 'x'");
  expect_refused(
      sennit_tool_algorithms, R"({"collective": "sort"})", "there is no collective 'sort'");
  expect_refused(sennit_tool_verify, R"({"algorithm": "magic"})", "no collective has an algorithm");
  expect_refused(sennit_tool_verify, R"({"protocol": "ll"})", "request.protocol is 'll', expected");
  expect_refused(sennit_tool_machine, "[]", "request is of type array, expected an object");
  expect_refused(sennit_tool_machine, "{", "request:1:2: ");
}

TEST(Tools, VerifyRefusesBadRanks) {
  for (const char* ranks : {"\"\"",
                            "\"0\"",
                            "\"4:2\"",
                            "\"1:\"",
                            "\":4\"",
                            "\"1:2:3\"",
                            "\"a\"",
                            "\"1:99999\"",
                            "0",
                            "1.5",
                            "[]",
                            "\" 1\""}) {
    const std::string request = std::string("{\"ranks\": ") + ranks + "}";
    expect_refused(sennit_tool_verify, request.c_str(), "request.ranks is ");
  }
}

TEST(Tools, ShowAnswersInEveryForm) {
  const Json answer = answer_of(
      sennit_tool_show,
      R"({"collective": "broadcast", "algorithm": "k_nomial", "ranks": 5, "root": 2, "radix": 2})");
  const Result<Schedule> text =
      schedule_from_text(answer["text"].get_ref<const std::string&>(), "text");
  const Result<Schedule> json = schedule_from_json(answer["json"].dump(), "json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ(*text, *json);
  EXPECT_EQ(text->problem.root, 2);
  EXPECT_EQ(answer["proof"]["proved"], true) << answer["proof"].dump();
  EXPECT_TRUE(answer["svg"].get_ref<const std::string&>().starts_with("<svg "));
}

TEST(Tools, ShowRefusesShapesThatAreNone) {
  expect_refused(sennit_tool_show, "{}", "request lacks the key 'collective'");
  expect_refused(sennit_tool_show, R"({"collective": "barrier"})", "request lacks the key 'ranks'");
  expect_refused(sennit_tool_show,
                 R"({"collective": "all_reduce", "ranks": 4, "root": 1})",
                 "request.root is 1, but all_reduce has no root; leave it out");
}

TEST(Tools, ShowTakesGroups) {
  const std::string request =
      R"({"collective": "all_reduce", "algorithm": "hierarchical", "ranks": 4, "groups": )";
  const Json pairs = answer_of(sennit_tool_show, (request + "[[0, 2], [3, 1]]}").c_str());
  EXPECT_EQ(pairs["proof"]["proved"], true);
  // The leaders 0 and 3 exchange.
  EXPECT_NE(pairs["text"].get_ref<const std::string&>().find(" 0.0 -> 3.0"), std::string::npos);
  expect_refused(
      sennit_tool_show,
      (request + "[[0, 2], [3]]}").c_str(),
      "all_reduce hierarchical: 4 ranks and root 0 make no shape: rank 1 is in 0 groups");
  expect_refused(sennit_tool_show,
                 (request + "[[0, 4]]}").c_str(),
                 "request.groups[0][1] is 4, expected 0 to 3");
  expect_refused(
      sennit_tool_show, (request + "[0]}").c_str(), "request.groups[0] is of type number");
}

TEST(Tools, AlgorithmsListsTheRowsOfOneCollective) {
  const Json answer = answer_of(sennit_tool_algorithms, R"({"collective": "all_reduce"})");
  ASSERT_FALSE(answer["algorithms"].empty());
  for (const Json& row : answer["algorithms"]) {
    EXPECT_EQ(row["collective"], "all_reduce");
    EXPECT_FALSE(row["summary"].get_ref<const std::string&>().empty());
  }
}

TEST(Tools, MachineAndInfoNeedNoRequest) {
  const Json machine = answer_of(sennit_tool_machine, nullptr);
  EXPECT_GE(machine["cores"], 1);
  EXPECT_FALSE(machine.contains("network")) << "nobody asked for UCX";
  ::setenv("SENNIT_NO_SUCH_VARIABLE", "1", 1);
  const Json info = answer_of(sennit_tool_info, "");
  ::unsetenv("SENNIT_NO_SUCH_VARIABLE");
  EXPECT_EQ(info["version"], sennit_version_string());
  EXPECT_EQ(info["unknown_variables"], Json::array({"SENNIT_NO_SUCH_VARIABLE"}));
  EXPECT_FALSE(info["variables"].empty());
}

TEST(Tools, TheMachineHasTheCardsThatRailsNames) {
  ::setenv("SENNIT_RAILS", "lo,mlx5_0:1", 1);
  const Json network = answer_of(sennit_tool_machine, R"({"network": true})")["network"];
  ::setenv("SENNIT_RAILS", "a/b", 1);
  const Json refused = answer_of(sennit_tool_machine, R"({"network": true})")["network"];
  ::unsetenv("SENNIT_RAILS");
  ASSERT_EQ(network["cards"].size(), 2U);
  EXPECT_EQ(network["cards"][0]["device"], "lo");
  EXPECT_EQ(network["cards"][1]["is_rdma"], true);
  EXPECT_EQ(network["ucx"].is_null(), !network["note"].get_ref<const std::string&>().empty());
  EXPECT_TRUE(refused["cards"].empty());
  EXPECT_NE(refused["note"].get_ref<const std::string&>().find("'a/b'"), std::string::npos);
}

TEST(Tools, AnAnswerNeedsAPlace) {
  EXPECT_EQ(sennit_tool_info(nullptr, nullptr), SENNIT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace sennit
