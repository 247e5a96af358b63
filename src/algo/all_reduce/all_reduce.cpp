#include "algo/all_reduce/all_reduce.hpp"

#include <array>

namespace sennit::algo::all_reduce {

std::span<const Algorithm> table() {
  static const std::array kRows = {ring(),
                                   recursive_doubling(),
                                   halving_doubling(),
                                   two_shot(),
                                   one_shot(),
                                   hierarchical(),
                                   hierarchical_sliced(),
                                   hierarchical_shares(),
                                   shared_buffer(),
                                   leader()};
  return kRows;
}

}  // namespace sennit::algo::all_reduce
