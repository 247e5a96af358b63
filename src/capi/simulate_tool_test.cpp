#include "base/json.hpp"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sennit {
namespace {

using Tool = sennit_status_t (*)(const char*, char**);

Json answer_of(const std::string& request, Tool tool = sennit_tool_simulate) {
  char* answer = nullptr;
  EXPECT_EQ(tool(request.c_str(), &answer), SENNIT_OK) << sennit_last_error_message();
  const Result<Json> json = parse_json(answer == nullptr ? "null" : answer, "answer");
  sennit_tool_free(answer);
  return json.ok() ? *json : Json();
}

TEST(SimulateTool, PredictsOnAMachineOfTheCatalogue) {
  const Json run =
      answer_of(R"({"collective": "all_reduce", "algorithm": "ring", "machine": "ac922", )"
                R"("bytes": 67108864})");
  EXPECT_EQ(run["ranks"], 4);
  EXPECT_EQ(run["paths"], Json::array({"nvlink", "pcie"}));
  // Six rounds of a quarter, two of four hops over the X-bus: 56 GB/s both ways, one each.
  const double bus = 6 * (10e-6 + 16777216 / 28e9);
  EXPECT_LT(run["seconds"], bus * 1.02);
  EXPECT_GT(run["seconds"], bus * 0.5);
  EXPECT_TRUE(run["trace"].is_null());
  EXPECT_EQ(run["links"][0]["name"], "cpu0<>cpu1 bus");
}

TEST(SimulateTool, GivesATraceAndAPicture) {
  const Json run = answer_of(
      R"({"collective": "broadcast", "machine": "h200-x4", "bytes": 1048576, "tile_bytes": 262144,)"
      R"( "timeline": true})");
  const Json& events = run["trace"]["traceEvents"];
  int bars = 0;
  for (const Json& event : events) {
    if (event["ph"] == "X") {
      ++bars;
      EXPECT_GE(event["dur"], 0.0);
      EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(),
                run["seconds"].get<double>() * 1e6 * (1 + 1e-9));
    }
  }
  EXPECT_EQ(bars, run["steps"]);
  const std::string svg = run["svg"];
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_NE(svg.find("time in us"), std::string::npos);
}

TEST(SimulateTool, ReadsAMachineFromText) {
  const Json run = answer_of(
      R"({"collective": "send_recv", "bytes": 1000000, "machine_text": "machine m t\nsource s x\n)"
      R"(gpu 0..1\nlink gpu0 gpu1 nvlink 10 GB/s from s\n"})");
  EXPECT_NEAR(run["seconds"], 100e-6, 1e-9);
}

TEST(SimulateTool, SaysWhatIsWrongWithARequest) {
  const auto refused = [](const char* request) {
    char* answer = nullptr;
    EXPECT_EQ(sennit_tool_simulate(request, &answer), SENNIT_INVALID_ARGUMENT) << request;
    return std::string(sennit_last_error_message());
  };
  EXPECT_EQ(refused(R"({"collective": "barrier"})"), "request lacks the key 'machine'");
  EXPECT_TRUE(refused(R"({"machine": "abacus"})").starts_with("there is no machine 'abacus'"));
  EXPECT_TRUE(refused(R"({"machine_text": "gpu x", "machine_file": "my.machine"})")
                  .starts_with("my.machine:1: "));
  EXPECT_EQ(
      refused(R"({"machine": "h200-x2", "collective": "all_reduce", "ranks": 3, "bytes": 8})"),
      "3 ranks need 2 nodes of machine h200-x2, which has no fabric to join them");
}

// Copy engines over NVLink, and in parallel through host memory.
TEST(SimulateTool, GivesAMessageTheShareOfTwoPaths) {
  const auto run = [](std::string_view path) {
    return answer_of(R"({"collective": "send_recv", "machine": "h200-x2", "bytes": 268435456, )"
                     R"("path": ")" +
                     std::string(path) + R"("})");
  };
  const Json both = run("nvlink+host:8");
  EXPECT_EQ(both["paths"], Json::array({"host", "nvlink"}));
  ASSERT_EQ(both["strands"].size(), 2U);
  EXPECT_EQ(both["strands"][0]["share"], 92);
  EXPECT_EQ(both["strands"][1]["share"], 8);
  EXPECT_LT(both["seconds"], 0.95 * run("nvlink+host:0")["seconds"].get<double>());
}

