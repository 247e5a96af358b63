// The calls that reduce: taken where type and operator are predefined and the library has the pair.
// MPI wants both, and the count, to be equal on all ranks.
#pragma once

#include "buffers.hpp"
#include "calls.hpp"

#include "sennit/sennit.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sennit_mpi {

constexpr const char* kNoReduction = "a type or operator that the library has not";

template <class Abi, class N, class D>
int Calls<Abi, N, D>::all_reduce(
    const void* send, void* recv, N count, Type type, Op op, Comm comm) {
  if (Taken* const taken = front().taking(comm, Call::kAllreduce)) {
    const auto reduction = datatypes().reduction_of(type, op);
    if (reduction && count >= 0 && !is_in_place(recv)) {
      const auto elements = static_cast<std::size_t>(count);
      return front().finish(*taken,
                            sennit_all_reduce(is_in_place(send) ? recv : send,
                                              recv,
                                              elements,
                                              reduction->dtype,
                                              reduction->op,
                                              taken->engine,
                                              nullptr,
                                              nullptr),
                            elements * reduction->bytes);
    }
    front().share.pass(kNoReduction);
  }
  return SENNIT_MPI_PASS(all_reduce, no_entries(), send, recv, count, type, op, comm);
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::reduce(
    const void* send, void* recv, N count, Type type, Op op, int root, Comm comm) {
  if (Taken* const taken = front().taking(comm, Call::kReduce)) {
    const auto reduction = datatypes().reduction_of(type, op);
    if (reduction && count >= 0 && is_rank(root, *taken)) {
      const auto elements = static_cast<std::size_t>(count);
      return front().finish(*taken,
                            sennit_reduce(is_in_place(send) ? recv : send,
                                          recv,
                                          elements,
                                          reduction->dtype,
                                          reduction->op,
                                          root,
                                          taken->engine,
                                          nullptr,
                                          nullptr),
                            elements * reduction->bytes);
    }
    front().share.pass(kNoReduction);
  }
  return SENNIT_MPI_PASS(reduce, no_entries(), send, recv, count, type, op, root, comm);
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::reduce_scatter_evenly(
    Taken& taken, const void* send, void* recv, std::int64_t count, const Reduction& reduction) {
  const auto elements = static_cast<std::size_t>(count);
  const std::size_t bytes = elements * reduction.bytes;
  // In place MPI wants the block where the buffer begins, and the rest of the buffer unchanged.
  const bool in_place = is_in_place(send);
  const Memory block = in_place ? new_memory(bytes) : nullptr;
  const sennit_status_t status = sennit_reduce_scatter(in_place ? recv : send,
                                                       in_place ? block.get() : recv,
                                                       elements,
                                                       reduction.dtype,
                                                       reduction.op,
                                                       taken.engine,
                                                       nullptr,
                                                       nullptr);
  if (in_place && bytes > 0 && status == SENNIT_OK) {
    std::memcpy(recv, block.get(), bytes);
  }
  return front().finish(taken, status, bytes);
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::reduce_scatter_block(
    const void* send, void* recv, N recv_count, Type type, Op op, Comm comm) {
  if (Taken* const taken = front().taking(comm, Call::kReduce_scatter_block)) {
    const auto reduction = datatypes().reduction_of(type, op);
    if (reduction && recv_count >= 0 && !is_in_place(recv)) {
      return reduce_scatter_evenly(*taken, send, recv, recv_count, *reduction);
    }
    front().share.pass(kNoReduction);
  }
  return SENNIT_MPI_PASS(
      reduce_scatter_block, no_entries(), send, recv, recv_count, type, op, comm);
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::reduce_scatter(
    const void* send, void* recv, const N* recv_counts, Type type, Op op, Comm comm) {
  if (Taken* const taken = front().taking(comm, Call::kReduce_scatter)) {
    const auto reduction = datatypes().reduction_of(type, op);
    const bool are_equal = recv_counts != nullptr && recv_counts[0] >= 0 &&
                           std::all_of(recv_counts, recv_counts + taken->size, [&](N count) {
                             return count == recv_counts[0];
                           });
    if (reduction && are_equal && !is_in_place(recv)) {
      return reduce_scatter_evenly(*taken, send, recv, recv_counts[0], *reduction);
    }
    front().share.pass(are_equal ? kNoReduction : "MPI_Reduce_scatter with different counts");
  }
  return SENNIT_MPI_PASS(
      reduce_scatter, entry_a_member(comm), send, recv, recv_counts, type, op, comm);
}

}  // namespace sennit_mpi
