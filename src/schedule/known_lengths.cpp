#include "schedule/known_lengths.hpp"

#include <algorithm>

namespace sennit {
namespace {

bool is_scratch(const Block& block) { return block.space == Space::kScratch; }

Status check_step(int rank, const Step& step) {
  if (std::ranges::any_of(step.from, is_scratch) || std::ranges::any_of(step.to, is_scratch)) {
    return fail(Code::kUnsupported,
                "rank {} keeps blocks of other ranks in scratch, and does not know their lengths",
                rank);
  }
  if (step.from.empty() && step.to.empty()) {
    return fail(Code::kUnsupported,
                "rank {} passes on messages without keeping them, and does not know their lengths",
                rank);
  }
  return {};
}

}  // namespace

Status check_known_lengths(const Schedule& schedule) {
  const Problem& problem = schedule.problem;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    for (const Lane& lane : schedule.ranks[static_cast<std::size_t>(rank)]) {
      for (const Step& step : lane.steps) {
        SENNIT_RETURN_IF_ERROR(check_step(rank, step));
      }
    }
  }
  if (problem.collective == Collective::kAllGather) {
    return {};
  }
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    if (!schedule.channels[c].single_hop) {
      return fail(Code::kUnsupported,
                  "channel {}, written by rank {}, carries blocks that do not go straight from "
                  "their owner to their place, so its ends do not know their lengths",
                  c,
                  schedule.channels[c].writer.rank);
    }
  }
  return {};
}

}  // namespace sennit
