// The functions of tools.h that make and examine tuning tables. Measuring is the caller's: these
// turn rows of times into a table, and judge a table by rows of a later run.
#include "capi/bench_bytes.hpp"
#include "capi/respond.hpp"
#include "discover/machine_key.hpp"
#include "select/host_candidates.hpp"
#include "select/link_fit.hpp"
#include "select/tuning_table.hpp"
#include "sennit/tools.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace sennit {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;

// Repetitions of one way of one cell.
struct Repeated {
  Timing timing;           // `us` is the median
  std::vector<double> us;  // sorted

  [[nodiscard]] double spread() const { return (us.back() - us.front()) / timing.us; }
};

Result<Repeated> read_row(const Json& row, const std::string& where) {
  SENNIT_ASSIGN_OR_RETURN(
      const JsonObject object,
      JsonObject::open(
          row,
          where,
          {"collective", "ranks", "bytes", "algorithm", "protocol", "tile_bytes", "times_us"}));
  Repeated repeated;
  Timing& timing = repeated.timing;
  SENNIT_ASSIGN_OR_RETURN(const std::string collective, object.text("collective"));
  SENNIT_ASSIGN_OR_RETURN(timing.collective, parse_collective(collective));
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t ranks, object.integer("ranks", 2, 65536));
  timing.ranks = static_cast<int>(ranks);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t bytes, object.integer("bytes", 0, kMost));
  timing.bytes = bytes_of_call(timing.collective, timing.ranks, bytes);
  SENNIT_ASSIGN_OR_RETURN(const std::string algorithm, object.text("algorithm"));
  SENNIT_ASSIGN_OR_RETURN(timing.algorithm, find_algorithm(timing.collective, algorithm));
  SENNIT_ASSIGN_OR_RETURN(const std::string protocol, object.text("protocol"));
  timing.direct = protocol == "direct";
  SENNIT_ASSIGN_OR_RETURN(timing.tile_bytes, object.integer("tile_bytes", 0, kMost));
  SENNIT_ASSIGN_OR_RETURN(const Json* times, object.list("times_us"));
  for (const Json& time : *times) {
    if (!time.is_number() || !(time.get<double>() > 0)) {
      return fail(Code::kInvalidArgument, "{} holds what is no time", object.where("times_us"));
    }
    repeated.us.push_back(time.get<double>());
  }
  if (repeated.us.empty()) {
    return fail(Code::kInvalidArgument, "{} is empty", object.where("times_us"));
  }
  std::ranges::sort(repeated.us);
  timing.us = repeated.us[repeated.us.size() / 2];
  return repeated;
}

Result<std::vector<Repeated>> read_rows(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const Json* list, request.list("rows"));
  std::vector<Repeated> rows;
  for (std::size_t i = 0; i < list->size(); ++i) {
    SENNIT_ASSIGN_OR_RETURN(Repeated row, read_row((*list)[i], fmt::format("request.rows[{}]", i)));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string_view protocol_name(bool direct) { return direct ? "direct" : "slots"; }

// Whether equation (5) speaks of it.
bool is_chain(const Timing& timing) {
  return timing.collective == Collective::kBroadcast && timing.algorithm->name == "chain" &&
         timing.tile_bytes > 0 && timing.tile_bytes <= timing.bytes;
}

// Chains of one number of ranks, protocol and size.
using ChainKey = std::tuple<int, bool, std::int64_t>;
using Chains = std::map<ChainKey, std::vector<models::ChainSample>>;

ChainKey chain_key(const Timing& timing) { return {timing.ranks, timing.direct, timing.bytes}; }

Chains chains_of(const std::vector<Timing>& timings) {
  // Below it a call's own cost counts for more than its messages.
  constexpr std::int64_t kLeastBytes = 256 * 1024;
  Chains chains;
  for (const Timing& timing : timings) {
    if (is_chain(timing) && timing.bytes >= kLeastBytes) {
      chains[chain_key(timing)].push_back({.ranks = timing.ranks,
                                           .bytes = static_cast<double>(timing.bytes),
                                           .chunk = static_cast<double>(timing.tile_bytes),
                                           .seconds = timing.us * kMicro});
    }
  }
  return chains;
}

std::vector<MessageFit> fit_messages(const std::vector<Timing>& timings) {
  std::vector<MessageFit> fits;
  for (const auto& [what, chains] : chains_of(timings)) {
    const models::LinkModel link = models::fit_chains(chains);
    const auto& [ranks, direct, bytes] = what;
    fits.push_back({.ranks = ranks,
                    .direct = direct,
                    .bytes = bytes,
                    .start_us = link.start_s / kMicro,
                    .gbps = link.bytes_per_s / kGiga});
  }
  return fits;
}

Result<Json> make_table(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Repeated> rows, read_rows(request));
  SENNIT_ASSIGN_OR_RETURN(MachineKey machine, discover_machine_key());
  std::vector<Timing> timings;
  timings.reserve(rows.size());
  for (const Repeated& row : rows) {
    timings.push_back(row.timing);
  }
  SENNIT_ASSIGN_OR_RETURN(const TuningTable table,
                          TuningTable::make(std::move(machine), fit_messages(timings), timings));
  Json fits = Json::array();
  for (const MessageFit& fit : table.fits()) {
    fits.push_back({{"ranks", fit.ranks},
                    {"protocol", protocol_name(fit.direct)},
                    {"bytes", fit.bytes},
                    {"start_us", fit.start_us},
                    {"gbps", fit.gbps}});
  }
  return Json{{"hash", table.hash()}, {"text", to_text(table)}, {"fits", std::move(fits)}};
}

