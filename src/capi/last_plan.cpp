#include "capi/last_plan.hpp"

#include <algorithm>

namespace sennit {

PlanSummary summary_of(const Program& program) {
  PlanSummary summary;
  summary.algorithm = program.plan->strands.front().schedule->algorithm;
  for (const Strand& strand : program.plan->strands) {
    for (const ChannelBinding& channel : strand.channels) {
      for (const PathKind path : channel.paths) {
        if (std::ranges::find(summary.paths, name(path)) == summary.paths.end()) {
          summary.paths.push_back(name(path));
        }
      }
      summary.protocol = channel.protocol == Protocol::kSlots ? summary.protocol : channel.protocol;
    }
  }
  return summary;
}

}  // namespace sennit
