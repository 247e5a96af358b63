// Candidates: every algorithm of a collective on a described machine, with what the simulator
// predicts, best first. The first of them is the choice.
#pragma once

#include "algo/algorithm.hpp"
#include "machine/path.hpp"
#include "machine/topology.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sennit {

struct Candidate {
  const Algorithm* algorithm = nullptr;
  std::int64_t tile_bytes = 0;
  double seconds = 0;
  std::string busiest_link{};  // by use over the run
  double busiest_use = 0;      // 0 to 1
  std::string refused{};       // why it does not run here; the other fields are then empty
};

struct Candidates {
  std::vector<Candidate> ranked;  // best first; equal ones as in the table of algorithms
  std::vector<Candidate> refused;

  // Why the first won, in a sentence.
  [[nodiscard]] std::string reason() const;
};

struct CandidateRequest {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  int ranks_per_device = 1;
  std::int64_t bytes = 0;
  std::vector<Path> paths{};  // see MachinePlanRequest
};

// Each algorithm is tried with the tile of the pipeline model and with its neighbours, a quarter
// and four times as large.
Candidates rank_candidates(const CandidateRequest& request, const Topology& machine);

}  // namespace sennit