using CellKey = std::tuple<Collective, int, std::int64_t>;

Json way_form(const Timing& timing) {
  return {{"algorithm", timing.algorithm->name},
          {"protocol", protocol_name(timing.direct)},
          {"tile_bytes", timing.tile_bytes}};
}

bool same_way(const Timing& a, const Timing& b) {
  return a.algorithm == b.algorithm && a.direct == b.direct && a.tile_bytes == b.tile_bytes;
}

// What the table chooses in one cell, against the best of the later run.
Json judge_cell(const CellKey& key,
                const std::vector<const Repeated*>& ways,
                const TuningTable& table) {
  const auto& [collective, ranks, bytes] = key;
  const Repeated* best =
      *std::ranges::min_element(ways, {}, [](const Repeated* way) { return way->timing.us; });
  const Timing* chosen = table.best(collective, ranks, bytes, Carriers::kAny);
  const auto again = std::ranges::find_if(ways, [&](const Repeated* way) {
    return chosen != nullptr && same_way(way->timing, *chosen);
  });
  Json cell{{"collective", name(collective)},
            {"ranks", ranks},
            {"bytes", bytes},
            {"ways", ways.size()},
            {"choice", chosen == nullptr ? Json() : way_form(*chosen)},
            {"best", way_form(best->timing)},
            {"best_us", best->timing.us}};
  if (again == ways.end()) {
    // Not timed again: too slow already at a smaller size, so not the best.
    cell.update({{"ratio", nullptr}, {"within_10_percent", false}, {"within_spread", false}});
    return cell;
  }
  constexpr double kNear = 1.1;
  const double ratio = (*again)->timing.us / best->timing.us;
  const double spread = std::max((*again)->spread(), best->spread());
  cell.update({{"choice_us", (*again)->timing.us},
               {"ratio", ratio},
               {"spread", spread},
               {"within_10_percent", ratio <= kNear},
               {"within_spread", ratio <= 1 + spread}});
  return cell;
}

// A form of equation (5), against the chains of the later run.
struct ChainForm {
  models::LinkModel link{};
  double copies = 0;  // as in broadcast_shared_chain; 0: the paper's own form

  [[nodiscard]] double us(const Timing& timing) const {
    const auto bytes = static_cast<double>(timing.bytes);
    const auto chunk = static_cast<double>(timing.tile_bytes);
    const double seconds =
        copies == 0 ? models::broadcast_pipelined_chain(link, timing.ranks, bytes, chunk)
                    : models::broadcast_shared_chain(link, timing.ranks, bytes, chunk, copies);
    return seconds / kMicro;
  }
  [[nodiscard]] double best_chunk(const Timing& timing) const {
    const auto bytes = static_cast<double>(timing.bytes);
    return copies == 0 ? models::broadcast_best_chunk(link, timing.ranks, bytes)
                       : models::broadcast_shared_best_chunk(link, timing.ranks, bytes, copies);
  }
};
using ChainForms = std::map<ChainKey, ChainForm>;

