// The functions of tools.h: each reads a request field by field and answers with one JSON object.
#include "sennit/tools.h"

#include "algo/algorithm.hpp"
#include "base/env.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "capi/guard.hpp"
#include "capi/handles.hpp"
#include "capi/last_plan.hpp"
#include "capi/rank_groups.hpp"
#include "capi/respond.hpp"
#include "capi/shown_schedule.hpp"
#include "codec/codec.hpp"
#include "discover/discover.hpp"
#include "drivers/cuda/cuda.hpp"
#include "drivers/ucx/cards.hpp"
#include "drivers/ucx/ucx.hpp"
#include "schedule/json_form.hpp"
#include "schedule/picture.hpp"
#include "schedule/plan.hpp"
#include "schedule/text.hpp"
#include "verify/sweep.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit {
namespace {

// Proofs of larger schedules take minutes and their pictures are wallpaper.
constexpr int kMaxShownRanks = 512;
constexpr std::size_t kMaxDrawnSteps = 4096;

Result<std::optional<Collective>> read_collective(const JsonObject& request) {
  if (!request.has("collective")) {
    return std::optional<Collective>();
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string text, request.text("collective"));
  SENNIT_ASSIGN_OR_RETURN(const Collective collective, parse_collective(text));
  return std::optional(collective);
}

Result<Json> list_algorithms(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const std::optional<Collective> wanted, read_collective(request));
  Json rows = Json::array();
  for (const Collective collective : kCollectives) {
    if (wanted && *wanted != collective) {
      continue;
    }
    for (const Algorithm& algorithm : algorithms(collective)) {
      rows.push_back({{"collective", name(collective)},
                      {"name", algorithm.name},
                      {"summary", algorithm.summary},
                      {"source", algorithm.source},
                      {"in_place", algorithm.in_place},
                      {"takes_radix", algorithm.takes_radix},
                      {"takes_groups", algorithm.takes_groups}});
    }
  }
  return Json{{"algorithms", std::move(rows)}};
}

// ---- verify

// "1:64", "8", or the number 8.
Status read_ranks(const JsonObject& request, SweepRequest& sweep_request) {
  SENNIT_ASSIGN_OR_RETURN(const Json* value, request.at("ranks"));
  const std::string where = request.where("ranks");
  if (value->is_number()) {
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t ranks,
                            json_integer(*value, where, 1, kMaxTextRanks));
    sweep_request.ranks_first = sweep_request.ranks_last = static_cast<int>(ranks);
    return {};
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string text, json_text(*value, where));
  const std::size_t colon = text.find(':');
  const auto number = [](std::string_view digits, int& result) {
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, result);
    return error == std::errc() && stop == end && result >= 1 && result <= kMaxTextRanks;
  };
  const std::string_view first = std::string_view(text).substr(0, colon);
  const std::string_view last =
      colon == std::string::npos ? first : std::string_view(text).substr(colon + 1);
  if (!number(first, sweep_request.ranks_first) || !number(last, sweep_request.ranks_last) ||
      sweep_request.ranks_first > sweep_request.ranks_last) {
    return fail(Code::kInvalidArgument,
                "{} is '{}', expected a number or first:last within 1:{}",
                where,
                text,
                kMaxTextRanks);
  }
  return {};
}

Status read_algorithm(const JsonObject& request, SweepRequest& sweep_request) {
  SENNIT_ASSIGN_OR_RETURN(const std::string algorithm, request.text("algorithm"));
  sweep_request.algorithm = algorithm;
  if (sweep_request.collective) {
    return find_algorithm(*sweep_request.collective, algorithm).status();
  }
  for (const Collective collective : kCollectives) {
    if (find_algorithm(collective, algorithm).ok()) {
      return {};
    }
  }
  return fail(Code::kInvalidArgument,
              "no collective has an algorithm '{}'; `sennit algorithms` lists all",
              algorithm);
}

Status read_protocol(const JsonObject& request, SweepRequest& sweep_request) {
  SENNIT_ASSIGN_OR_RETURN(const std::string protocol, request.text("protocol"));
  if (protocol != "slots" && protocol != "direct") {
    return fail(Code::kInvalidArgument,
                "{} is '{}', expected 'slots' or 'direct'",
                request.where("protocol"),
                protocol);
  }
  // Of the two direct protocols, host ranks use the one in which the reader takes.
  sweep_request.protocol = protocol == "slots" ? Protocol::kSlots : Protocol::kDirectGet;
  return {};
}

