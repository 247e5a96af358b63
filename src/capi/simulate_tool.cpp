// The functions of tools.h that speak of machines that need not be here.
#include "algo/algorithm.hpp"
#include "capi/gpu_prediction.hpp"
#include "capi/rank_groups.hpp"
#include "capi/respond.hpp"
#include "capi/shown_schedule.hpp"
#include "comm/described_gpus.hpp"
#include "machine/catalogue.hpp"
#include "machine/topology_picture.hpp"
#include "select/candidates.hpp"
#include "select/device_paths.hpp"
#include "select/machine_plan.hpp"
#include "select/reproduce/reproduce.hpp"
#include "sennit/tools.h"
#include "sim/simulate.hpp"
#include "sim/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>

namespace sennit {
namespace {

// Above it a trace is too large for its viewers.
constexpr std::int64_t kMaxTracedSteps = 2'000'000;
constexpr std::int64_t kMaxDrawnSteps = 20'000;
constexpr int kMaxSimulatedRanks = 4096;
constexpr std::size_t kMaxLinksTold = 200;

// "machine": a name of the catalogue, or "machine_text": the text form.
Result<Topology> read_machine(const JsonObject& request) {
  if (request.has("machine_text")) {
    SENNIT_ASSIGN_OR_RETURN(const std::string text, request.text("machine_text"));
    std::string file = "machine";
    if (request.has("machine_file")) {
      SENNIT_ASSIGN_OR_RETURN(file, request.text("machine_file"));
    }
    return topology_from_text(text, file);
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string machine, request.text("machine"));
  return find_machine(machine);
}

Result<int> read_count(const JsonObject& request, std::string_view key, int min, int otherwise) {
  if (!request.has(key)) {
    return otherwise;
  }
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t value, request.integer(key, min, kMaxSimulatedRanks));
  return static_cast<int>(value);
}

Status read_sizes(const JsonObject& request, MachinePlanRequest& plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  SENNIT_ASSIGN_OR_RETURN(plan.bytes, request.integer("bytes", 0, kMost));
  if (request.has("tile_bytes")) {
    SENNIT_ASSIGN_OR_RETURN(plan.tile_bytes, request.integer("tile_bytes", 1, kMost));
  }
  return {};
}

Result<MachinePlanRequest> read_plan_request(const JsonObject& request, const Topology& machine) {
  MachinePlanRequest plan;
  SENNIT_ASSIGN_OR_RETURN(
      const Algorithm* const given,
      read_given(request, {"collective", "algorithm", "ranks", "root", "radix", "groups"}));
  SENNIT_ASSIGN_OR_RETURN(plan.ranks_per_device, read_count(request, "ranks_per_gpu", 1, 1));
  SENNIT_RETURN_IF_ERROR(read_sizes(request, plan));
  if (given != nullptr) {
    const Problem& problem = given->given->problem;
    plan.algorithm = given;
    plan.shape = {.ranks = problem.ranks, .root = problem.root, .varying = problem.varying};
    return plan;
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string collective_name, request.text("collective"));
  SENNIT_ASSIGN_OR_RETURN(const Collective collective, parse_collective(collective_name));
  const auto devices = static_cast<int>(machine.devices().size());
  SENNIT_ASSIGN_OR_RETURN(
      plan.shape.ranks,
      read_count(request, "ranks", 1, std::max(2, devices * plan.ranks_per_device)));
  SENNIT_ASSIGN_OR_RETURN(plan.shape.root, read_count(request, "root", 0, 0));
  SENNIT_ASSIGN_OR_RETURN(plan.shape.radix, read_count(request, "radix", 2, 0));
  plan.shape = grouped(plan.shape, machine, plan.ranks_per_device);
  if (request.has("groups")) {
    SENNIT_ASSIGN_OR_RETURN(plan.shape.groups, read_groups(request, plan.shape.ranks));
  }
  plan.algorithm = &algorithms(collective).front();
  if (request.has("algorithm")) {
    SENNIT_ASSIGN_OR_RETURN(const std::string algorithm, request.text("algorithm"));
    SENNIT_ASSIGN_OR_RETURN(plan.algorithm, find_algorithm(collective, algorithm));
  }
  return plan;
}

// Whether "path" names cards of nodes.
bool names_rails(std::string_view path) { return path.starts_with(name(PathKind::kRail)); }

// Of what only a plan of GPU ranks has.
Result<bool> speaks_of_gpu_ranks(const JsonObject& request) {
  if (request.has("protocol") || !request.has("path")) {
    return request.has("protocol");
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string path, request.text("path"));
  return path.find('+') != std::string::npos && !names_rails(path);
}

// Whether ranks that share a GPU do so without CUDA's Multi-Process Service.
Result<bool> run_in_turn(const JsonObject& request) {
  if (!request.has("mps")) {
    return false;
  }
  SENNIT_ASSIGN_OR_RETURN(const bool has_mps, request.flag("mps"));
  return !has_mps;
}

// As GPU ranks would run it with this request.
Result<Plan> plan_of_gpu_ranks(const JsonObject& request,
                               const MachinePlanRequest& wanted,
                               const Topology& machine) {
  if (wanted.tile_bytes > 0) {
    return fail(Code::kInvalidArgument,
                "tile_bytes is for plans without protocol or shares: GPU ranks have tiles of their "
                "own");
  }
  DeviceCall call{
      .collective = wanted.algorithm->collective, .shape = wanted.shape, .bytes = wanted.bytes};
  if (wanted.algorithm->given != nullptr) {
    call.request.algorithm = wanted.algorithm->name;
  }
  for (const auto& [key, field] : {std::pair{"algorithm", &call.request.algorithm},
                                   {"path", &call.request.path},
                                   {"protocol", &call.request.protocol}}) {
    if (request.has(key)) {
      SENNIT_ASSIGN_OR_RETURN(*field, request.text(key));
    }
  }
  SENNIT_ASSIGN_OR_RETURN(const bool in_turn, run_in_turn(request));
  SENNIT_ASSIGN_OR_RETURN(DeviceFacts facts,
                          facts_of_described_gpus(machine,
                                                  {.ranks = call.shape.ranks,
                                                   .ranks_per_gpu = wanted.ranks_per_device,
                                                   .has_mps = !in_turn}));
  if (!groups_of(facts).empty()) {
    call.shape.groups = groups_of(facts);
  }
  if (request.has("groups")) {
    // As with SENNIT_DEVICE_GROUP: path nvlink within them alone.
    facts.reach = facts.offers = false;
    facts.why_no_reach = "it joins the ranks of a group alone";
    facts.groups = wanted.shape.groups;
    call.shape.groups = wanted.shape.groups;
  }
  SENNIT_ASSIGN_OR_RETURN(DevicePlan made, plan_for_devices(call, facts));
  return std::move(made.plan);
}

Result<Plan> plan_of(const JsonObject& request,
                     MachinePlanRequest wanted,
                     const Topology& machine) {
  SENNIT_ASSIGN_OR_RETURN(const bool on_gpu_ranks, speaks_of_gpu_ranks(request));
  if (on_gpu_ranks) {
    return plan_of_gpu_ranks(request, wanted, machine);
  }
  SENNIT_RETURN_IF_ERROR(check_taken(request, *wanted.algorithm));
  if (request.has("path")) {
    SENNIT_ASSIGN_OR_RETURN(const std::string path, request.text("path"));
    SENNIT_ASSIGN_OR_RETURN(wanted.paths, parse_path_list(path));
  }
  return plan_on_machine(wanted, machine);
}

Json links_form(const Simulation& run) {
  std::vector<ResourceUse> links = run.resources;
  std::ranges::stable_sort(links, std::greater<>(), &ResourceUse::busy);
  links.resize(std::min(links.size(), kMaxLinksTold));
  Json rows = Json::array();
  for (const ResourceUse& link : links) {
    rows.push_back({{"name", link.name},
                    {"bandwidth_gbps", link.gbps},
                    {"bytes", link.bytes},
                    {"busy", link.busy}});
  }
  return rows;
}

Json strands_form(const Plan& plan) {
  Json rows = Json::array();
  for (const Strand& strand : plan.strands) {
    std::set<std::string_view> protocols;
    for (const ChannelBinding& channel : strand.channels) {
      protocols.insert(name(channel.protocol));
    }
    rows.push_back({{"algorithm", strand.schedule->algorithm},
                    {"protocols", protocols},
                    {"share", strand.share},
                    {"copies", strand.width},
                    {"tile_bytes", strand.tile_bytes}});
  }
  return rows;
}

// The simulator takes what an algorithm of the table has been proved to be for granted.
Status check_given(const Algorithm& algorithm) {
  if (algorithm.given == nullptr) {
    return {};
  }
  const Json proof = proof_form(*algorithm.given);
  return proof.at("proved") == true
             ? Status()
             : fail(Code::kNotProved,
                    "this schedule is not proved, so it is not simulated: {}",
                    proof.at("why").get<std::string>());
}

// Whether what was simulated would give right results; null where nobody has proved so many ranks.
Json proof_form(const Plan& plan) {
  constexpr std::size_t kProvedRanks = 64;
  for (const Strand& strand : plan.strands) {
    if (strand.schedule->ranks.size() > kProvedRanks) {
      return nullptr;
    }
    Json proof = proof_form(*strand.schedule);
    if (proof.at("proved") != true) {
      return proof;
    }
  }
  return {{"proved", true}};
}

Result<Json> simulate_collective(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const Topology machine, read_machine(request));
  SENNIT_ASSIGN_OR_RETURN(const MachinePlanRequest wanted, read_plan_request(request, machine));
  SENNIT_RETURN_IF_ERROR(check_given(*wanted.algorithm));
  bool timeline = false;
  if (request.has("timeline")) {
    SENNIT_ASSIGN_OR_RETURN(timeline, request.flag("timeline"));
  }
  const auto begin = std::chrono::steady_clock::now();
  SENNIT_ASSIGN_OR_RETURN(const Plan plan, plan_of(request, wanted, machine));
  SENNIT_ASSIGN_OR_RETURN(const bool in_turn, run_in_turn(request));
  SENNIT_ASSIGN_OR_RETURN(const Simulation run,
                          simulate(plan,
                                   machine,
                                   {.count = wanted.bytes,
                                    .element_bytes = 1,
                                    .ranks_per_device = wanted.ranks_per_device,
                                    .in_turn = in_turn,
                                    .timeline = timeline}));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (timeline && run.steps > kMaxTracedSteps) {
    return fail(Code::kInvalidArgument,
                "a trace of {} steps is too large to look at; take fewer ranks or larger tiles",
                run.steps);
  }
  const bool drawn = timeline && run.steps <= kMaxDrawnSteps;
  const std::string of = fmt::format("{} bytes on {}", wanted.bytes, machine.name);
  return Json{{"machine", machine.name},
              {"collective", name(wanted.algorithm->collective)},
              {"algorithm", plan.strands.front().schedule->algorithm},
              {"ranks", wanted.shape.ranks},
              {"bytes", wanted.bytes},
              {"tile_bytes", plan.strands.front().tile_bytes},
              {"paths", paths_form(plan)},
              {"strands", strands_form(plan)},
              {"seconds", run.seconds},
              {"steps", run.steps},
              {"flows", run.flows},
              {"simulation_seconds", took.count()},
              {"proof", proof_form(plan)},
              {"links", links_form(run)},
              {"trace", timeline ? trace_json(plan, run) : Json()},
              {"svg", drawn ? Json(timeline_svg(plan, run, of)) : Json()}};
}