TEST(SimulateTool, TakesTheProtocolOfGpuRanks) {
  const auto run = [](std::string_view protocol) {
    return answer_of(R"({"collective": "all_reduce", "machine": "h200-x4", "bytes": 4194304, )"
                     R"("protocol": ")" +
                     std::string(protocol) + R"("})");
  };
  EXPECT_EQ(run("ll128")["strands"][0]["protocols"], Json::array({"ll128"}));
  // Twice the bytes travel.
  EXPECT_GT(run("ll")["seconds"], 1.5 * run("ll128")["seconds"].get<double>());
}

// Ranks of one GPU, and of two with two each.
TEST(SimulateTool, TellsPathDeviceFromNvlink) {
  const auto run = [](std::string_view machine, std::string_view rest) {
    return answer_of(
        fmt::format(R"({{"collective": "all_reduce", "machine": "{}", "bytes": 65536, )"
                    R"("ranks": 4, {}}})",
                    machine,
                    rest));
  };
  const Json one = run("h100-x1", R"("ranks_per_gpu": 4, "protocol": "ll")");
  EXPECT_EQ(one["paths"], Json::array({"device"}));
  EXPECT_EQ(one["proof"]["proved"], true);
  const Json mixed = run("h200-x2", R"("ranks_per_gpu": 2, "protocol": "ll")");
  EXPECT_EQ(mixed["paths"], Json::array({"device", "nvlink"}));
  const Json shared = run("h100-x1",
                          R"("ranks_per_gpu": 4, "algorithm": "shared_buffer", )"
                          R"("path": "device+host:34")");
  EXPECT_EQ(shared["paths"], Json::array({"device", "host"}));
  // Rank 0 does nearly all, so that the GPU changes but for what goes to the host.
  const Json in_turn = run("h100-x1",
                           R"("ranks_per_gpu": 4, "algorithm": "shared_buffer", )"
                           R"("path": "device+host:0", "mps": false)");
  EXPECT_EQ(in_turn["strands"][0]["protocols"], Json::array({"direct_get", "direct_put"}));
  EXPECT_LT(in_turn["seconds"], 140e-6);
  const Json explained =
      answer_of(R"({"collective": "all_reduce", "machine": "h100-x1", "bytes": 65536, "ranks": 4, )"
                R"("ranks_per_gpu": 4})",
                sennit_tool_explain);
  EXPECT_EQ(explained["gpu_ranks"]["paths"], Json::array({"device"}));
}

// Between groups messages go through host memory, step by step.
TEST(SimulateTool, TakesTheGroupsOfARequest) {
  const Json grouped = answer_of(
      R"({"collective": "all_reduce", "algorithm": "hierarchical_sliced", "machine": "h200-x4", )"
      R"("bytes": 67108864, "groups": [[0, 2], [1, 3]], "protocol": "slots"})");
  EXPECT_EQ(grouped["paths"], Json::array({"host", "nvlink"}));
  EXPECT_EQ(grouped["algorithm"], "hierarchical_sliced");
  const Json copied = answer_of(
      R"({"collective": "all_reduce", "algorithm": "hierarchical_sliced", "machine": "h200-x4", )"
      R"("bytes": 67108864, "groups": [[0, 2], [1, 3]]})");
  EXPECT_EQ(copied["paths"], Json::array({"nvlink"}));
  EXPECT_LT(copied["seconds"], grouped["seconds"]);
}

// The rings of messages are half as large where all goes through the host.
TEST(SimulateTool, TakesTheSlotsOfGpuRanks) {
  const auto tile_bytes = [](std::string_view collective, std::string_view machine) {
    return answer_of(R"({"ranks": 2, "bytes": 67108864, "path": "host", "protocol": "slots", )"
                     R"("collective": ")" +
                     std::string(collective) + R"(", "machine": ")" + std::string(machine) +
                     R"("})")["tile_bytes"]
        .get<int>();
  };
  EXPECT_EQ(tile_bytes("send_recv", "h200-x2"), 4 << 20);
  EXPECT_EQ(tile_bytes("send_recv", "workstation"), 2 << 20);
  EXPECT_EQ(tile_bytes("all_gather", "workstation"), 4 << 20);
}

TEST(SimulateTool, RefusesWhatGpuRanksRefuse) {
  char* answer = nullptr;
  EXPECT_EQ(sennit_tool_simulate(R"({"collective": "all_reduce", "machine": "h200-x4", )"
                                 R"("bytes": 4194304, "path": "nvlink+host:8"})",
                                 &answer),
            SENNIT_UNSUPPORTED);
  EXPECT_EQ(sennit_tool_simulate(R"({"collective": "all_gather", "machine": "thetagpu", )"
                                 R"("ranks": 16, "bytes": 4194304, "protocol": "ll"})",
                                 &answer),
            SENNIT_UNSUPPORTED);
  EXPECT_EQ(sennit_tool_simulate(R"({"collective": "all_gather", "machine": "h200-x4", )"
                                 R"("tile_bytes": 4096, "bytes": 4194304, "protocol": "ll"})",
                                 &answer),
            SENNIT_INVALID_ARGUMENT);
}

