// Predictions next to measurements: what was timed on GPU ranks, and what the simulator says of the
// same plans on the description of that machine.
#include "base/integers.hpp"
#include "capi/bench_bytes.hpp"
#include "capi/respond.hpp"
#include "comm/described_gpus.hpp"
#include "machine/catalogue.hpp"
#include "sennit/tools.h"
#include "sim/simulate.hpp"

#include <algorithm>
#include <string>

namespace sennit {
namespace {

constexpr int kMostRanks = 64;

// What docs/simulator.md promises from 1 MB on.
constexpr double kTolerance = 0.15;

struct MeasuredCall {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  std::int64_t bytes = 0;  // of the whole buffer, as `sennit bench` counts
  double time_us = 0;
};

Result<double> positive_number(const JsonObject& row, std::string_view key) {
  SENNIT_ASSIGN_OR_RETURN(const Json* value, row.at(key));
  if (!value->is_number() || !(value->get<double>() > 0)) {
    return fail(Code::kInvalidArgument, "{} is no number above 0", row.where(key));
  }
  return value->get<double>();
}

Result<MeasuredCall> read_row(const Json& row, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(
      const JsonObject object,
      JsonObject::open(row, where, {"collective", "ranks", "bytes", "time_us"}));
  MeasuredCall call;
  SENNIT_ASSIGN_OR_RETURN(const std::string collective, object.text("collective"));
  SENNIT_ASSIGN_OR_RETURN(call.collective, parse_collective(collective));
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t ranks, object.integer("ranks", 2, kMostRanks));
  call.ranks = static_cast<int>(ranks);
  SENNIT_ASSIGN_OR_RETURN(call.bytes, object.integer("bytes", 1, std::int64_t{1} << 50));
  SENNIT_ASSIGN_OR_RETURN(call.time_us, positive_number(object, "time_us"));
  return call;
}

// As many as bench/gpu times in a row. A rank of its send_recv, which sends and receives, begins
// the next call when it has received; a pair would run ahead.
int calls_in_a_row(Collective collective, std::int64_t bytes) {
  return collective == Collective::kSendRecv ? 1
         : bytes <= kMega                    ? 20
         : bytes <= 16 * kMega               ? 8
         : bytes <= 64 * kMega               ? 4
                                             : 2;
}

struct Prediction {
  std::string algorithm;
  double us = 0;
};

Result<Prediction> predict(const MeasuredCall& call, const Topology& machine) {
  const std::int64_t bytes = bytes_of_call(call.collective, call.ranks, call.bytes);
  const Shape shape{.ranks = call.collective == Collective::kSendRecv ? 2 : call.ranks};
  SENNIT_ASSIGN_OR_RETURN(const DeviceFacts facts,
                          facts_of_described_gpus(machine, {.ranks = call.ranks}));
  SENNIT_ASSIGN_OR_RETURN(const DevicePlan made,
                          plan_for_devices({.collective = call.collective,
                                            .shape = shape,
                                            .bytes = bytes,
                                            .world_ranks = call.ranks},
                                           facts));
  SENNIT_ASSIGN_OR_RETURN(const Simulation run,
                          simulate(made.plan,
                                   machine,
                                   {.count = bytes,
                                    .element_bytes = 1,
                                    .calls = calls_in_a_row(call.collective, call.bytes)}));
  constexpr double kMicroseconds = 1e6;
  return Prediction{.algorithm = std::string(made.choice.algorithm->name),
                    .us = run.seconds * kMicroseconds};
}

Result<Json> compare_with_measured(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const std::string machine_name, request.text("machine"));
  SENNIT_ASSIGN_OR_RETURN(const Topology machine, find_machine(machine_name));
  SENNIT_ASSIGN_OR_RETURN(const Json* rows, request.list("rows"));
  Json compared = Json::array();
  int within = 0;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    SENNIT_ASSIGN_OR_RETURN(const MeasuredCall call,
                            read_row((*rows)[i], fmt::format("request.rows[{}]", i)));
    SENNIT_ASSIGN_OR_RETURN(const Prediction prediction, predict(call, machine));
    const double ratio = prediction.us / call.time_us;
    const bool is_close = std::max(ratio, 1 / ratio) <= 1 + kTolerance;
    within += is_close ? 1 : 0;
    compared.push_back({{"collective", name(call.collective)},
                        {"algorithm", prediction.algorithm},
                        {"ranks", call.ranks},
                        {"bytes", call.bytes},
                        {"measured_us", call.time_us},
                        {"predicted_us", prediction.us},
                        {"ratio", ratio},
                        {"verdict", is_close ? "predicted" : "not predicted"}});
  }
  return Json{{"machine", machine.name},
              {"tolerance", kTolerance},
              {"within", within},
              {"rows", std::move(compared)}};
}

}  // namespace
}  // namespace sennit

sennit_status_t sennit_tool_measured(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"machine", "rows"}, sennit::compare_with_measured);
}
