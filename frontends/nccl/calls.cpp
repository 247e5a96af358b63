// Collectives, sends and receives, operators and registration.
#include "communicator.hpp"
#include "group.hpp"
#include "several_nodes.hpp"
#include "stopwatch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sennit_nccl {
namespace {

// What a caller says a call moves.
struct Elements {
  std::size_t count;
  ncclDataType_t type;
};

std::uint64_t bytes_of(const Elements& elements) {
  static constexpr std::array<std::size_t, ncclNumTypes> kBytes = {
      1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return elements.count * kBytes.at(static_cast<std::size_t>(elements.type));
}

std::optional<sennit_dtype_t> dtype_of(ncclDataType_t type) {
  static constexpr std::array<sennit_dtype_t, ncclNumTypes> kTypes = {SENNIT_INT8,
                                                                      SENNIT_UINT8,
                                                                      SENNIT_INT32,
                                                                      SENNIT_UINT32,
                                                                      SENNIT_INT64,
                                                                      SENNIT_UINT64,
                                                                      SENNIT_FLOAT16,
                                                                      SENNIT_FLOAT32,
                                                                      SENNIT_FLOAT64,
                                                                      SENNIT_BFLOAT16,
                                                                      SENNIT_FLOAT8_E4M3FN,
                                                                      SENNIT_FLOAT8_E5M2};
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? std::optional(kTypes[index]) : std::nullopt;
}

// Operators that were made have the same values in both interfaces.
std::optional<sennit_redop_t> operator_of(ncclRedOp_t op) {
  static constexpr std::array<sennit_redop_t, ncclNumOps> kOperators = {
      SENNIT_SUM, SENNIT_PROD, SENNIT_MAX, SENNIT_MIN, SENNIT_AVG};
  const auto index = static_cast<std::size_t>(op);
  if (index < kOperators.size()) {
    return kOperators[index];
  }
  return static_cast<int>(op) >= static_cast<int>(SENNIT_REDOP_CUSTOM_FIRST)
             ? std::optional(static_cast<sennit_redop_t>(op))
             : std::nullopt;
}

// Runs what needs a type that is known.
template <typename Run>
ncclResult_t typed(ncclComm_t comm, ncclDataType_t type, Run&& run) {
  const auto dtype = dtype_of(type);
  if (!dtype) {
    return refuse(ncclInvalidArgument,
                  "data type " + std::to_string(static_cast<int>(type)) + " is none");
  }
  return on(comm, [&](sennit_comm_t c) {
    hold_until_end(comm);
    return run(c, *dtype);
  });
}

void count(ncclComm_t comm, const Elements& elements, const Stopwatch& watch) {
  comm->calls.fetch_add(1, std::memory_order_relaxed);
  comm->bytes.fetch_add(bytes_of(elements), std::memory_order_relaxed);
  watch.count(bytes_of(elements), nullptr, comm->comm);
}

// Runs a call, and counts it if it was taken, by the name of the function that calls this.
template <typename Run>
ncclResult_t moving(ncclComm_t comm,
                    const Elements& elements,
                    Run&& run,
                    const char* name = __builtin_FUNCTION()) {
  const Stopwatch watch(name);
  return of_group(typed(comm, elements.type, [&](sennit_comm_t c, sennit_dtype_t dtype) {
    const sennit_status_t status = run(c, dtype);
    if (status == SENNIT_OK || status == SENNIT_IN_PROGRESS) {
      count(comm, elements, watch);
    }
    return status;
  }));
}

// Runs a reduction whose type and operator are known.
template <typename Run>
ncclResult_t reducing(ncclComm_t comm,
                      const Elements& elements,
                      ncclRedOp_t op,
                      Run&& run,
                      const char* name = __builtin_FUNCTION()) {
  const auto redop = operator_of(op);
  if (!redop) {
    return of_group(
        refuse(ncclInvalidArgument,
               "reduction operator " + std::to_string(static_cast<int>(op)) + " is none"));
  }
  return moving(
      comm,
      elements,
      [&](sennit_comm_t c, sennit_dtype_t dtype) { return run(c, dtype, *redop); },
      name);
}

}  // namespace
}  // namespace sennit_nccl

using namespace sennit_nccl;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

ncclResult_t ncclAllReduce(const void* send,
                           void* recv,
                           size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclAllReduce>(
        "ncclAllReduce", comm, send, recv, count, type, op, comm->companion, stream);
  }
  return reducing(comm, {count, type}, op, [&](auto c, auto dtype, auto redop) {
    return sennit_all_reduce(send, recv, count, dtype, redop, c, stream, nullptr);
  });
}

ncclResult_t ncclReduce(const void* send,
                        void* recv,
                        size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t op,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclReduce>(
        "ncclReduce", comm, send, recv, count, type, op, root, comm->companion, stream);
  }
  return reducing(comm, {count, type}, op, [&](auto c, auto dtype, auto redop) {
    return sennit_reduce(send, recv, count, dtype, redop, root, c, stream, nullptr);
  });
}