Result<Json> draw_machine(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const Topology machine, read_machine(request));
  return Json{{"name", machine.name},
              {"title", machine.title},
              {"devices", machine.devices().size()},
              {"cluster", machine.has_fabric()},
              {"text", to_text(machine)},
              {"svg", topology_svg(machine)}};
}

Result<Json> list_machines(const JsonObject&) {
  Json rows = Json::array();
  for (const CatalogueEntry& entry : catalogue()) {
    SENNIT_ASSIGN_OR_RETURN(const Topology machine, find_machine(entry.name));
    rows.push_back({{"name", entry.name},
                    {"title", machine.title},
                    {"devices", machine.devices().size()},
                    {"cluster", machine.has_fabric()},
                    {"text", entry.text}});
  }
  return Json{{"machines", std::move(rows)}};
}

// With a codec, GPU ranks that have it are all that the question is about.
Result<Json> codec_form(const JsonObject& request, const std::optional<GpuPrediction>& ranks) {
  if (!request.has("codec")) {
    return Json();
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string text, request.text("codec"));
  SENNIT_ASSIGN_OR_RETURN(const Codec codec, parse_codec(text));
  if (!ranks) {
    return fail(
        Code::kUnsupported,
        "what a codec gains is known of machines whose GPUs are joined by NVLink, of a rank "
        "each: take one as h200-x2");
  }
  return ranks->form(codec);
}