// The one schedule that the request brings, in the form of a sweep's answer.
Result<Json> verify_given(const Algorithm& row) {
  const Schedule& schedule = *row.given;
  const auto begin = std::chrono::steady_clock::now();
  Json proof = proof_form(schedule);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const bool proved = proof.at("proved") == true;
  Json failures = Json::array();
  if (!proved) {
    failures.push_back({{"collective", name(row.collective)},
                        {"algorithm", schedule.algorithm},
                        {"ranks", schedule.problem.ranks},
                        {"root", schedule.problem.root},
                        {"why", proof.at("why")}});
  }
  return Json{{"instances", 1},
              {"failed", proved ? 0 : 1},
              {"refused", 0},
              {"algorithms",
               {{{"collective", name(row.collective)},
                 {"algorithm", schedule.algorithm},
                 {"instances", 1},
                 {"failed", proved ? 0 : 1},
                 {"refused", 0},
                 {"direct", 0},
                 {"ranks_first", schedule.problem.ranks},
                 {"ranks_last", schedule.problem.ranks}}}},
              {"failures", std::move(failures)},
              {"proof", std::move(proof)},
              {"seconds", seconds.count()}};
}

Json rows_form(const SweepResult& result) {
  Json rows = Json::array();
  for (const SweepRow& row : result.rows) {
    rows.push_back({{"collective", name(row.collective)},
                    {"algorithm", row.algorithm},
                    {"instances", row.instances},
                    {"failed", row.failed},
                    {"refused", row.refused},
                    {"direct", row.direct},
                    {"ranks_first", row.ranks_first},
                    {"ranks_last", row.ranks_last}});
  }
  return rows;
}

Result<Json> verify_algorithms(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const Algorithm* const given,
                          read_given(request, {"collective", "algorithm", "ranks", "protocol"}));
  if (given != nullptr) {
    return verify_given(*given);
  }
  SweepRequest sweep_request;
  SENNIT_ASSIGN_OR_RETURN(sweep_request.collective, read_collective(request));
  if (request.has("ranks")) {
    SENNIT_RETURN_IF_ERROR(read_ranks(request, sweep_request));
  }
  if (request.has("algorithm")) {
    SENNIT_RETURN_IF_ERROR(read_algorithm(request, sweep_request));
  }
  if (request.has("protocol")) {
    SENNIT_RETURN_IF_ERROR(read_protocol(request, sweep_request));
  }
  if (request.has("codec")) {
    SENNIT_ASSIGN_OR_RETURN(const std::string codec, request.text("codec"));
    SENNIT_ASSIGN_OR_RETURN(sweep_request.codec, parse_codec(codec));
  }
  const auto begin = std::chrono::steady_clock::now();
  const SweepResult result = sweep(sweep_request);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  Json failures = Json::array();
  for (const SweepFailure& failure : result.failures) {
    failures.push_back({{"collective", name(failure.collective)},
                        {"algorithm", failure.algorithm},
                        {"ranks", failure.ranks},
                        {"root", failure.root},
                        {"why", failure.why}});
  }
  return Json{{"instances", result.instances},
              {"coded", result.coded},
              {"failed", result.failed},
              {"refused", result.refused},
              {"algorithms", rows_form(result)},
              {"failures", std::move(failures)},
              {"seconds", seconds.count()}};
}

// ---- show

std::size_t step_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& lanes : schedule.ranks) {
    for (const Lane& lane : lanes) {
      count += lane.steps.size();
    }
  }
  return count;
}

Result<Shape> read_shape(const JsonObject& request, Collective collective) {
  Shape shape;
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t ranks, request.integer("ranks", 1, kMaxShownRanks));
  shape.ranks = static_cast<int>(ranks);
  if (request.has("root")) {
    const std::int64_t last = is_rooted(collective) ? ranks - 1 : kMaxShownRanks;
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t root, request.integer("root", 0, last));
    if (root != 0 && !is_rooted(collective)) {
      return fail(Code::kInvalidArgument,
                  "request.root is {}, but {} has no root; leave it out",
                  root,
                  name(collective));
    }
    shape.root = static_cast<int>(root);
  }
  if (request.has("radix")) {
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t radix, request.integer("radix", 2, kMaxShownRanks));
    shape.radix = static_cast<int>(radix);
  }
  if (request.has("groups")) {
    SENNIT_ASSIGN_OR_RETURN(shape.groups, read_groups(request, shape.ranks));
  }
  return shape;
}

