// Calls and groups in the C ABI.
#include "capi/calls.hpp"

#include "capi/groups.hpp"
#include "capi/guard.hpp"
#include "capi/handles.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sennit {
namespace {

static_assert(SENNIT_ANY_RANK == kAnyRank);

Result<sennit_call_options_t> read_options(const sennit_call_options_t& options) {
  sennit_call_options_t full = SENNIT_CALL_OPTIONS_INITIALIZER;
  if (options.struct_size < sizeof(std::size_t)) {
    return fail(Code::kInvalidArgument,
                "the options were not set by SENNIT_CALL_OPTIONS_INITIALIZER");
  }
  std::memcpy(&full, &options, std::min(options.struct_size, sizeof(full)));
  return full;
}

Result<RmsNorm> read_rms_norm(const sennit_rms_norm_t& given) {
  sennit_rms_norm_t full = SENNIT_RMS_NORM_INITIALIZER;
  if (given.struct_size < sizeof(std::size_t)) {
    return fail(Code::kInvalidArgument, "rms_norm was not set by SENNIT_RMS_NORM_INITIALIZER");
  }
  std::memcpy(&full, &given, std::min(given.struct_size, sizeof(full)));
  if (full.row_elements > static_cast<std::size_t>(RmsNorm::kMostElements)) {
    return fail(Code::kInvalidArgument,
                "rms_norm of rows of {} elements; they have up to {}",
                full.row_elements,
                RmsNorm::kMostElements);
  }
  return RmsNorm{.row_elements = static_cast<std::int64_t>(full.row_elements),
                 .epsilon = static_cast<float>(full.epsilon),
                 .residual = full.residual,
                 .weight = full.weight,
                 .quantized = full.quantized,
                 .scale = full.scale};
}

Status set_request(const sennit_call_options_t& options, Operation& operation) {
  if (options.device_blocks < 0 || options.device_blocks > CommConfig::kMostDeviceBlocks) {
    return fail(Code::kInvalidArgument,
                "device_blocks of a call is {}; it is from 1 to {}, or 0 for those of the "
                "communicator",
                options.device_blocks,
                CommConfig::kMostDeviceBlocks);
  }
  const auto text = [](const char* value) { return std::string(value == nullptr ? "" : value); };
  operation.request = {.algorithm = text(options.algorithm),
                       .path = text(options.path),
                       .protocol = text(options.protocol),
                       .tile_bytes = options.tile_bytes,
                       .rank_order = options.reproducible != 0,
                       .codec = text(options.codec),
                       .device_blocks = options.device_blocks};
  operation.deadline_s = options.deadline_s;
  operation.tag = options.tag;
  if (options.rms_norm != nullptr) {
    SENNIT_ASSIGN_OR_RETURN(operation.rms_norm, read_rms_norm(*options.rms_norm));
  }
  return {};
}

Result<std::shared_ptr<Work>> post(sennit_comm_t comm, const Operation& operation) {
  const auto guard = comm->engine->lock();
  auto prepared = comm->comm->prepare(operation);
  if (prepared.ok()) {
    comm->engine->post(*comm->comm, *prepared);
  }
  return prepared;
}

sennit_work_t new_handle(sennit_comm_t comm) {
  return new sennit_work{
      .owner = comm, .comm = comm->comm, .engine = comm->engine, .work = {}, .in_stream = {}};
}

Status wait_for(sennit_comm_t comm, const Work& work) {
  comm->engine->run_until(*comm->comm, work, Clock::duration::max());
  return work.status;
}

Status enqueue(sennit_comm_t comm, GpuComm::Call&& call, sennit_work_t* wanted) {
  if (wanted == nullptr) {
    return comm->device->enqueue({&call, 1});
  }
  std::unique_ptr<sennit_work> handle(new_handle(comm));
  SENNIT_RETURN_IF_ERROR(prepare_device_work(*handle, call.operation, call.stream));
  call.completion = handle->in_stream->completion();
  SENNIT_RETURN_IF_ERROR(comm->device->enqueue({&call, 1}));
  *wanted = handle.release();
  return {};
}

// One call: into the open group, or made now; waited for unless the caller took a work.
Status submit(sennit_comm_t comm,
              Operation&& operation,
              void* stream,
              const sennit_call_options_t* given) {
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  sennit_work_t* wanted = nullptr;
  if (stream != nullptr && comm->device == nullptr) {
    return fail(Code::kInvalidUsage,
                "a stream was passed, but communicator '{}' joins host ranks; pass NULL, or "
                "set SENNIT_DEVICE=cuda before it is made",
                comm->config.name);
  }
  if (given != nullptr) {
    SENNIT_ASSIGN_OR_RETURN(const sennit_call_options_t options, read_options(*given));
    SENNIT_RETURN_IF_ERROR(set_request(options, operation));
    wanted = options.work;
  }
  if (operation.rms_norm && comm->device == nullptr) {
    return fail(
        Code::kUnsupported,
        "{} with rms_norm on communicator '{}', which joins host ranks: it is for GPU ranks",
        name_of(operation),
        comm->config.name);
  }
  if (comm->device != nullptr && (operation.tag != 0 || operation.peer == kAnyRank)) {
    return fail(
        Code::kUnsupported,
        "{} on communicator '{}': tags and recvs from any rank are for host ranks; GPU ranks "
        "name the peer, and make the sends and recvs of two ranks in one order on both",
        name_of(operation),
        comm->config.name);
  }
  if (group().depth > 0) {
    sennit_work_t handle = wanted != nullptr ? new_handle(comm) : nullptr;
    group().entries.emplace_back(comm, std::move(operation), stream, handle);
    if (wanted != nullptr) {
      *wanted = handle;
    }
    return {};
  }
  if (comm->device != nullptr) {
    return enqueue(comm, {std::move(operation), stream}, wanted);
  }
  SENNIT_ASSIGN_OR_RETURN(const std::shared_ptr<Work> work, post(comm, operation));
  if (wanted == nullptr) {
    return wait_for(comm, *work);
  }
  *wanted = new_handle(comm);
  (*wanted)->work = work;
  comm->engine->push();
  return {};
}

// Converts the ABI's types; everything that depends on the communicator is checked later.
Result<Operation> to_operation(const PlainCall& a, sennit_comm_t comm) {
  Operation operation;
  operation.collective = a.collective;
  operation.send = a.send;
  operation.recv = a.recv;
  if (a.count > static_cast<std::size_t>(INT64_MAX)) {
    return fail(Code::kInvalidArgument, "a count of {} is out of range", a.count);
  }
  operation.count = static_cast<std::int64_t>(a.count);
  SENNIT_ASSIGN_OR_RETURN(operation.dtype, dtype_from_value(a.dtype));
  if (is_reduction(a.collective)) {
    SENNIT_RETURN_IF_ERROR(set_operator(a.op, comm, operation));
  }
  operation.root = a.root;
  return operation;
}

// Waited for, and without any request; what a later version of the ABI adds may be one.
bool is_plain(const sennit_call_options_t* options) {
  return options == nullptr ||
         (options->struct_size == sizeof(*options) && options->algorithm == nullptr &&
          options->path == nullptr && options->protocol == nullptr && options->tile_bytes == 0 &&
          options->reproducible == 0 && options->codec == nullptr && options->deadline_s == 0 &&
          options->work == nullptr && options->tag == 0 && options->rms_norm == nullptr &&
          options->device_blocks == 0);
}

// Most calls are like one that was made before.
std::optional<Status> call_quickly(const PlainCall& what, sennit_comm_t comm) {
  const bool may_be_quick =
      comm != nullptr && comm->comm != nullptr && comm->device == nullptr && group().depth == 0;
  return may_be_quick ? comm->engine->run_quick(*comm->comm, what) : std::nullopt;
}

sennit_status_t call(const PlainCall& what,
                     sennit_comm_t comm,
                     void* stream,
                     const sennit_call_options_t* options) {
  return guard([&]() -> Status {
    if (stream == nullptr && is_plain(options)) {
      if (std::optional<Status> status = call_quickly(what, comm)) {
        return *std::move(status);
      }
    }
    return make_call(to_operation(what, comm), comm, stream, options);
  });
}

// The other rank of a message, and which end of it this rank is.
struct Peer {
  int rank = -1;
  bool is_send = false;
};

sennit_status_t exchange(const PlainCall& what,
                         const Peer& peer,
                         sennit_comm_t comm,
                         void* stream,
                         const sennit_call_options_t* options) {
  return guard([&]() -> Status {
    Result<Operation> operation = to_operation(what, comm);
    if (operation.ok()) {
      operation->peer = peer.rank;
      operation->is_send = peer.is_send;
    }
    return make_call(std::move(operation), comm, stream, options);
  });
}

}  // namespace

