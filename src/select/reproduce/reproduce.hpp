// reproduce(): what five papers print, next to what the simulator and the models say on the
// machines of those papers.
//
//   for (const Reproduction& row : reproduce(std::nullopt, find_machine).value()) { ... }
//
// Nothing is fitted to a verdict: all rows of a paper read one machine file, and where the paper
// chose a parameter by measurement (a share, a chunk), the row takes the best of a grid.
#pragma once

#include "machine/topology.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

enum class How : std::uint8_t {
  kSimulated,
  kModel,
  kCoded,  // values went through the codec
};

enum class Verdict : std::uint8_t {
  kReproduced,  // within the row's tolerance
  kShapeOnly,   // the same winner, but another factor; or nothing is printed to compare with
  kNotReproduced,
};

struct Reproduction {
  int paper = 0;
  std::string figure;  // where the paper says so
  std::string quantity;
  std::string unit;  // "x": how many times better than the rival that `quantity` names
  std::optional<double> paper_value;
  double ours = 0;
  double tolerance = 0;  // of the larger of the two values over the smaller, from 1
  How how = How::kSimulated;
  std::string machine;
  Verdict verdict = Verdict::kNotReproduced;
  std::string why;  // what stands behind the number, and behind a difference
};

using MachineSource = std::function<Result<Topology>(std::string_view name)>;

inline constexpr int kPapers = 5;

// Of one paper, or of all.
Result<std::vector<Reproduction>> reproduce(std::optional<int> paper,
                                            const MachineSource& machines);

std::string_view name(How how);
std::string_view name(Verdict verdict);

}  // namespace sennit