Result<Json> shown_form(const Schedule& schedule) {
  if (schedule.problem.ranks > kMaxShownRanks) {
    return fail(Code::kInvalidArgument,
                "a schedule of {} ranks is too large to show; the most are {}",
                schedule.problem.ranks,
                kMaxShownRanks);
  }
  const bool drawn = step_count(schedule) <= kMaxDrawnSteps;
  return Json{{"text", to_text(schedule)},
              {"json", to_json(schedule)},
              {"svg", drawn ? Json(space_time_svg(schedule)) : Json()},
              {"proof", proof_form(schedule)}};
}

Result<Json> show_schedule(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(
      const Algorithm* const given,
      read_given(request, {"collective", "algorithm", "ranks", "root", "radix", "groups"}));
  if (given != nullptr) {
    return shown_form(*given->given);
  }
  SENNIT_RETURN_IF_ERROR(request.at("collective").status());
  SENNIT_ASSIGN_OR_RETURN(const std::optional<Collective> collective, read_collective(request));
  const Algorithm* algorithm = &algorithms(*collective).front();
  if (request.has("algorithm")) {
    SENNIT_ASSIGN_OR_RETURN(const std::string algorithm_name, request.text("algorithm"));
    SENNIT_ASSIGN_OR_RETURN(algorithm, find_algorithm(*collective, algorithm_name));
  }
  SENNIT_ASSIGN_OR_RETURN(const Shape shape, read_shape(request, *collective));
  SENNIT_RETURN_IF_ERROR(check_taken(request, *algorithm));
  SENNIT_ASSIGN_OR_RETURN(const Schedule schedule, make_schedule(*algorithm, shape));
  return shown_form(schedule);
}

// ---- schedule

Result<Json> take_schedule(const JsonObject& request) {
  SENNIT_RETURN_IF_ERROR(request.at("schedule_text").status());
  SENNIT_ASSIGN_OR_RETURN(const Algorithm* const given, read_given(request, {}));
  const Problem& problem = given->given->problem;
  return Json{{"algorithm", given->name},
              {"collective", name(problem.collective)},
              {"name", given->given->algorithm},
              {"ranks", problem.ranks},
              {"root", problem.root},
              {"json", to_json(*given->given)}};
}

// ---- machine, info

// What calls between nodes would go over. Opens UCX.
Json describe_network() {
  Json cards = Json::array();
  const Result<std::vector<NetworkCard>> wanted = wanted_cards(env_text("SENNIT_RAILS"));
  for (const NetworkCard& card : wanted.ok() ? *wanted : std::vector<NetworkCard>()) {
    cards.push_back({{"device", card.device},
                     {"is_rdma", card.is_rdma},
                     {"mbit_per_s", card.mbit_per_s != 0 ? Json(card.mbit_per_s) : Json()}});
  }
  const Result<UcxDriver*> ucx = ucx_driver();
  return {{"cards", std::move(cards)},
          {"ucx", ucx.ok() ? Json((*ucx)->version()) : Json()},
          {"note", !wanted.ok() ? wanted.status().message() : ucx.status().message()}};
}

Result<Json> describe_machine(const JsonObject& request) {
  bool has_network = false;
  if (request.has("network")) {
    SENNIT_ASSIGN_OR_RETURN(has_network, request.flag("network"));
  }
  SENNIT_ASSIGN_OR_RETURN(const Machine machine, discover_host());
  Json description = to_json(machine);
  if (has_network) {
    description["network"] = describe_network();
  }
  return description;
}

// The element types, and which operators each has; premul_sum comes with a scalar.
Json describe_dtypes() {
  Json dtypes = Json::array();
  for (const Dtype dtype : kDtypes) {
    Json operators = Json::array();
    for (const ReduceOp op : kReduceOps) {
      if (has_operator(dtype, op)) {
        operators.push_back(name(op));
      }
    }
    dtypes.push_back(
        {{"name", name(dtype)}, {"bytes", size_bytes(dtype)}, {"operators", std::move(operators)}});
  }
  return dtypes;
}