Result<Json> explain_choice(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const Topology machine, read_machine(request));
  SENNIT_ASSIGN_OR_RETURN(const MachinePlanRequest wanted, read_plan_request(request, machine));
  std::string path;
  if (request.has("path")) {
    SENNIT_ASSIGN_OR_RETURN(path, request.text("path"));
  }
  std::vector<Path> rails;
  if (names_rails(path)) {
    SENNIT_ASSIGN_OR_RETURN(rails, parse_path_list(path));
  }
  const Candidates candidates = rank_candidates({.collective = wanted.algorithm->collective,
                                                 .ranks = wanted.shape.ranks,
                                                 .root = wanted.shape.root,
                                                 .ranks_per_device = wanted.ranks_per_device,
                                                 .bytes = wanted.bytes,
                                                 .paths = rails},
                                                machine);
  Json ranked = Json::array();
  for (const Candidate& candidate : candidates.ranked) {
    ranked.push_back({{"algorithm", candidate.algorithm->name},
                      {"tile_bytes", candidate.tile_bytes},
                      {"predicted_seconds", candidate.seconds},
                      {"busiest_link", candidate.busiest_link},
                      {"busiest_use", candidate.busiest_use}});
  }
  const auto ranks = GpuPrediction::of(wanted, path, machine);
  SENNIT_ASSIGN_OR_RETURN(Json codec, codec_form(request, ranks));
  Json gpu_ranks;
  if (ranks) {
    Result<Json> form = ranks->form();
    if (!form.ok() && !path.empty()) {
      return form.status();
    }
    gpu_ranks = form.ok() ? std::move(form).value() : Json();
  } else if (!path.empty() && rails.empty()) {
    return fail(Code::kUnsupported,
                "path is for machines whose GPUs are joined by NVLink, or names cards of nodes, as "
                "in rail/0+rail/1");
  }
  Json refused = Json::array();
  for (const Candidate& candidate : candidates.refused) {
    refused.push_back({{"algorithm", candidate.algorithm->name}, {"why", candidate.refused}});
  }
  return Json{{"machine", machine.name},
              {"collective", name(wanted.algorithm->collective)},
              {"ranks", wanted.shape.ranks},
              {"bytes", wanted.bytes},
              {"choice",
               !gpu_ranks.is_null()        ? gpu_ranks["algorithm"]
               : candidates.ranked.empty() ? Json()
                                           : Json(candidates.ranked.front().algorithm->name)},
              {"reason", gpu_ranks.is_null() ? Json(candidates.reason()) : gpu_ranks["reason"]},
              {"gpu_ranks", std::move(gpu_ranks)},
              {"codec", std::move(codec)},
              {"candidates", std::move(ranked)},
              {"refused", std::move(refused)}};
}

