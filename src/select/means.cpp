#include "select/device_choice.hpp"
#include "types/tables.hpp"

namespace sennit {

Means Means::of(const DeviceFacts& facts, ReduceOp op) {
  if (!has_every_kernel(op)) {
    return {.every_kernel = false};
  }
  Means means = of(facts);
  // A reader does not know the factors of other ranks.
  means.reads = means.reads && op != ReduceOp::kPremulSum;
  return means;
}

Means without(Means means, Lack lack) {
  switch (lack) {
    case Lack::kNothing:
      break;
    case Lack::kCopyEngines:
      means.copy_engines = false;
      [[fallthrough]];
    case Lack::kHostRings:
      means.host_rings = false;
      break;
    case Lack::kOneSided:
      means.one_sided = false;
      means.reads = false;
      break;
  }
  return means;
}

}  // namespace sennit
