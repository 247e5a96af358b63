#include "report.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace sennit::bench {
namespace {

using Json = nlohmann::ordered_json;

// The value below which `share` of the samples lie.
double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(last * share))];
}

Json time_us(const Timing& timing) {
  return {{"min", timing.call_us.front()},
          {"p50", quantile(timing.call_us, 0.5)},
          {"p95", quantile(timing.call_us, 0.95)}};
}

// Of the rival, whose name the reader of the row knows.
Json rivals(const WorkOrder& order, const Row& row, const std::string& version) {
  if (version.empty()) {
    return Json::array();
  }
  if (!row.rival) {
    return {{{"version", version}, {"skipped", true}}};
  }
  return {{{"version", version},
           {"skipped", false},
           {"samples", row.rival->call_us.size()},
           {"calls_per_sample", row.rival->calls_per_sample},
           {"time_us", time_us(*row.rival)},
           {"warm_us", row.rival_warm ? time_us(*row.rival_warm) : Json(nullptr)},
           {"wrong", order.check ? Json(row.rival_wrong) : Json(nullptr)}}};
}

// Relative to the root mean square, and to the largest number, of what was expected.
Json error_form(const WorkOrder& order, const Buffers::Errors& errors) {
  if (order.codec.empty() || !order.check || errors.expected_squared == 0) {
    return nullptr;
  }
  return {{"rms", std::sqrt(errors.squared / errors.expected_squared)},
          {"max", std::sqrt(errors.most_squared / errors.most_expected_squared)}};
}

}  // namespace

std::string to_json(const WorkOrder& order,
                    int ranks,
                    const Row& row,
                    const std::string& rival_version) {
  const Json plan = Json::parse(row.plan);
  const double p50 = quantile(row.own.call_us, 0.5);
  const double messages = order.kind == Kind::kSendRecv ? order.window : 1;
  const double algbw = static_cast<double>(row.size.bytes) * messages / p50 / 1e3;
  Json json = {{"collective", order.collective},
               {"algorithm", plan.at("algorithm")},
               {"executor", "host"},
               {"ranks", ranks},
               {"dtype", order.dtype_name},
               {"op", order.op_name},
               {"bytes", row.size.bytes},
               {"mode", "call"},
               {"in_place", order.in_place},
               {"registered", false},
               {"root", order.root < 0 ? Json("rotate") : Json(order.root)},
               {"protocol", plan.at("protocol")},
               {"paths", plan.at("paths")},
               {"tile_bytes", plan.at("tile_bytes")},
               {"sm_count", 0},
               {"samples", row.own.call_us.size()},
               {"calls_per_sample", row.own.calls_per_sample},
               {"time_us", time_us(row.own)},
               {"warm_us", row.own_warm ? time_us(*row.own_warm) : Json(nullptr)},
               {"rotate_bytes", order.rotate_bytes},
               {"algbw_GBps", algbw},
               {"busbw_GBps", algbw * bus_factor(order, ranks)},
               {"wrong", order.check && order.codec.empty() ? Json(row.wrong) : Json(nullptr)},
               {"predicted_us", nullptr},
               {"rivals", rivals(order, row, rival_version)},
               {"rival", nullptr},
               {"ratio", nullptr}};
  if (!order.codec.empty()) {
    json["codec"] = order.codec;
    json["error"] = error_form(order, row.errors);
  }
  if (row.number >= 0) {
    json["try"] = row.number;
  }
  return json.dump();
}

}  // namespace sennit::bench
