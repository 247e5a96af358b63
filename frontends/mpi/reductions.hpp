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
#include <utility>

namespace sennit_mpi {

// A reduction that is to run. `start_of` gets this, the engine and the options.
template <class Start>
struct Reducing {
  const void* send;
  void* recv;
  std::size_t elements;
  Reduction reduction;
  Start start_of;
  Memory block = nullptr;  // what is received, where it may not go straight to `recv`

  [[nodiscard]] std::size_t bytes() const { return elements * reduction.bytes; }
  sennit_status_t start(sennit_comm_t engine, const sennit_call_options_t* options) {
    return start_of(*this, block != nullptr ? block.get() : recv, engine, options);
  }
  void keep() {}
  void finish() {
    if (block != nullptr && bytes() > 0) {
      std::memcpy(recv, block.get(), bytes());
    }
  }
};

// `start_of` where the library has the reduction and the rest is valid.
template <class Abi, class N, class D>
template <class Start>
auto Calls<Abi, N, D>::prepare_reduction(const void* send,
                                         void* recv,
                                         std::int64_t count,
                                         Type type,
                                         Op op,
                                         bool is_valid,
                                         Start start) {
  const auto reduction = datatypes().reduction_of(type, op);
  return when(
      reduction && is_valid && count >= 0, "a type or operator that the library has not", [&] {
        return Reducing<Start>{.send = is_in_place(send) ? recv : send,
                               .recv = recv,
                               .elements = static_cast<std::size_t>(count),
                               .reduction = *reduction,
                               .start_of = std::move(start)};
      });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_reduce(const Taken& /*taken*/,
                                          const void* send,
                                          void* recv,
                                          N count,
                                          Type type,
                                          Op op,
                                          Comm /*comm*/) {
  return prepare_reduction(
      send,
      recv,
      count,
      type,
      op,
      !is_in_place(recv),
      [](const auto& call, void* to, sennit_comm_t engine, const sennit_call_options_t* options) {
        return sennit_all_reduce(call.send,
                                 to,
                                 call.elements,
                                 call.reduction.dtype,
                                 call.reduction.op,
                                 engine,
                                 nullptr,
                                 options);
      });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_reduce(const Taken& taken,
                                      const void* send,
                                      void* recv,
                                      N count,
                                      Type type,
                                      Op op,
                                      int root,
                                      Comm /*comm*/) {
  return prepare_reduction(
      send,
      recv,
      count,
      type,
      op,
      is_rank(root, taken),
      [root](
          const auto& call, void* to, sennit_comm_t engine, const sennit_call_options_t* options) {
        return sennit_reduce(call.send,
                             to,
                             call.elements,
                             call.reduction.dtype,
                             call.reduction.op,
                             root,
                             engine,
                             nullptr,
                             options);
      });
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_reduce_scatter_block(const Taken& /*taken*/,
                                                    const void* send,
                                                    void* recv,
                                                    N recv_count,
                                                    Type type,
                                                    Op op,
                                                    Comm /*comm*/) {
  auto call = prepare_reduction(
      send,
      recv,
      recv_count,
      type,
      op,
      !is_in_place(recv),
      [](const auto& made, void* to, sennit_comm_t engine, const sennit_call_options_t* options) {
        return sennit_reduce_scatter(made.send,
                                     to,
                                     made.elements,
                                     made.reduction.dtype,
                                     made.reduction.op,
                                     engine,
                                     nullptr,
                                     options);
      });
  // In place MPI wants the block where the buffer begins, and the rest of the buffer unchanged.
  if (call && is_in_place(send)) {
    call->block = new_memory(call->bytes());
  }
  return call;
}

// With equal counts, which all ranks see, it is a reduce_scatter_block.
template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_reduce_scatter(const Taken& taken,
                                              const void* send,
                                              void* recv,
                                              const N* recv_counts,
                                              Type type,
                                              Op op,
                                              Comm comm) {
  constexpr N kNone = -1;
  const bool are_equal =
      recv_counts != nullptr && std::all_of(recv_counts, recv_counts + taken.size, [&](N count) {
        return count == recv_counts[0];
      });
  return prepare_reduce_scatter_block(
      taken, send, recv, are_equal ? recv_counts[0] : kNone, type, op, comm);
}

}  // namespace sennit_mpi
