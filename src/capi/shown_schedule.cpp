#include "capi/shown_schedule.hpp"

#include "schedule/plan.hpp"
#include "verify/verify.hpp"

#include <memory>

namespace sennit {
namespace {

constexpr int kShownSlots = 2;

}  // namespace

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
