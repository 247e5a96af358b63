// For tests: calls a generic function with the C++ type of a dtype.
#pragma once

#include "types/types.hpp"

namespace sennit::tests {

// visit.template operator()<T>() for the element type of `dtype`.
template <typename Visit>
decltype(auto) with_element(Dtype dtype, Visit&& visit) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, c_type, kind) \
  case Dtype::enumerator:                                   \
    return visit.template operator()<Element<Dtype::enumerator>>();
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  __builtin_unreachable();
}

}  // namespace sennit::tests
