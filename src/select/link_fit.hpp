// Start-up and bandwidth of a link from measured pipelined chains, by paper 2's equation (5).
#pragma once

#include "select/models.hpp"

#include <span>

namespace sennit::models {

struct ChainSample {
  int ranks = 2;
  double bytes = 0;
  double chunk = 0;  // no larger than bytes
  double seconds = 0;
};

// The t_s and B with which (5) comes nearest to all samples, by least squares of relative errors;
// neither is below 0. Needs samples of more than one chunk to tell t_s from B.
LinkModel fit_chains(std::span<const ChainSample> samples);

}  // namespace sennit::models