TEST(ExplainTool, SaysWhatGpuRanksChoose) {
  const Json answer =
      answer_of(R"({"collective": "all_reduce", "machine": "h200-x2", "bytes": 67108864})",
                sennit_tool_explain);
  EXPECT_EQ(answer["choice"], "two_shot");
  EXPECT_EQ(answer["gpu_ranks"]["protocol"], "direct_get");
  EXPECT_NEAR(answer["gpu_ranks"]["predicted_seconds"], 200e-6, 30e-6);
  EXPECT_TRUE(
      answer["reason"].get<std::string>().starts_with("GPU ranks take two_shot by direct_get"));
  const Json other = answer_of(
      R"({"collective": "broadcast", "machine": "kesch", "bytes": 67108864})", sennit_tool_explain);
  EXPECT_TRUE(other["gpu_ranks"].is_null());
}

TEST(ExplainTool, SaysWhatACodecGains) {
  const Json through_host = answer_of(
      R"({"collective": "all_to_all", "machine": "h200-x2", "bytes": 33554432, "path": "host", )"
      R"("codec": "zfp:8"})",
      sennit_tool_explain);
  const Json& codec = through_host["codec"];
  EXPECT_EQ(codec["coded_bytes"], 8388608);
  EXPECT_GT(codec["kernel_seconds"], 100e-6);
  EXPECT_LT(codec["kernel_seconds"], 102e-6);
  EXPECT_GT(codec["ratio"], 2.5);
  EXPECT_LT(codec["by_size"].front()["ratio"], codec["by_size"].back()["ratio"]);
  const Json over_nvlink = answer_of(
      R"({"collective": "all_to_all", "machine": "h200-x2", "bytes": 33554432, "codec": "zfp:16"})",
      sennit_tool_explain);
  EXPECT_LT(over_nvlink["codec"]["ratio"], 1);
  EXPECT_LT(over_nvlink["codec"]["by_size"].front()["ratio"], 0.7);
}

TEST(ExplainTool, RefusesCodecsAndPathsOfWhichNothingIsKnown) {
  char* answer = nullptr;
  EXPECT_EQ(sennit_tool_explain(R"({"collective": "all_to_all", "machine": "kesch", )"
                                R"("bytes": 4096, "codec": "q8"})",
                                &answer),
            SENNIT_UNSUPPORTED);
  EXPECT_EQ(sennit_tool_explain(R"({"collective": "all_to_all", "machine": "h200-x2", )"
                                R"("bytes": 4096, "codec": "q9"})",
                                &answer),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(sennit_tool_explain(R"({"collective": "all_to_all", "machine": "h200-x2", )"
                                R"("bytes": 4096, "path": "nowhere"})",
                                &answer),
            SENNIT_OK);
}

TEST(MachinesTool, ListsTheCatalogue) {
  const Json answer = answer_of("", sennit_tool_machines);
  EXPECT_GE(answer["machines"].size(), 12U);
  EXPECT_EQ(answer["machines"][0]["name"], "ac922");
  EXPECT_EQ(answer["machines"][0]["devices"], 4);
}

TEST(ExplainTool, RanksTheCandidatesAndSaysWhy) {
  const Json answer = answer_of(
      R"({"collective": "broadcast", "machine": "kesch", "bytes": 67108864})", sennit_tool_explain);
  EXPECT_EQ(answer["ranks"], 16);
  EXPECT_EQ(answer["choice"], answer["candidates"][0]["algorithm"]);
  EXPECT_LE(answer["candidates"][0]["predicted_seconds"],
            answer["candidates"][1]["predicted_seconds"]);
  EXPECT_NE(answer["reason"].get<std::string>().find(answer["choice"].get<std::string>()),
            std::string::npos);
}

TEST(ReproduceTool, GivesTheRowsOfOnePaper) {
  const Json answer = answer_of(R"({"paper": 5})", sennit_tool_reproduce);
  EXPECT_GE(answer["rows"].size(), 5U);
  for (const Json& row : answer["rows"]) {
    EXPECT_EQ(row["paper"], 5);
    EXPECT_EQ(row["machine"], "k20m");
    EXPECT_NEAR(row["ratio"], row["ours"].get<double>() / row["paper_value"].get<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace sennit
