// Claims: what a paper prints, and how to come by the same number here.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/plan.hpp"
#include "select/reproduce/reproduce.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct Claim {
  std::string figure;
  std::string quantity;
  std::string unit;
  std::optional<double> paper_value;
  double tolerance = 0.15;
  How how = How::kSimulated;
  std::string machine;
  std::function<Result<double>(const Topology&)> ours;
  std::string why;
};

std::vector<Claim> claims_of_paper1();
std::vector<Claim> claims_of_paper2();
std::vector<Claim> claims_of_paper3();
std::vector<Claim> claims_of_paper4();
std::vector<Claim> claims_of_paper5();

// ---- What claims are computed with

inline constexpr double kMiB = 1024.0 * 1024.0;

// from, 2 from, 4 from, ... up to `to`: the sizes of most figures.
std::vector<double> doublings(double from, double to);

struct Run {
  Collective collective = Collective::kSendRecv;
  std::string_view algorithm = "direct";
  int ranks = 2;
  std::int64_t bytes = 0;
  int radix = 0;
  // Changes the plan before it runs (a second path, another width); may be empty.
  std::function<void(Plan&)> change{};
};

// Seconds of the run with tiles of `tile_bytes`, 0 for the choice of the pipeline model.
Result<double> simulated_seconds(const Topology& machine, const Run& run, std::int64_t tile_bytes);
// With the best tile among powers of two from 64 KiB to the whole message.
Result<double> best_simulated_seconds(const Topology& machine, const Run& run);
// Seconds of `rival` over seconds of `run`, each with its best tile.
Result<double> simulated_gain(const Topology& machine, const Run& run, const Run& rival);

}  // namespace sennit
