// Operators with a scalar of their own, which a communicator knows by numbers.
#include "comm/communicator.hpp"

namespace sennit {

int Communicator::create_op(const ScaledOp& op) {
  ops_.emplace(next_op_, op);
  return next_op_++;
}

Result<Communicator::ScaledOp> Communicator::find_op(int number) const {
  const auto op = ops_.find(number);
  if (op == ops_.end()) {
    return sennit::fail(Code::kInvalidArgument,
                        "communicator '{}' has no operator {}: it was not made here, or destroyed",
                        config_.name,
                        number);
  }
  return op->second;
}

Status Communicator::destroy_op(int number) {
  SENNIT_RETURN_IF_ERROR(find_op(number).status());
  ops_.erase(number);
  return {};
}

}  // namespace sennit
