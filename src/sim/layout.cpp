#include "sim/layout.hpp"

#include <algorithm>

namespace sennit::sim {

std::int64_t Layout::message(const CostStep& step, std::int64_t tile) const {
  if ((tile + 1) * tile_bytes <= full_bytes) {
    return step.length_count * tile_bytes;
  }
  std::int64_t bytes = 0;
  for (const Block& block : *step.lengths) {
    const std::int64_t length =
        lengths[lengths.size() == 1 ? 0 : static_cast<std::size_t>(block.index)];
    bytes += std::clamp<std::int64_t>(length - tile * tile_bytes, 0, tile_bytes);
  }
  return bytes;
}

Layout lay_out(const Plan& plan, int strand, std::int64_t count, std::int64_t element_bytes) {
  const Strand& bound = plan.strands[static_cast<std::size_t>(strand)];
  const Problem& problem = bound.schedule->problem;
  Layout layout;
  layout.tile_bytes = std::max<std::int64_t>(1, bound.tile_bytes / element_bytes) * element_bytes;
  const int blocks = is_cut(problem.collective) ? problem.cut : 1;
  for (int block = 0; block < blocks; ++block) {
    const ElementRange whole = block_range(problem, count, element_bytes, block);
    layout.lengths.push_back(strand_range(plan, strand, whole.length, element_bytes).length *
                             element_bytes);
  }
  const auto [shortest, longest] = std::ranges::minmax(layout.lengths);
  layout.full_bytes = shortest;
  // A barrier has no blocks; its program runs once.
  layout.tiles = problem.collective == Collective::kBarrier
                     ? 1
                     : (longest + layout.tile_bytes - 1) / layout.tile_bytes;
  return layout;
}

}  // namespace sennit::sim
