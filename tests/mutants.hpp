// For tests: schedules with one small mistake, of the kinds that people and passes make.
#pragma once

#include "schedule/schedule.hpp"

#include <random>
#include <span>
#include <string_view>

namespace sennit::tests {

using Random = std::mt19937;

inline int pick(Random& random, int count) {
  return std::uniform_int_distribution(0, count - 1)(random);
}

struct Mutant {
  Schedule schedule;
  int slots = 2;  // of each channel
};

struct MutantKind {
  std::string_view name;
  // Makes the mistake somewhere; false when there is no place for it. What comes out may not even
  // pass check_structure.
  bool (*apply)(Random& random, Mutant& mutant);
  std::string_view may_be_right;  // why some of them are no mistake; empty: none is
};

std::span<const MutantKind> mutant_kinds();

}  // namespace sennit::tests
