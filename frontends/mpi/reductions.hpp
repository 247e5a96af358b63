// The calls that reduce. Where type and operator are predefined and the library has the pair, it
// reduces; small ones of others are gathered (gathered_reduction.hpp). MPI wants type, operator and
// count to be equal on all ranks.
#pragma once

#include "buffers.hpp"
#include "calls.hpp"
#include "gathered_reduction.hpp"

#include "sennit/sennit.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

namespace sennit_mpi {

// A reduction that is to run. `start_of` gets this, the engine and the options.
template <class Abi, class Start>
struct Reducing {
  const void* send;
  void* recv;
  std::size_t elements;
  Reduction reduction;
  Start start_of;
  std::unique_ptr<GatheredReduction<Abi>> gathered = nullptr;  // instead of all that
  bool is_of_program = false;                                  // the operator
  Memory block = nullptr;  // what is received, where it may not go straight to `recv`

  [[nodiscard]] std::size_t bytes() const { return elements * reduction.bytes; }
  [[nodiscard]] Trouble trouble() const {
    return gathered != nullptr ? gathered->trouble() : Trouble{};
  }
  // The program may free an operator of its own before the call ends, and nobody can keep it.
  [[nodiscard]] bool may_return_before_its_end() const { return !is_of_program; }
  sennit_status_t start(const Runner& on, const sennit_call_options_t* options) {
    return gathered != nullptr
               ? gathered->start(on, options)
               : start_of(*this, block != nullptr ? block.get() : recv, on, options);
  }
  // Types are predefined ones, but with operators of the program.
  [[nodiscard]] int keep() { return 0; }
  [[nodiscard]] int keep_input() { return 0; }
  [[nodiscard]] int read_again() { return gathered != nullptr ? gathered->read_again() : 0; }
  [[nodiscard]] int finish() {
    if (gathered != nullptr) {
      return gathered->finish();
    }
    if (block != nullptr && bytes() > 0) {
      std::memcpy(recv, block.get(), bytes());
    }
    return 0;
  }
};

// No reduction of the library: calls with it are gathered, or passed on.
struct NoStart {
  template <class Call>
  sennit_status_t operator()(const Call& /*call*/,
                             void* /*to*/,
                             const Runner& /*on*/,
                             const sennit_call_options_t* /*options*/) const {
    return SENNIT_INTERNAL_ERROR;
  }
};

// `counts.contributed` elements are this rank's, `counts.received` come out at it. With `start_of`
// where the library has the reduction, else by the plan where there is little.
template <class Abi, class N, class D>
template <class Start>
auto Calls<Abi, N, D>::prepare_reduction(const Taken& taken,
                                         const ReductionArguments& call,
                                         const GatherPlan& plan,
                                         Start start) -> std::optional<Reducing<Abi, Start>> {
  constexpr bool kIsOfLibrary = !std::is_same_v<Start, NoStart>;
  const bool is_valid = call.is_valid && call.contributed >= 0 && call.received >= 0;
  if (!is_valid || call.type == Type{} || call.type == front().abi.type_null()) {
    front().share.pass(kRefused);
    return std::nullopt;
  }
  const void* const send = is_in_place(call.send) ? call.recv : call.send;
  if (taken.nodes > 1 &&
      elements(send, call.contributed, call.type).bytes() < kFewestBytesOverNodes) {
    front().share.pass(kSmallOverNodes);
    return std::nullopt;
  }
  const auto elements_out = static_cast<std::size_t>(call.received);
  if constexpr (kIsOfLibrary) {
    const auto reduction = datatypes().reduction_of(call.type, call.op);
    if (reduction && call.is_uniform) {
      return Reducing<Abi, Start>{.send = send,
                                  .recv = call.recv,
                                  .elements = elements_out,
                                  .reduction = *reduction,
                                  .start_of = std::move(start)};
    }
  }
  if (!datatypes().can_reduce(call.type, call.op)) {
    front().share.pass("a type and an operator that do not go together");
    return std::nullopt;
  }
  const Elements<Abi> input = elements(send, call.contributed, call.type);
  if (input.bytes() < plan.fewest_bytes) {
    front().share.pass("a small scan");
    return std::nullopt;
  }
  if (input.bytes() * static_cast<std::size_t>(taken.size) > kMostGatheredBytes ||
      call.contributed > std::numeric_limits<int>::max()) {
    front().share.pass(!kIsOfLibrary     ? "a large scan"
                       : call.is_uniform ? "a large reduction that the library has not"
                                         : "a large reduce_scatter of different counts");
    return std::nullopt;
  }
  return Reducing<Abi, Start>{.send = send,
                              .recv = call.recv,
                              .elements = elements_out,
                              .reduction = {.bytes = input.layout.bytes},
                              .start_of = std::move(start),
                              .gathered = std::make_unique<GatheredReduction<Abi>>(packer(),
                                                                                   datatypes(),
                                                                                   input,
                                                                                   call.recv,
                                                                                   elements_out,
                                                                                   call.op,
                                                                                   plan,
                                                                                   taken.rank,
                                                                                   taken.size),
                              .is_of_program = datatypes().kind_of(call.op) == OpKind::kOfProgram};
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_all_reduce(
    const Taken& taken, const void* send, void* recv, N count, Type type, Op op, Comm /*comm*/) {
  return prepare_reduction(
      taken,
      {send, recv, count, count, type, op, !is_in_place(recv)},
      {.last = taken.size - 1},
      [](const auto& call, void* to, const Runner& on, const sennit_call_options_t* options) {
        return sennit_all_reduce(call.send,
                                 to,
                                 call.elements,
                                 call.reduction.dtype,
                                 call.reduction.op,
                                 on.comm,
                                 on.stream,
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
  const bool is_root = taken.rank == root;
  return prepare_reduction(
      taken,
      {send, recv, count, count, type, op, is_rank(root, taken)},
      {.moves = GatherPlan::Moves::kToRoot,
       .root = root,
       .has_result = is_root,
       .last = taken.size - 1},
      [root](const auto& call, void* to, const Runner& on, const sennit_call_options_t* options) {
        return sennit_reduce(call.send,
                             to,
                             call.elements,
                             call.reduction.dtype,
                             call.reduction.op,
                             root,
                             on.comm,
                             on.stream,
                             options);
      });
}

// A block for each rank; what all ranks see decides.
template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_scattered(const Taken& taken,
                                         const void* send,
                                         void* recv,
                                         const std::array<std::size_t, kMostRanks>& blocks,
                                         bool is_valid,
                                         Type type,
                                         Op op) {
  const auto ranks = static_cast<std::size_t>(taken.size);
  const auto end = blocks.begin() + taken.size;
  const auto all = std::accumulate(blocks.begin(), end, std::size_t{0});
  const bool are_equal =
      static_cast<std::size_t>(std::count(blocks.begin(), end, blocks.front())) == ranks;
  const std::size_t own = blocks[static_cast<std::size_t>(taken.rank)];
  auto call = prepare_reduction(
      taken,
      {send,
       recv,
       static_cast<std::int64_t>(all),
       static_cast<std::int64_t>(own),
       type,
       op,
       is_valid && !is_in_place(recv),
       are_equal},
      {.moves = GatherPlan::Moves::kBlocks, .blocks = blocks.data(), .last = taken.size - 1},
      [](const auto& made, void* to, const Runner& on, const sennit_call_options_t* options) {
        return sennit_reduce_scatter(made.send,
                                     to,
                                     made.elements,
                                     made.reduction.dtype,
                                     made.reduction.op,
                                     on.comm,
                                     on.stream,
                                     options);
      });
  // In place MPI wants the block where the buffer begins, and the rest of the buffer unchanged.
  if (call && call->gathered == nullptr && is_in_place(send)) {
    call->block = new_memory(call->bytes());
  }
  return call;
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_reduce_scatter_block(const Taken& taken,
                                                    const void* send,
                                                    void* recv,
                                                    N recv_count,
                                                    Type type,
                                                    Op op,
                                                    Comm /*comm*/) {
  std::array<std::size_t, kMostRanks> blocks;
  std::fill_n(blocks.begin(), taken.size, static_cast<std::size_t>(recv_count));
  return prepare_scattered(taken, send, recv, blocks, recv_count >= 0, type, op);
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_reduce_scatter(const Taken& taken,
                                              const void* send,
                                              void* recv,
                                              const N* recv_counts,
                                              Type type,
                                              Op op,
                                              Comm /*comm*/) {
  std::array<std::size_t, kMostRanks> blocks{};
  const bool is_valid =
      recv_counts != nullptr &&
      std::all_of(recv_counts, recv_counts + taken.size, [](N count) { return count >= 0; });
  if (is_valid) {
    std::copy_n(recv_counts, taken.size, blocks.begin());
  }
  return prepare_scattered(taken, send, recv, blocks, is_valid, type, op);
}

template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_scan(
    const Taken& taken, const void* send, void* recv, N count, Type type, Op op, Comm /*comm*/) {
  return prepare_reduction(taken,
                           {send, recv, count, count, type, op, !is_in_place(recv)},
                           {.last = taken.rank, .fewest_bytes = kFewestScannedBytes},
                           NoStart());
}

// Of the ranks before this one; rank 0 gets nothing.
template <class Abi, class N, class D>
auto Calls<Abi, N, D>::prepare_exclusive_scan(
    const Taken& taken, const void* send, void* recv, N count, Type type, Op op, Comm /*comm*/) {
  return prepare_reduction(taken,
                           {send, recv, count, count, type, op, !is_in_place(recv)},
                           {.last = taken.rank - 1, .fewest_bytes = kFewestScannedBytes},
                           NoStart());
}

}  // namespace sennit_mpi