ncclResult_t ncclBroadcast(const void* send,
                           void* recv,
                           size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclBroadcast>(
        "ncclBroadcast", comm, send, recv, count, type, root, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_broadcast(send, recv, count, dtype, root, c, stream, nullptr);
  });
}

ncclResult_t ncclBcast(void* buffer,
                       size_t count,
                       ncclDataType_t type,
                       int root,
                       ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* send,
                           void* recv,
                           size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclAllGather>(
        "ncclAllGather", comm, send, recv, count, type, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_all_gather(send, recv, count, dtype, c, stream, nullptr);
  });
}

ncclResult_t ncclReduceScatter(const void* send,
                               void* recv,
                               size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t op,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclReduceScatter>(
        "ncclReduceScatter", comm, send, recv, count, type, op, comm->companion, stream);
  }
  return reducing(comm, {count, type}, op, [&](auto c, auto dtype, auto redop) {
    return sennit_reduce_scatter(send, recv, count, dtype, redop, c, stream, nullptr);
  });
}

ncclResult_t ncclAlltoAll(const void* send,
                          void* recv,
                          size_t count,
                          ncclDataType_t type,
                          ncclComm_t comm,
                          cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclAlltoAll>(
        "ncclAlltoAll", comm, send, recv, count, type, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_all_to_all(send, recv, count, dtype, c, stream, nullptr);
  });
}

ncclResult_t ncclGather(const void* send,
                        void* recv,
                        size_t count,
                        ncclDataType_t type,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclGather>(
        "ncclGather", comm, send, recv, count, type, root, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_gather(send, recv, count, dtype, root, c, stream, nullptr);
  });
}

ncclResult_t ncclScatter(const void* send,
                         void* recv,
                         size_t count,
                         ncclDataType_t type,
                         int root,
                         ncclComm_t comm,
                         cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclScatter>(
        "ncclScatter", comm, send, recv, count, type, root, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_scatter(send, recv, count, dtype, root, c, stream, nullptr);
  });
}

ncclResult_t ncclSend(const void* send,
                      size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclSend>("ncclSend", comm, send, count, type, peer, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_send(send, count, dtype, peer, c, stream, nullptr);
  });
}

ncclResult_t ncclRecv(
    void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclRecv>("ncclRecv", comm, recv, count, type, peer, comm->companion, stream);
  }
  return moving(comm, {count, type}, [&](auto c, auto dtype) {
    return sennit_recv(recv, count, dtype, peer, c, stream, nullptr);
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op,
                                      void* scalar,
                                      ncclDataType_t type,
                                      ncclScalarResidence_t residence,
                                      ncclComm_t comm) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclRedOpCreatePreMulSum>(
        "ncclRedOpCreatePreMulSum", comm, op, scalar, type, residence, comm->companion);
  }
  if (op == nullptr || scalar == nullptr) {
    return refuse(ncclInvalidArgument, "the result pointer or the scalar is NULL");
  }
  sennit_redop_t made = SENNIT_SUM;
  const ncclResult_t result = typed(comm, type, [&](auto c, auto dtype) {
    // Host ranks stand in for GPUs in tests: what NCCL calls device memory is host memory there.
    int device = -1;
    sennit_comm_device(c, &device);
    const bool is_read_later = residence == ncclScalarDevice && device >= 0;
    return is_read_later ? sennit_redop_create_premulsum_on_device(&made, scalar, dtype, c)
                         : sennit_redop_create_premulsum(&made, scalar, dtype, c);
  });
  *op = static_cast<ncclRedOp_t>(made);
  return result;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclRedOpDestroy>("ncclRedOpDestroy", comm, op, comm->companion);
  }
  return on(comm, [&](sennit_comm_t c) {
    return sennit_redop_destroy(static_cast<sennit_redop_t>(op), c);
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclCommRegister>(
        "ncclCommRegister", comm, comm->companion, buffer, bytes, handle);
  }
  return on(comm, [&](sennit_comm_t c) { return sennit_comm_register(c, buffer, bytes, handle); });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (is_passed_on(comm)) {
    return pass_on<&ncclCommDeregister>("ncclCommDeregister", comm, comm->companion, handle);
  }
  return on(comm, [&](sennit_comm_t c) { return sennit_comm_deregister(c, handle); });
}

}  // extern "C"

SENNIT_NCCL_TWIN(ncclAllReduce);
SENNIT_NCCL_TWIN(ncclReduce);
SENNIT_NCCL_TWIN(ncclBroadcast);
SENNIT_NCCL_TWIN(ncclBcast);
SENNIT_NCCL_TWIN(ncclAllGather);
SENNIT_NCCL_TWIN(ncclReduceScatter);
SENNIT_NCCL_TWIN(ncclAlltoAll);
SENNIT_NCCL_TWIN(ncclGather);
SENNIT_NCCL_TWIN(ncclScatter);
SENNIT_NCCL_TWIN(ncclSend);
SENNIT_NCCL_TWIN(ncclRecv);
SENNIT_NCCL_TWIN(ncclRedOpCreatePreMulSum);
SENNIT_NCCL_TWIN(ncclRedOpDestroy);
SENNIT_NCCL_TWIN(ncclCommRegister);
SENNIT_NCCL_TWIN(ncclCommDeregister);