Result<Json> describe_build(const JsonObject&) {
  Json variables = Json::array();
  for (const EnvVariable& variable : all_variables()) {
    variables.push_back({{"name", variable.name},
                         {"type", env_type_name(variable.type)},
                         {"default", variable.default_value},
                         {"value", variable.value ? Json(*variable.value) : Json()},
                         {"text", variable.text}});
  }
  return Json{
      {"version", sennit_version_string()},
      {"build",
       {{"compiler", __VERSION__}, {"cplusplus", __cplusplus}, {"cuda", is_built_with_cuda()}}},
      {"dtypes", describe_dtypes()},
      {"variables", std::move(variables)},
      {"unknown_variables", unknown_variables()}};
}

// What the last posted call of a communicator ran as.
Result<Json> last_plan(sennit_comm_t comm) {
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  const std::optional<LastPlan> last = last_plan_of(*comm);
  if (!last) {
    return fail(Code::kInvalidUsage,
                "no plan is known: no call has been made, or the last of a GPU rank were messages "
                "or went to several nodes");
  }
  return Json{{"algorithm", last->algorithm},
              {"protocol", name(last->protocol)},
              {"paths", last->paths},
              {"tile_bytes", last->tile_bytes},
              {"codec", last->codec ? Json(name(*last->codec)) : Json()},
              {"plan_hash", fmt::format("{:016x}", last->plan_hash)},
              {"reproducible", last->reproducible}};
}

}  // namespace
}  // namespace sennit

sennit_status_t sennit_tool_algorithms(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"collective"}, sennit::list_algorithms);
}

sennit_status_t sennit_tool_verify(const char* request, char** answer) {
  return sennit::respond_to(
      request,
      answer,
      {"collective", "algorithm", "ranks", "protocol", "codec", "schedule_text", "schedule_file"},
      sennit::verify_algorithms);
}

sennit_status_t sennit_tool_schedule(const char* request, char** answer) {
  return sennit::respond_to(
      request, answer, {"schedule_text", "schedule_file", "fuse"}, sennit::take_schedule);
}

sennit_status_t sennit_tool_show(const char* request, char** answer) {
  return sennit::respond_to(request,
                            answer,
                            {"collective",
                             "algorithm",
                             "ranks",
                             "root",
                             "radix",
                             "groups",
                             "schedule_text",
                             "schedule_file"},
                            sennit::show_schedule);
}

sennit_status_t sennit_tool_machine(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"network"}, sennit::describe_machine);
}

sennit_status_t sennit_tool_info(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {}, sennit::describe_build);
}

sennit_status_t sennit_tool_last_plan(sennit_comm_t comm, char** answer) {
  return sennit::respond_to(
      nullptr, answer, {}, [&](const sennit::JsonObject&) { return sennit::last_plan(comm); });
}

void sennit_tool_free(char* answer) { std::free(answer); }

void sennit_tool_log(const char* subsystem, const char* text) {
  SENNIT_INFO(subsystem, "{}", text);
}

void sennit_tool_warn(const char* subsystem, const char* text) {
  SENNIT_WARN(subsystem, "{}", text);
}

sennit_status_t sennit_tool_nodes(sennit_comm_t comm, int* nodes) {
  return sennit::guard([&]() -> sennit::Status {
    SENNIT_RETURN_IF_ERROR(sennit::check_comm(comm));
    *nodes = comm->comm->world().nodes();
    return {};
  });
}

sennit_status_t sennit_tool_on_device(sennit_comm_t comm, void (*act)(void*), void* argument) {
  return sennit::guard([&]() -> sennit::Status {
    SENNIT_RETURN_IF_ERROR(sennit::check_comm(comm));
    if (comm->device == nullptr) {
      act(argument);
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(sennit::CudaDriver* const driver, sennit::cuda_driver());
    const sennit::DeviceScope scope(*driver, comm->device->device());
    SENNIT_RETURN_IF_ERROR(scope.status());
    act(argument);
    return {};
  });
}
