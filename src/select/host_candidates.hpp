// HostCandidates: what host ranks could run for a call, with prediction, measurement and choice.
#pragma once

#include "select/select.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

struct HostCandidate {
  const Algorithm* algorithm = nullptr;
  bool direct = false;
  std::optional<double> predicted_us{};  // by the pipeline model, where the table has a fit
  std::int64_t predicted_tile = 0;
  std::optional<double> measured_us{};  // of the table's nearest cell, the best tile
  std::int64_t measured_tile = 0;
  std::int64_t measured_bytes = 0;
  std::string refused{};  // why it does not run; the other fields are then empty
};

struct HostCandidates {
  std::vector<HostCandidate> candidates;  // measured ones first, then predicted ones, best first
  Choice choice;
  std::string reason;  // why it is the choice, in a sentence
};

// What choose() takes, and all it could have taken.
Result<HostCandidates> host_candidates(Collective collective,
                                       const Shape& shape,
                                       std::int64_t bytes,
                                       const HostFacts& facts);

}  // namespace sennit