// Fitted to the times of the table.
ChainForms forms_of(const TuningTable& table, bool shared) {
  ChainForms forms;
  const auto cores = static_cast<int>(table.machine().cores);
  for (const auto& [key, chains] : chains_of(table.timings())) {
    if (shared) {
      const models::SharedLink fit = models::fit_shared_chains(chains, cores);
      forms[key] = {.link = fit.link, .copies = fit.copies};
    } else {
      forms[key] = {.link = models::fit_chains(chains)};
    }
  }
  return forms;
}

struct ChainJudgement {
  Json rows = Json::array();
  Json chunks = Json::array();
  int predicted = 0;
  int best_chunks = 0;
};

double factor_between(double a, double b) { return std::max(a / b, b / a); }

// The fastest chunk of a cell, and the largest that was timed: no slot holds more.
struct MeasuredChunks {
  const Timing* best = nullptr;
  std::int64_t largest = 0;

  void see(const Timing& timing) {
    best = best == nullptr || timing.us < best->us ? &timing : best;
    largest = std::max(largest, timing.tile_bytes);
  }
};

void judge_best_chunk(const MeasuredChunks& chunks, const ChainForm& form, ChainJudgement& judged) {
  constexpr double kFactor = 2;
  const Timing& best = *chunks.best;
  const double chunk = std::min(form.best_chunk(best), static_cast<double>(chunks.largest));
  const bool is_close = factor_between(chunk, static_cast<double>(best.tile_bytes)) <= kFactor;
  judged.best_chunks += is_close ? 1 : 0;
  judged.chunks.push_back({{"ranks", best.ranks},
                           {"protocol", protocol_name(best.direct)},
                           {"bytes", best.bytes},
                           {"measured_best", best.tile_bytes},
                           {"predicted_best", chunk},
                           {"within_factor_2", is_close}});
}

ChainJudgement judge_chains(const std::vector<Repeated>& rows, const ChainForms& forms) {
  constexpr std::int64_t kLeastBytes = std::int64_t{4} << 20;
  constexpr double kNear = 1.15;
  ChainJudgement judged;
  std::map<ChainKey, MeasuredChunks> cells;
  for (const Repeated& row : rows) {
    const Timing& timing = row.timing;
    const auto form = forms.find(chain_key(timing));
    if (!is_chain(timing) || timing.bytes < kLeastBytes || form == forms.end()) {
      continue;
    }
    const double us = form->second.us(timing);
    const bool is_close = factor_between(us, timing.us) <= kNear;
    judged.predicted += is_close ? 1 : 0;
    judged.rows.push_back({{"ranks", timing.ranks},
                           {"protocol", protocol_name(timing.direct)},
                           {"bytes", timing.bytes},
                           {"chunk", timing.tile_bytes},
                           {"measured_us", timing.us},
                           {"spread", row.spread()},
                           {"predicted_us", us},
                           {"start_us", form->second.link.start_s / kMicro},
                           {"gbps", form->second.link.bytes_per_s / kGiga},
                           {"copies", form->second.copies},
                           {"within_15_percent", is_close}});
    cells[chain_key(timing)].see(timing);
  }
  for (const auto& [key, chunks] : cells) {
    if (chunks.best->ranks > 2) {  // with one hop no chunk is better than another
      judge_best_chunk(chunks, forms.at(key), judged);
    }
  }
  return judged;
}

Json chain_form(ChainJudgement judged) {
  return {{"chains", judged.rows.size()},
          {"within_15_percent", judged.predicted},
          {"chunks", judged.chunks.size()},
          {"chunks_within_factor_2", judged.best_chunks},
          {"times", std::move(judged.rows)},
          {"best_chunks", std::move(judged.chunks)}};
}

// Places of mistakes begin with the name of its file, if there is one.
Result<TuningTable> read_table(const JsonObject& request) {
  std::string file = "table";
  if (request.has("table_file")) {
    SENNIT_ASSIGN_OR_RETURN(file, request.text("table_file"));
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string text, request.text("table"));
  return tuning_table_from_text(text, file);
}

