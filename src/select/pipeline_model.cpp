#include "select/pipeline_model.hpp"

#include <algorithm>
#include <cmath>

namespace sennit {

double PipelineModel::seconds(double block_bytes, double tile_bytes) const {
  const double tile = std::min(tile_bytes, block_bytes);
  const double tiles = tile > 0 ? std::ceil(block_bytes / tile) : 1;
  return ((tiles - 1) * lane_steps + rounds) * (start_s + message_blocks * tile / bytes_per_s);
}

double PipelineModel::best_tile_bytes(double block_bytes) const {
  const double waiting = message_blocks * (rounds - lane_steps);
  if (waiting <= 0) {
    return block_bytes;
  }
  return std::min(block_bytes,
                  std::sqrt(block_bytes * lane_steps * start_s * bytes_per_s / waiting));
}

}  // namespace sennit