Status make_call(Result<Operation>&& operation,
                 sennit_comm_t comm,
                 void* stream,
                 const sennit_call_options_t* options) {
  Status status = operation.ok() ? submit(comm, std::move(operation).value(), stream, options)
                                 : operation.status();
  if (!status.ok() && group().depth > 0 && group().failure.ok()) {
    group().failure = status;
  }
  return status;
}
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_all_reduce(const void* send,
                                  void* recv,
                                  size_t count,
                                  sennit_dtype_t dtype,
                                  sennit_redop_t op,
                                  sennit_comm_t comm,
                                  void* stream,
                                  const sennit_call_options_t* options) {
  return call({.collective = Collective::kAllReduce,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype,
               .op = op},
              comm,
              stream,
              options);
}

sennit_status_t sennit_reduce(const void* send,
                              void* recv,
                              size_t count,
                              sennit_dtype_t dtype,
                              sennit_redop_t op,
                              int root,
                              sennit_comm_t comm,
                              void* stream,
                              const sennit_call_options_t* options) {
  return call({.collective = Collective::kReduce,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype,
               .op = op,
               .root = root},
              comm,
              stream,
              options);
}

sennit_status_t sennit_broadcast(const void* send,
                                 void* recv,
                                 size_t count,
                                 sennit_dtype_t dtype,
                                 int root,
                                 sennit_comm_t comm,
                                 void* stream,
                                 const sennit_call_options_t* options) {
  return call({.collective = Collective::kBroadcast,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype,
               .root = root},
              comm,
              stream,
              options);
}

