// The calls whose lengths vary, in the C ABI.
#include "capi/calls.hpp"
#include "capi/guard.hpp"
#include "capi/handles.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sennit {
namespace {

// What the user says of one buffer: a single block at its start, or one for each rank.
struct Blocks {
  std::size_t count = 0;
  const std::size_t* counts = nullptr;
  const std::size_t* displacements = nullptr;
  bool by_rank = false;
  bool used = true;
};

// Far above any memory, and far below where sums over ranks or bytes overflow.
constexpr std::size_t kLargest = std::size_t{1} << 44;

Result<std::int64_t> to_int64(std::size_t value) {
  if (value > kLargest) {
    return fail(Code::kInvalidArgument, "a count or displacement of {} is out of range", value);
  }
  return static_cast<std::int64_t>(value);
}

// Without displacements the blocks lie one after the other.
Result<std::vector<ElementRange>> to_ranges(const Blocks& blocks, int ranks) {
  std::vector<ElementRange> ranges;
  if (!blocks.used) {
    return ranges;
  }
  if (!blocks.by_rank) {
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t length, to_int64(blocks.count));
    ranges.push_back({.begin = 0, .length = length});
    return ranges;
  }
  if (blocks.counts == nullptr) {
    return fail(Code::kInvalidArgument, "the counts are NULL");
  }
  std::int64_t end = 0;
  for (std::size_t r = 0; std::cmp_less(r, ranks); ++r) {
    SENNIT_ASSIGN_OR_RETURN(const std::int64_t length, to_int64(blocks.counts[r]));
    std::int64_t begin = end;
    if (blocks.displacements != nullptr) {
      SENNIT_ASSIGN_OR_RETURN(begin, to_int64(blocks.displacements[r]));
    }
    SENNIT_ASSIGN_OR_RETURN(end, to_int64(static_cast<std::size_t>(begin + length)));
    ranges.push_back({.begin = begin, .length = length});
  }
  return ranges;
}

std::int64_t elements(const std::vector<ElementRange>& ranges) {
  std::int64_t sum = 0;
  for (const ElementRange& range : ranges) {
    sum += range.length;
  }
  return sum;
}

struct VectorArguments {
  Collective collective = Collective::kAllToAll;
  const void* send = nullptr;
  Blocks input;
  void* recv = nullptr;
  Blocks output;
  int dtype = 0;
  int root = 0;
};

Result<Operation> to_operation(const VectorArguments& a, sennit_comm_t comm) {
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  const int ranks = comm->comm->size();
  Operation operation;
  operation.collective = a.collective;
  operation.send = a.send;
  operation.recv = a.recv;
  operation.varying = true;
  operation.root = a.root;
  SENNIT_ASSIGN_OR_RETURN(operation.dtype, dtype_from_value(a.dtype));
  SENNIT_ASSIGN_OR_RETURN(operation.inputs, to_ranges(a.input, ranks));
  SENNIT_ASSIGN_OR_RETURN(operation.outputs, to_ranges(a.output, ranks));
  operation.count = std::max(elements(operation.inputs), elements(operation.outputs));
  return operation;
}

sennit_status_t call(const VectorArguments& arguments,
                     sennit_comm_t comm,
                     void* stream,
                     const sennit_call_options_t* options) {
  return guard([&] { return make_call(to_operation(arguments, comm), comm, stream, options); });
}

// Which rank has blocks depends on whether it is the root. A communicator that cannot be called is
// reported by the call itself.
bool is_root(sennit_comm_t comm, int root) {
  return comm != nullptr && comm->comm != nullptr && comm->comm->rank() == root;
}

}  // namespace
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_all_gather_v(const void* send,
                                    size_t send_count,
                                    void* recv,
                                    const size_t* recv_counts,
                                    const size_t* recv_displacements,
                                    sennit_dtype_t dtype,
                                    sennit_comm_t comm,
                                    void* stream,
                                    const sennit_call_options_t* options) {
  return call(
      {.collective = Collective::kAllGather,
       .send = send,
       .input = {.count = send_count},
       .recv = recv,
       .output = {.counts = recv_counts, .displacements = recv_displacements, .by_rank = true},
       .dtype = dtype},
      comm,
      stream,
      options);
}

sennit_status_t sennit_all_to_all_v(const void* send,
                                    const size_t* send_counts,
                                    const size_t* send_displacements,
                                    void* recv,
                                    const size_t* recv_counts,
                                    const size_t* recv_displacements,
                                    sennit_dtype_t dtype,
                                    sennit_comm_t comm,
                                    void* stream,
                                    const sennit_call_options_t* options) {
  return call(
      {.collective = Collective::kAllToAll,
       .send = send,
       .input = {.counts = send_counts, .displacements = send_displacements, .by_rank = true},
       .recv = recv,
       .output = {.counts = recv_counts, .displacements = recv_displacements, .by_rank = true},
       .dtype = dtype},
      comm,
      stream,
      options);
}

sennit_status_t sennit_gather_v(const void* send,
                                size_t send_count,
                                void* recv,
                                const size_t* recv_counts,
                                const size_t* recv_displacements,
                                sennit_dtype_t dtype,
                                int root,
                                sennit_comm_t comm,
                                void* stream,
                                const sennit_call_options_t* options) {
  return call({.collective = Collective::kGather,
               .send = send,
               .input = {.count = send_count},
               .recv = recv,
               .output = {.counts = recv_counts,
                          .displacements = recv_displacements,
                          .by_rank = true,
                          .used = is_root(comm, root)},
               .dtype = dtype,
               .root = root},
              comm,
              stream,
              options);
}

sennit_status_t sennit_scatter_v(const void* send,
                                 const size_t* send_counts,
                                 const size_t* send_displacements,
                                 void* recv,
                                 size_t recv_count,
                                 sennit_dtype_t dtype,
                                 int root,
                                 sennit_comm_t comm,
                                 void* stream,
                                 const sennit_call_options_t* options) {
  return call({.collective = Collective::kScatter,
               .send = send,
               .input = {.counts = send_counts,
                         .displacements = send_displacements,
                         .by_rank = true,
                         .used = is_root(comm, root)},
               .recv = recv,
               .output = {.count = recv_count},
               .dtype = dtype,
               .root = root},
              comm,
              stream,
              options);
}

}  // extern "C"
