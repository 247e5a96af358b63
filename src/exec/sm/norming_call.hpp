// NormingCall: an all_reduce of one hop that normalises the rows of its sum (exec/row_norm.hpp) in
// the same kernel. A thread block has whole rows: it exchanges one in rounds of a packet a warp,
// and knows all of it then.
#pragma once

#include "exec/row_norm.hpp"
#include "exec/sm/small_call.hpp"

namespace sennit::sm {

struct NormingCall {
  SmallCall exchange;
  RowNormCall norm;
};

// An all_reduce; false if its rows cannot be exchanged so: it goes through memory of the host, or
// in two hops.
bool make_norming(const DirectCall& call, const RowNormCall& norm, NormingCall& norming);

}  // namespace sennit::sm
