#include "comm/scaled_ops.hpp"

namespace sennit {

int ScaledOps::create(const ScaledOp& op) {
  ops_.emplace(next_, op);
  return next_++;
}

Result<ScaledOp> ScaledOps::find(int number) const {
  const auto op = ops_.find(number);
  if (op == ops_.end()) {
    return fail(Code::kInvalidArgument,
                "the communicator has no operator {}: it was not made here, or destroyed",
                number);
  }
  return op->second;
}

Status ScaledOps::destroy(int number) {
  SENNIT_RETURN_IF_ERROR(find(number).status());
  ops_.erase(number);
  return {};
}

}  // namespace sennit