Result<Json> check_table(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const TuningTable table, read_table(request));
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Repeated> rows, read_rows(request));
  std::map<CellKey, std::vector<const Repeated*>> cells;
  for (const Repeated& row : rows) {
    const Timing& timing = row.timing;
    cells[{timing.collective, timing.ranks, timing.bytes}].push_back(&row);
  }
  Json judged = Json::array();
  int close_count = 0;
  int fair = 0;
  for (const auto& [key, ways] : cells) {
    judged.push_back(judge_cell(key, ways, table));
    const bool is_close = judged.back()["within_10_percent"];
    close_count += is_close ? 1 : 0;
    fair += is_close || judged.back()["within_spread"] ? 1 : 0;
  }
  return Json{
      {"cells", cells.size()},
      {"within_10_percent", close_count},
      {"within_10_percent_or_spread", fair},
      {"choices", std::move(judged)},
      {"equation_5", chain_form(judge_chains(rows, forms_of(table, false)))},
      {"equation_5_on_shared_cores", chain_form(judge_chains(rows, forms_of(table, true)))}};
}

Json candidate_form(const HostCandidate& candidate) {
  const auto time = [](const std::optional<double>& us) { return us ? Json(*us) : Json(); };
  return {
      {"algorithm", candidate.algorithm->name},
      {"protocol", protocol_name(candidate.direct)},
      {"predicted_us", time(candidate.predicted_us)},
      {"predicted_tile_bytes", candidate.predicted_us ? Json(candidate.predicted_tile) : Json()},
      {"measured_us", time(candidate.measured_us)},
      {"measured_tile_bytes", candidate.measured_us ? Json(candidate.measured_tile) : Json()},
      {"measured_bytes", candidate.measured_us ? Json(candidate.measured_bytes) : Json()}};
}

// What choosing costs a call.
double time_of_choice(Collective collective,
                      int ranks,
                      std::int64_t bytes,
                      const HostFacts& facts) {
  constexpr int kTimes = 1000;
  const auto begin = std::chrono::steady_clock::now();
  int chosen = 0;
  for (int i = 0; i < kTimes; ++i) {
    chosen += choose(collective, {.ranks = ranks}, bytes, {}, facts).ok() ? 1 : 0;
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  SENNIT_CHECK(chosen == kTimes, "what was chosen once is chosen again");
  return took.count() / kTimes;
}

Result<Json> explain_host(const JsonObject& request) {
  SENNIT_ASSIGN_OR_RETURN(const std::string collective_name, request.text("collective"));
  SENNIT_ASSIGN_OR_RETURN(const Collective collective, parse_collective(collective_name));
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t ranks, request.integer("ranks", 1, 1024));
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t bytes,
                          request.integer("bytes", 0, std::int64_t{1} << 50));
  HostFacts facts{.cma = true};
  if (request.has("table")) {
    SENNIT_ASSIGN_OR_RETURN(TuningTable table, read_table(request));
    facts.table = std::make_shared<const TuningTable>(std::move(table));
  }
  const int size = collective == Collective::kSendRecv ? 2 : static_cast<int>(ranks);
  SENNIT_ASSIGN_OR_RETURN(const HostCandidates made,
                          host_candidates(collective, {.ranks = size}, bytes, facts));
  const double selection_us = time_of_choice(collective, size, bytes, facts);
  Json candidates = Json::array();
  Json refused = Json::array();
  for (const HostCandidate& candidate : made.candidates) {
    if (candidate.refused.empty()) {
      candidates.push_back(candidate_form(candidate));
    } else {
      refused.push_back({{"algorithm", candidate.algorithm->name},
                         {"protocol", protocol_name(candidate.direct)},
                         {"why", candidate.refused}});
    }
  }
  return Json{{"machine", "host ranks"},
              {"collective", name(collective)},
              {"ranks", size},
              {"bytes", bytes},
              {"choice",
               {{"algorithm", made.choice.algorithm->name},
                {"protocol", protocol_name(made.choice.direct)},
                {"tile_bytes", made.choice.tile_bytes}}},
              {"reason", made.reason},
              {"selection_us", selection_us},
              {"candidates", std::move(candidates)},
              {"refused", std::move(refused)}};
}

}  // namespace
}  // namespace sennit

sennit_status_t sennit_tool_tune(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"rows"}, sennit::make_table);
}

sennit_status_t sennit_tool_tune_check(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"table", "table_file", "rows"}, sennit::check_table);
}

sennit_status_t sennit_tool_explain_host(const char* request, char** answer) {
  return sennit::respond_to(request,
                            answer,
                            {"collective", "ranks", "bytes", "table", "table_file"},
                            sennit::explain_host);
}
