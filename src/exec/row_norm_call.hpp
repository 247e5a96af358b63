// The parameter of a kernel that normalises rows, from the call that asks for it.
#pragma once

#include "exec/row_norm.hpp"
#include "world/operation.hpp"

namespace sennit {

// Of a call with rms_norm.
RowNormCall row_norm_call(const Operation& operation);

}  // namespace sennit
