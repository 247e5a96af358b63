#include "compare_rows.hpp"

#include <nlohmann/json.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace sennit_bench {
namespace {

using Json = nlohmann::ordered_json;

// cudaDevAttrMpsEnabled, which not every CUDA 12 has.
constexpr auto kMpsEnabled = static_cast<cudaDeviceAttr>(133);

void add_messages(Json& line, const Options& options) {
  if (options.pair_from >= 0 || options.window > 1) {
    line["pair"] = {options.pair_from, options.pair_to};
    line["bidirectional"] = options.bidirectional;
    line["window"] = options.window;
  }
}

void add_request(Json& line, const Options& options) {
  const std::pair<const char*, const std::string*> fields[] = {{"algorithm", &options.algorithm},
                                                               {"paths", &options.path},
                                                               {"protocol", &options.protocol},
                                                               {"codec", &options.codec}};
  for (const auto& [name, value] : fields) {
    if (!value->empty()) {
      line[name] = *value;
    }
  }
}

bool counts_wrong(const Options& options) { return options.check && options.codec.empty(); }

double median_ms(std::vector<double> us) {
  std::ranges::sort(us);
  return us[us.size() / 2] / 1000;
}

}  // namespace

std::string line_of(const Options& options, const Row& row, const OverlapOutcome& outcome) {
  Json line{{"collective", row.collective},
            {"ranks", options.ranks},
            {"bytes", row.bytes},
            {"mode", options.mode},
            {"beside", options.load},
            {"calls_per_sample", outcome.calls},
            {"units", outcome.units},
            {"samples", options.samples},
            {"wrong", counts_wrong(options) ? Json(outcome.wrong) : Json(nullptr)},
            {"comp_ms", median_ms(outcome.load_us)}};
  const double comp = line["comp_ms"];
  std::vector<double> both;
  for (const OverlapTimes& contestant : outcome.contestants) {
    const double alone = median_ms(contestant.alone_us);
    both.push_back(median_ms(contestant.both_us));
    const auto [least, most] = std::ranges::minmax(contestant.both_us);
    // Ours stands first.
    const std::string prefix = both.size() == 1 ? "" : "rival_";
    line[prefix + "comm_ms"] = alone;
    line[prefix + "both_ms"] = both.back();
    line[prefix + "both_min_max_ms"] = {least / 1000, most / 1000};
    line[prefix + "both_over_max"] = both.back() / std::max(alone, comp);
  }
  line["ratio"] = both[1] / both[0];
  line["sm_count"] = outcome.sms;
  if (options.load_sms > 0) {
    line["load_sms"] = options.load_sms;
  }
  if (options.sm_budget > 0) {
    line["sm_budget"] = options.sm_budget;
  }
  add_request(line, options);
  return line.dump();
}

Gpus find_gpus() {
  Gpus gpus;
  if (cudaGetDeviceCount(&gpus.count) != cudaSuccess || gpus.count == 0) {
    std::cerr << "compare: there is no GPU\n";
    std::exit(3);
  }
  int has_mps = 0;
  // A driver that does not know the question has not said so.
  gpus.has_mps = cudaDeviceGetAttribute(&has_mps, kMpsEnabled, 0) == cudaSuccess && has_mps != 0;
  (void)cudaGetLastError();
  return gpus;
}

std::vector<Row> rows_of(const Options& options) {
  std::vector<Row> rows;
  for (const char* collective : {"all_reduce",
                                 "all_gather",
                                 "reduce_scatter",
                                 "all_to_all",
                                 "broadcast",
                                 "reduce",
                                 "send_recv"}) {
    if (!options.collective.empty() && options.collective != collective) {
      continue;
    }
    const std::string name = collective;
    const bool parts = name == "all_gather" || name == "reduce_scatter" || name == "all_to_all";
    // Rounded up to whole elements, of each rank where it has a part.
    const std::size_t pieces = parts ? static_cast<std::size_t>(options.ranks) : 1;
    const std::size_t quantum = pieces * sizeof(float);
    for (const std::size_t bytes : options.sizes) {
      const std::size_t count = (bytes + quantum - 1) / quantum;
      rows.push_back({name, count * quantum, count});
    }
  }
  return rows;
}

std::string line_of(const Options& options,
                    const Gpus& gpus,
                    const Row& row,
                    const Outcome& outcome) {
  Json times;
  std::vector<double> p50;
  for (const Times& contestant : outcome.contestants) {
    std::vector<double> us = contestant.us;
    std::ranges::sort(us);
    p50.push_back(us[us.size() / 2]);
    times[contestant.name] = {
        {"min", us.front()}, {"p50", p50.back()}, {"p95", us[us.size() * 95 / 100]}};
    if (std::vector<double> host_us = contestant.host_us; !host_us.empty()) {
      std::ranges::sort(host_us);
      times[contestant.name]["host_p50"] = host_us[host_us.size() / 2];
    }
  }
  // Ours stands first, then the rival.
  const double rival = options.rivals == Rivals::kBoth ? std::min(p50[1], p50[2]) : p50[1];
  Json line{{"collective", row.collective},
            {"ranks", options.ranks},
            {"bytes", row.bytes},
            {"mode", options.mode},
            {"calls_per_sample", outcome.calls},
            {"samples", options.samples},
            {"time_us", times},
            {"wrong", counts_wrong(options) ? Json(outcome.wrong) : Json(nullptr)},
            {"rival_us", rival},
            {"ratio", rival / p50[0]},
            {"sm_count", outcome.sms}};
  if (gpus.are_shared_by(options.ranks)) {
    line["gpus"] = gpus.count;
    line["mps"] = gpus.has_mps;
  }
  if (row.collective == "send_recv") {
    add_messages(line, options);
  }
  if (options.sm_budget > 0) {
    line["sm_budget"] = options.sm_budget;
  }
  if (!options.codec.empty()) {
    line["error"] = outcome.error;
  }
  line["registered"] = options.rivals == Rivals::kWindows;
  add_request(line, options);
  return line.dump();
}

}  // namespace sennit_bench
