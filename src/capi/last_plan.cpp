#include "capi/last_plan.hpp"

#include "capi/handles.hpp"
#include "exec/cpu/bound_program.hpp"

#include <algorithm>

namespace sennit {
namespace {

LastPlan summary_of(const Plan& plan, std::uint64_t hash, const Proof& proof) {
  const Strand& first = plan.strands.front();
  LastPlan summary{.algorithm = first.schedule->algorithm,
                   .tile_bytes = first.tile_bytes,
                   .codec = codec_of(plan),
                   .plan_hash = hash,
                   .reproducible = proof.reproducible};
  for (const Strand& strand : plan.strands) {
    for (const ChannelBinding& channel : strand.channels) {
      for (const Path& path : channel.paths) {
        if (std::ranges::find(summary.paths, text_of(path)) == summary.paths.end()) {
          summary.paths.push_back(text_of(path));
        }
      }
      summary.protocol = channel.protocol == Protocol::kSlots ? summary.protocol : channel.protocol;
    }
  }
  return summary;
}

}  // namespace

std::optional<LastPlan> last_plan_of(const sennit_comm& comm) {
  if (comm.device != nullptr) {
    const ProvedPlan* const last = comm.device->last_plan();
    return last == nullptr ? std::nullopt
                           : std::optional(summary_of(*last->plan, last->hash, last->proof));
  }
  const auto lock = comm.engine->lock();
  const BoundProgram* const bound = comm.comm->calls().last_program();
  if (bound == nullptr) {
    return std::nullopt;
  }
  const Program& program = bound->program();
  return summary_of(*program.plan, program.plan_hash, program.proof);
}

}  // namespace sennit
