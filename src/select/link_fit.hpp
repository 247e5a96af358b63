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
// neither is below 0. Needs samples of more than one chunk to separate t_s from B.
LinkModel fit_chains(std::span<const ChainSample> samples);

struct SharedLink {
  LinkModel link{};
  double copies = 1;
};

// The same for broadcast_shared_chain, with the number of copies that move at once: from 1, where
// the memory is full with one, to `cores`, in quarters.
SharedLink fit_shared_chains(std::span<const ChainSample> samples, int cores);

}  // namespace sennit::models