Result<Json> reproduce_papers(const JsonObject& request) {
  std::optional<int> paper;
  if (request.has("paper")) {
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t number, request.integer("paper", 1, kPapers));
    paper = static_cast<int>(number);
  }
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Reproduction> reproductions,
                          reproduce(paper, find_machine));
  Json rows = Json::array();
  for (const Reproduction& row : reproductions) {
    rows.push_back({{"paper", row.paper},
                    {"figure", row.figure},
                    {"quantity", row.quantity},
                    {"unit", row.unit},
                    {"paper_value", row.paper_value ? Json(*row.paper_value) : Json()},
                    {"ours", row.ours},
                    {"ratio", row.paper_value ? Json(row.ours / *row.paper_value) : Json()},
                    {"tolerance", row.paper_value ? Json(row.tolerance) : Json()},
                    {"how", name(row.how)},
                    {"machine", row.machine},
                    {"verdict", name(row.verdict)},
                    {"why", row.why}});
  }
  return Json{{"rows", std::move(rows)}};
}

}  // namespace
}  // namespace sennit

sennit_status_t sennit_tool_explain(const char* request, char** answer) {
  return sennit::respond_to(request,
                            answer,
                            {"collective",
                             "machine",
                             "machine_text",
                             "machine_file",
                             "ranks",
                             "ranks_per_gpu",
                             "root",
                             "bytes",
                             "path",
                             "codec"},
                            sennit::explain_choice);
}

sennit_status_t sennit_tool_reproduce(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"paper"}, sennit::reproduce_papers);
}

sennit_status_t sennit_tool_simulate(const char* request, char** answer) {
  return sennit::respond_to(request,
                            answer,
                            {"collective",
                             "algorithm",
                             "machine",
                             "machine_text",
                             "machine_file",
                             "ranks",
                             "ranks_per_gpu",
                             "root",
                             "radix",
                             "groups",
                             "bytes",
                             "tile_bytes",
                             "path",
                             "protocol",
                             "mps",
                             "timeline",
                             "schedule_text",
                             "schedule_file"},
                            sennit::simulate_collective);
}

sennit_status_t sennit_tool_topology(const char* request, char** answer) {
  return sennit::respond_to(
      request, answer, {"machine", "machine_text", "machine_file"}, sennit::draw_machine);
}

sennit_status_t sennit_tool_machines(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {}, sennit::list_machines);
}
