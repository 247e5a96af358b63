#include "capi/shown_schedule.hpp"

#include "algo/given_schedules.hpp"
#include "schedule/json_form.hpp"
#include "schedule/passes.hpp"
#include "schedule/plan.hpp"
#include "verify/verify.hpp"

#include <memory>
#include <string>
#include <utility>

namespace sennit {
namespace {

constexpr int kShownSlots = 2;

}  // namespace

Result<const Algorithm*> read_given(const JsonObject& request,
                                    std::initializer_list<std::string_view> not_taken) {
  if (!request.has("schedule_text")) {
    return static_cast<const Algorithm*>(nullptr);
  }
  for (const std::string_view key : not_taken) {
    if (request.has(key)) {
      return fail(Code::kInvalidArgument,
                  "{} is given, but the schedule itself says what it is; leave it out",
                  request.where(key));
    }
  }
  SENNIT_ASSIGN_OR_RETURN(const std::string text, request.text("schedule_text"));
  std::string file = "schedule";
  if (request.has("schedule_file")) {
    SENNIT_ASSIGN_OR_RETURN(file, request.text("schedule_file"));
  }
  bool fuses = false;
  if (request.has("fuse")) {
    SENNIT_ASSIGN_OR_RETURN(fuses, request.flag("fuse"));
  }
  SENNIT_ASSIGN_OR_RETURN(Schedule schedule, schedule_from_json(text, file));
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    // No algorithm of the table has such a one, and executors and simulator divide by the number.
    if (messages_per_tile(schedule, static_cast<int>(c)) == 0) {
      return fail(Code::kInvalidArgument,
                  "{}: schedule {} {}: channel {} carries no message; leave it out",
                  file,
                  name(schedule.problem.collective),
                  schedule.algorithm,
                  c);
    }
  }
  return &keep_schedule(fuses ? fuse(std::move(schedule)) : std::move(schedule));
}

Json proof_form(const Schedule& schedule) {
  const Plan plan{{bind(std::make_shared<const Schedule>(schedule),
                        PathKind::kShm,
                        Protocol::kSlots,
                        kShownSlots,
                        Engine::kCpu)}};
  const Result<Proof> proof = verify(plan);
  if (!proof.ok()) {
    return {{"proved", false}, {"why", proof.status().message()}};
  }
  return {{"proved", true},
          {"protocol", name(Protocol::kSlots)},
          {"slots", kShownSlots},
          {"in_place", proof->in_place},
          {"why_not_in_place", proof->why_not_in_place},
          {"reproducible", proof->reproducible},
          {"structure_hash", fmt::format("{:016x}", proof->structure_hash)}};
}

Status check_taken(const JsonObject& request, const Algorithm& algorithm) {
  const auto refuse = [&](const char* key) {
    return fail(Code::kInvalidArgument,
                "request.{} is given, but {} {} takes none",
                key,
                name(algorithm.collective),
                algorithm.name);
  };
  if (request.has("radix") && !algorithm.takes_radix) {
    return refuse("radix");
  }
  if (request.has("groups") && !algorithm.takes_groups) {
    return refuse("groups");
  }
  return {};
}

}  // namespace sennit
