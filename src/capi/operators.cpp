// Operators with a scalar in the C ABI.
#include "capi/guard.hpp"
#include "capi/handles.hpp"

#include <cstring>

namespace sennit {

Status set_operator(int value, sennit_comm_t comm, Operation& operation) {
  if (value < SENNIT_REDOP_CUSTOM_FIRST) {
    SENNIT_ASSIGN_OR_RETURN(operation.op, reduce_op_from_value(value));
    return {};
  }
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  const auto guard = comm->engine->lock();
  SENNIT_ASSIGN_OR_RETURN(const ScaledOp made, comm->comm->ops().find(value));
  if (made.dtype != operation.dtype) {
    return fail(Code::kInvalidArgument,
                "the operator was made with a scalar of {}, but the call is of {}",
                name(made.dtype),
                name(operation.dtype));
  }
  operation.op = ReduceOp::kPremulSum;
  operation.scaling = made.scaling;
  operation.scalar_on_device = made.scalar_on_device;
  return {};
}

namespace {

// An operator of `dtype`, whose factor is given by `set`.
template <typename Set>
Status create_premulsum(
    sennit_redop_t* op, const void* scalar, sennit_dtype_t dtype, sennit_comm_t comm, Set&& set) {
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  if (op == nullptr || scalar == nullptr) {
    return fail(Code::kInvalidArgument, "the {} is NULL", op == nullptr ? "operator" : "scalar");
  }
  ScaledOp made;
  SENNIT_ASSIGN_OR_RETURN(made.dtype, dtype_from_value(dtype));
  SENNIT_RETURN_IF_ERROR(check_operator(made.dtype, ReduceOp::kPremulSum));
  SENNIT_RETURN_IF_ERROR(set(made));
  const auto guard = comm->engine->lock();
  *op = static_cast<sennit_redop_t>(comm->comm->ops().create(made));
  return {};
}

}  // namespace
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

static_assert(ScaledOps::kFirst == SENNIT_REDOP_CUSTOM_FIRST);

extern "C" {

sennit_status_t sennit_redop_create_premulsum(sennit_redop_t* op,
                                              const void* scalar,
                                              sennit_dtype_t dtype,
                                              sennit_comm_t comm) {
  return guard([&]() -> Status {
    return create_premulsum(op, scalar, dtype, comm, [&](ScaledOp& made) -> Status {
      std::memcpy(made.scaling.scalar.data(), scalar, size_bytes(made.dtype));
      return {};
    });
  });
}

sennit_status_t sennit_redop_create_premulsum_on_device(sennit_redop_t* op,
                                                        const void* scalar,
                                                        sennit_dtype_t dtype,
                                                        sennit_comm_t comm) {
  return guard([&]() -> Status {
    return create_premulsum(op, scalar, dtype, comm, [&](ScaledOp& made) -> Status {
      if (comm->device == nullptr) {
        return fail(Code::kInvalidUsage,
                    "a rank on host memory has no device that could read the scalar; pass it in "
                    "host memory, to sennit_redop_create_premulsum");
      }
      made.scalar_on_device = scalar;
      return {};
    });
  });
}

sennit_status_t sennit_redop_destroy(sennit_redop_t op, sennit_comm_t comm) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_comm(comm));
    const auto guard = comm->engine->lock();
    return comm->comm->ops().destroy(op);
  });
}

}  // extern "C"
