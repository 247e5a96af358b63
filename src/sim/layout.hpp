// Layout: how a strand's part of the blocks of a call is cut into tiles, in bytes.
#pragma once

#include "sim/cost_form.hpp"

#include <cstdint>
#include <vector>

namespace sennit::sim {

struct Layout {
  std::int64_t tile_bytes = 0;
  std::int64_t tiles = 0;
  std::vector<std::int64_t> lengths;  // by block of a cut vector, else one
  std::int64_t full_bytes = 0;        // no block is shorter than this

  // Bytes of the step's message of one tile.
  [[nodiscard]] std::int64_t message(const CostStep& step, std::int64_t tile) const;
};

// `count` elements, as in a call.
Layout lay_out(const Plan& plan, int strand, std::int64_t count, std::int64_t element_bytes);

}  // namespace sennit::sim
