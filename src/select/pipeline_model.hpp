// PipelineModel: one closed form for every algorithm. Its tiles run one behind the other in lanes;
// the busiest lane has q sends a tile, and the longest chain of one tile's sends, of which each
// waits for the one before, has R.
//
//   T(C) = ((L/C - 1) q + R) (t_s + b C/B)
//
// for blocks of L bytes in tiles of C, messages of up to b blocks, start-up t_s, bandwidth B. The
// chain has q = 1 and R = n - 1, so this is paper 2's equation (5); a ring has q >= R, so tiles
// gain nothing. What the form does not know is that messages share links (docs/models.md).
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

struct PipelineModel {
  double start_s = 0;
  double bytes_per_s = 1;
  double lane_steps = 1;      // q
  double rounds = 1;          // R
  double message_blocks = 1;  // b

  [[nodiscard]] double seconds(double block_bytes, double tile_bytes) const;

  // C* = sqrt(L q t_s B / (b (R - q))): where the derivative of T is zero; L where R <= q.
  [[nodiscard]] double best_tile_bytes(double block_bytes) const;
};

// q, R and b of a schedule; t_s and B are the caller's to fill in.
PipelineModel pipeline_model(const Schedule& schedule);

}  // namespace sennit
