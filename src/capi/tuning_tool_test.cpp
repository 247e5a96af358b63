#include "base/json.hpp"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

namespace sennit {
namespace {

using Tool = sennit_status_t (*)(const char*, char**);

Json answer_of(const Json& request, Tool tool) {
  char* answer = nullptr;
  EXPECT_EQ(tool(request.dump().c_str(), &answer), SENNIT_OK) << sennit_last_error_message();
  const Result<Json> json = parse_json(answer == nullptr ? "null" : answer, "answer");
  sennit_tool_free(answer);
  return json.ok() ? *json : Json();
}

Json row(std::string_view algorithm, std::string_view protocol, std::int64_t bytes, double us) {
  return {{"collective", "all_reduce"},
          {"ranks", 2},
          {"bytes", bytes},
          {"algorithm", algorithm},
          {"protocol", protocol},
          {"tile_bytes", 0},
          {"times_us", {us, us * 1.02, us * 0.98}}};
}

Json chain(std::int64_t bytes, std::int64_t chunk, double us) {
  return {{"collective", "broadcast"},
          {"ranks", 4},
          {"bytes", bytes},
          {"algorithm", "chain"},
          {"protocol", "slots"},
          {"tile_bytes", chunk},
          {"times_us", {us}}};
}

// (M/C + n - 2)(t_s + C/B) with 2 us and 4 GB/s.
double chain_us(std::int64_t bytes, std::int64_t chunk) {
  const double messages = static_cast<double>(bytes) / static_cast<double>(chunk) + 2;
  return messages * (2 + static_cast<double>(chunk) / 4e3);
}

Json rows() {
  Json rows{row("ring", "slots", 1024, 20), row("one_shot", "slots", 1024, 10)};
  for (const std::int64_t bytes : {1 << 20, 4 << 20}) {
    for (const std::int64_t chunk : {16 << 10, 32 << 10, 64 << 10}) {
      rows.push_back(chain(bytes, chunk, chain_us(bytes, chunk)));
    }
  }
  return rows;
}

TEST(TuneTool, FitsAndChoosesFromTimes) {
  const Json tuned = answer_of({{"rows", rows()}}, sennit_tool_tune);
  ASSERT_EQ(tuned["fits"].size(), 2U);
  EXPECT_NEAR(tuned["fits"][0]["start_us"], 2, 1e-6);
  EXPECT_NEAR(tuned["fits"][0]["gbps"], 4, 1e-6);
  const Json explained = answer_of(
      {{"collective", "all_reduce"}, {"ranks", 2}, {"bytes", 1500}, {"table", tuned["text"]}},
      sennit_tool_explain_host);
  EXPECT_EQ(explained["choice"]["algorithm"], "one_shot");
  EXPECT_EQ(explained["candidates"][0]["measured_us"], 10);
  EXPECT_EQ(explained["reason"],
            "one_shot by slots was the fastest measured for 1024 bytes, the nearest size: 10.0 us, "
            "2.00 times as fast as the next");
  const Json elsewhere = answer_of(
      {{"collective", "all_reduce"}, {"ranks", 3}, {"bytes", 1500}, {"table", tuned["text"]}},
      sennit_tool_explain_host);
  EXPECT_EQ(elsewhere["reason"],
            "recursive_doubling by slots by the built-in rule: the table has no times of 3 ranks");
}

TEST(TuneTool, JudgesATableByALaterRun) {
  const Json tuned = answer_of({{"rows", rows()}}, sennit_tool_tune);
  Json later = rows();
  const Json same = answer_of({{"table", tuned["text"]}, {"rows", later}}, sennit_tool_tune_check);
  EXPECT_EQ(same["cells"], 3);
  EXPECT_EQ(same["within_10_percent"], 3);
  EXPECT_EQ(same["equation_5"]["chains"], 3);
  EXPECT_EQ(same["equation_5"]["within_15_percent"], 3);
  EXPECT_EQ(same["equation_5"]["chunks_within_factor_2"], 1);
  // Chains that (5) speaks of share nothing, so the other form is no better and no worse.
  EXPECT_EQ(same["equation_5_on_shared_cores"]["within_15_percent"], 3);
  // Now the ring is far ahead, and chains take twice as long.
  later[0] = row("ring", "slots", 1024, 5);
  for (std::size_t i = 2; i < later.size(); ++i) {
    later[i]["times_us"][0] = later[i]["times_us"][0].get<double>() * 2;
  }
  const Json other = answer_of({{"table", tuned["text"]}, {"rows", later}}, sennit_tool_tune_check);
  EXPECT_EQ(other["within_10_percent_or_spread"], 2);
  EXPECT_EQ(other["equation_5"]["within_15_percent"], 0);
  EXPECT_DOUBLE_EQ(other["choices"][0]["ratio"], 2);
}

// One process, ranks as threads.
std::string join_with(const std::array<std::string, 2>& tables) {
  sennit_unique_id_t id{};
  EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::array<std::string, 2> messages;
  const auto run = [&](int rank) {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.join_timeout_s = 10;
    config.tuning_table = tables[static_cast<std::size_t>(rank)].c_str();
    sennit_comm_t comm = nullptr;
    if (sennit_comm_init_rank(&comm, 2, &id, rank, &config) != SENNIT_OK) {
      messages[static_cast<std::size_t>(rank)] = sennit_last_error_message();
    }
    sennit_comm_destroy(comm);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return messages[0];
}

std::string write_file(const std::string& file_name, const std::string& text) {
  const std::string file = testing::TempDir() + "sennit_" + file_name;
  std::ofstream(file) << text;
  return file;
}

TEST(TuningTable, RanksWithDifferentTablesAreNamed) {
  const std::string text = answer_of({{"rows", rows()}}, sennit_tool_tune)["text"];
  const Json fewer{row("ring", "slots", 1024, 20)};
  const std::string one = write_file("one.tuning", text);
  const std::string other =
      write_file("other.tuning", answer_of({{"rows", fewer}}, sennit_tool_tune)["text"]);
  EXPECT_EQ(join_with({one, one}), "");
  const std::string message = join_with({one, other});
  EXPECT_NE(message.find("tuning_table: "), std::string::npos) << message;
  EXPECT_NE(message.find("started differently"), std::string::npos) << message;
  std::remove(one.c_str());
  std::remove(other.c_str());
}

TEST(TuningTable, AFileThatCannotBeUsedIsToldAtOnce) {
  const auto message_of = [](const std::string& file) {
    sennit_unique_id_t id{};
    EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.tuning_table = file.c_str();
    sennit_comm_t comm = nullptr;
    EXPECT_EQ(sennit_comm_init_rank(&comm, 1, &id, 0, &config), SENNIT_INVALID_ARGUMENT);
    return std::string(sennit_last_error_message());
  };
  EXPECT_NE(message_of("/no/such.tuning").find("/no/such.tuning cannot be read"),
            std::string::npos);
  std::string text = answer_of({{"rows", rows()}}, sennit_tool_tune)["text"];
  const std::string file = write_file("foreign.tuning", "tuning 1\nnonsense\n");
  EXPECT_NE(message_of(file).find(file + ":2:1: 'nonsense' is no kind of line"), std::string::npos);
  const std::size_t cpu = text.find("machine cpu ");
  text.replace(cpu, text.find('\n', cpu) - cpu, "machine cpu Difference Engine");
  write_file("foreign.tuning", text);
  EXPECT_NE(message_of(file).find("cpu is 'Difference Engine' in the table"), std::string::npos);
  std::remove(file.c_str());
}

TEST(MeasuredTool, JudgesPredictionsByTheMeasuredTime) {
  const auto verdict = [](double us) {
    const Json rows{
        {{"collective", "all_reduce"}, {"ranks", 4}, {"bytes", 1 << 26}, {"time_us", us}}};
    return answer_of({{"machine", "h200-x4"}, {"rows", rows}}, sennit_tool_measured)["rows"][0];
  };
  const double predicted = verdict(1000)["predicted_us"];
  EXPECT_EQ(verdict(predicted * 1.14)["verdict"], "predicted");
  EXPECT_EQ(verdict(predicted * 1.16)["verdict"], "not predicted");
  EXPECT_EQ(verdict(predicted / 1.16)["verdict"], "not predicted");
  // Stores reach 361 GB/s and LL128 has 16 bytes for 15: 1.5 times the vector leaves each GPU.
  EXPECT_NEAR(predicted / (1.5 * (1 << 26) * 16 / 15 / 361e9 * 1e6), 1, 0.12);
}

}  // namespace
}  // namespace sennit
