// One case of the conformance tests, and all of them: the product of the tables.
#pragma once

#include "algo/algorithm.hpp"
#include "types/types.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sennit::tests {

inline constexpr std::array kRankCounts = {1, 2, 3, 4, 5, 7, 8, 16};
inline constexpr std::int64_t kTileBytes = 128;

// Which ranks work in place.
enum class Placement : std::uint8_t { kNone, kAll, kOddRanks };

// What the inputs hold: numbers that tell rank and index, or random ones of many exponents.
enum class Values : std::uint8_t { kEncoded, kRandom };

struct Case {
  const Algorithm* algorithm;
  int ranks;
  int root;
  Dtype dtype;
  ReduceOp op;
  Placement placement;
  Values values;
  std::int64_t count;
  bool direct;
  std::string_view nodes{};  // rank r is on the one that nodes[r] names; empty: all on one

  [[nodiscard]] Collective collective() const { return algorithm->collective; }
};

std::string describe(const Case& c);

// Every combination of the tables.
std::vector<Case> all_cases();
// Those of ranks on these nodes, whose text outlives them.
std::vector<Case> all_cases_on(std::string_view nodes);
// How many that must be, by multiplying the lengths of the tables.
std::size_t product_of_the_tables();

// Elements of a rank's buffers.
std::int64_t input_elements(const Case& c, int rank);
std::int64_t output_elements(const Case& c, int rank);
bool is_in_place(const Case& c, int rank);

// Whether the library must refuse the case by name instead of running it: as a function of what its
// plan is proved to be, not of what it computes.
bool must_be_refused(const Case& c);

}  // namespace sennit::tests
