#include "algo/all_to_all/all_to_all.hpp"

#include <array>

namespace sennit::algo::all_to_all {

std::span<const Algorithm> table() {
  static const std::array kRows = {direct(), pairwise(), bruck(), multi_rail()};
  return kRows;
}

}  // namespace sennit::algo::all_to_all