sennit_status_t sennit_all_gather(const void* send,
                                  void* recv,
                                  size_t count,
                                  sennit_dtype_t dtype,
                                  sennit_comm_t comm,
                                  void* stream,
                                  const sennit_call_options_t* options) {
  return call({.collective = Collective::kAllGather,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype},
              comm,
              stream,
              options);
}

sennit_status_t sennit_reduce_scatter(const void* send,
                                      void* recv,
                                      size_t count,
                                      sennit_dtype_t dtype,
                                      sennit_redop_t op,
                                      sennit_comm_t comm,
                                      void* stream,
                                      const sennit_call_options_t* options) {
  return call({.collective = Collective::kReduceScatter,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype,
               .op = op},
              comm,
              stream,
              options);
}

sennit_status_t sennit_all_to_all(const void* send,
                                  void* recv,
                                  size_t count,
                                  sennit_dtype_t dtype,
                                  sennit_comm_t comm,
                                  void* stream,
                                  const sennit_call_options_t* options) {
  return call({.collective = Collective::kAllToAll,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype},
              comm,
              stream,
              options);
}

sennit_status_t sennit_gather(const void* send,
                              void* recv,
                              size_t count,
                              sennit_dtype_t dtype,
                              int root,
                              sennit_comm_t comm,
                              void* stream,
                              const sennit_call_options_t* options) {
  return call({.collective = Collective::kGather,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype,
               .root = root},
              comm,
              stream,
              options);
}

sennit_status_t sennit_scatter(const void* send,
                               void* recv,
                               size_t count,
                               sennit_dtype_t dtype,
                               int root,
                               sennit_comm_t comm,
                               void* stream,
                               const sennit_call_options_t* options) {
  return call({.collective = Collective::kScatter,
               .send = send,
               .recv = recv,
               .count = count,
               .dtype = dtype,
               .root = root},
              comm,
              stream,
              options);
}

sennit_status_t sennit_barrier(sennit_comm_t comm,
                               void* stream,
                               const sennit_call_options_t* options) {
  return call({.collective = Collective::kBarrier, .dtype = SENNIT_UINT8}, comm, stream, options);
}

sennit_status_t sennit_send(const void* send,
                            size_t count,
                            sennit_dtype_t dtype,
                            int peer,
                            sennit_comm_t comm,
                            void* stream,
                            const sennit_call_options_t* options) {
  return exchange(
      {.collective = Collective::kSendRecv, .send = send, .count = count, .dtype = dtype},
      {.rank = peer, .is_send = true},
      comm,
      stream,
      options);
}

sennit_status_t sennit_recv(void* recv,
                            size_t count,
                            sennit_dtype_t dtype,
                            int peer,
                            sennit_comm_t comm,
                            void* stream,
                            const sennit_call_options_t* options) {
  return exchange(
      {.collective = Collective::kSendRecv, .recv = recv, .count = count, .dtype = dtype},
      {.rank = peer, .is_send = false},
      comm,
      stream,
      options);
}

sennit_status_t sennit_group_start(void) {
  return guard([]() -> Status {
    ++group().depth;
    return {};
  });
}

sennit_status_t sennit_group_end(void) {
  return guard([]() -> Status {
    if (group().depth == 0) {
      return fail(Code::kInvalidUsage, "sennit_group_end without sennit_group_start");
    }
    return --group().depth > 0 ? Status() : end_group();
  });
}

}  // extern "C"
