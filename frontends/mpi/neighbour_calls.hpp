// NeighbourCalls: collectives among the neighbours of a topology, which the MPI runs, with shadows
// in the place of buffers in GPU memory.
#pragma once

#include "passed_calls.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit_mpi {

template <class Abi, class N, class D>
struct NeighbourCalls {
  using Of = Calls<Abi, N, D>;
  using Roles = DeviceRoles<Abi, N, D>;
  using Passed = PassedCalls<Abi, N, D>;
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Request = typename Abi::Request;
  using Info = typename Abi::Info;

#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries)
#define SENNIT_MPI_OTHER(name, stem, parameters)
#define SENNIT_MPI_NEIGHBOUR_CALL(said, stem, entries, ...) \
  PassedCall {                                              \
    said, Of::front().errors_of(comm), [&] {                \
      return Of::pass_on(                                   \
          Of::same_width().stem,                            \
          Of::front().functions.plain.stem,                 \
          [&] { return ArrayLengths(entries); },            \
          Of::front().errors_of(comm),                      \
          __VA_ARGS__);                                     \
    }                                                       \
  }
#define SENNIT_MPI_NEIGHBOUR(name, nonblocking, stem, parameters, arguments, entries)          \
  static int stem parameters {                                                                 \
    const auto call =                                                                          \
        SENNIT_MPI_NEIGHBOUR_CALL("MPI_" #name, stem, entries, SENNIT_MPI_LIST arguments);     \
    return Of::front().guard_alone(call.raise, [&] {                                           \
      return Passed::runs(                                                                     \
          call, [&](auto& shadows) { describe_##stem(shadows, SENNIT_MPI_LIST arguments); });  \
    });                                                                                        \
  }                                                                                            \
  static int i_##stem(SENNIT_MPI_LIST parameters, Request* request) {                          \
    const auto call = SENNIT_MPI_NEIGHBOUR_CALL(                                               \
        "MPI_" #nonblocking, i_##stem, entries, SENNIT_MPI_LIST arguments, request);           \
    return Of::front().guard_alone(call.raise, [&] {                                           \
      return Passed::begins(                                                                   \
          call,                                                                                \
          [&](auto& shadows) { describe_##stem(shadows, SENNIT_MPI_LIST arguments); },         \
          request,                                                                             \
          {});                                                                                 \
    });                                                                                        \
  }                                                                                            \
  static int init_##stem(SENNIT_MPI_LIST parameters, Info info, Request* request) {            \
    const auto call = SENNIT_MPI_NEIGHBOUR_CALL(                                               \
        "MPI_" #name "_init", init_##stem, entries, SENNIT_MPI_LIST arguments, info, request); \
    return Of::front().guard_alone(call.raise, [&] {                                           \
      return Passed::begins(                                                                   \
          call,                                                                                \
          [&](auto& shadows) { describe_##stem(shadows, SENNIT_MPI_LIST arguments); },         \
          request,                                                                             \
          {.is_persistent = true});                                                            \
    });                                                                                        \
  }
#include "calls.def"
#undef SENNIT_MPI_NEIGHBOUR_CALL

 private:
  struct Neighbours {
    int from = 0;
    int to = 0;
  };
  static Neighbours neighbours_of(Comm comm) {
    const auto& mpi = Of::front().functions.mpi;
    int kind = Abi::kUndefined;
    int rank = 0;
    Neighbours all;
    mpi.topo_test(comm, &kind);
    if (kind == Abi::kCart) {
      mpi.cartdim_get(comm, &all.from);
      all.from *= 2;  // one in each direction
      all.to = all.from;
    } else if (kind == Abi::kGraph) {
      mpi.comm_rank(comm, &rank);
      mpi.graph_neighbors_count(comm, rank, &all.from);
      all.to = all.from;
    } else if (kind == Abi::kDistGraph) {
      int is_weighted = 0;
      mpi.dist_graph_neighbors_count(comm, &all.from, &all.to, &is_weighted);
    }
    return all;
  }
  static std::size_t entries_received(Comm comm) {
    return static_cast<std::size_t>(neighbours_of(comm).from);
  }
  // Where so many arrays say what is sent, before those that say what is received.
  static ArrayLengths entries_exchanged(Comm comm, std::size_t arrays_of_sends) {
    const Neighbours all = neighbours_of(comm);
    ArrayLengths lengths(static_cast<std::size_t>(all.from));
    for (std::size_t array = 0; array < arrays_of_sends; ++array) {
      lengths.of.at(array) = static_cast<std::size_t>(all.to);
    }
    return lengths;
  }

  // A neighbour may be MPI_PROC_NULL, whose block stays as it is: it has to be read as well.
  template <class Buffer>
  static void receives(const Buffer& buffer, const Elements<Abi>& block) {
    buffer.reads(block).writes(block);
  }

  static void describe_neighbours_gather(Shadows<Abi>& shadows,
                                         const void*& send,
                                         N send_count,
                                         Type send_type,
                                         void*& recv,
                                         N recv_count,
                                         Type recv_type,
                                         Comm comm) {
    const std::int64_t from = neighbours_of(comm).from;
    shadows.of(send).reads(Roles::part_of(send, 0, send_count, send_type));
    receives(shadows.of(recv), Roles::part_of(recv, 0, from * recv_count, recv_type));
  }
  static void describe_neighbours_gather_v(Shadows<Abi>& shadows,
                                           const void*& send,
                                           N send_count,
                                           Type send_type,
                                           void*& recv,
                                           const N* recv_counts,
                                           const D* recv_displacements,
                                           Type recv_type,
                                           Comm comm) {
    shadows.of(send).reads(Roles::part_of(send, 0, send_count, send_type));
    const auto result = shadows.of(recv);
    Roles::each_block(recv,
                      recv_counts,
                      recv_displacements,
                      recv_type,
                      neighbours_of(comm).from,
                      [&](const auto& block) { receives(result, block); });
  }
  static void describe_neighbours_exchange(Shadows<Abi>& shadows,
                                           const void*& send,
                                           N send_count,
                                           Type send_type,
                                           void*& recv,
                                           N recv_count,
                                           Type recv_type,
                                           Comm comm) {
    const Neighbours all = neighbours_of(comm);
    shadows.of(send).reads(Roles::part_of(send, 0, std::int64_t{all.to} * send_count, send_type));
    receives(shadows.of(recv),
             Roles::part_of(recv, 0, std::int64_t{all.from} * recv_count, recv_type));
  }
  template <class Displacement, class Types>
  static void describe_blocks(Shadows<Abi>& shadows,
                              const void*& send,
                              const N* send_counts,
                              const Displacement* send_displacements,
                              Types send_types,
                              void*& recv,
                              const N* recv_counts,
                              const Displacement* recv_displacements,
                              Types recv_types,
                              Comm comm) {
    const Neighbours all = neighbours_of(comm);
    const auto input = shadows.of(send);
    const auto result = shadows.of(recv);
    Roles::each_block(
        send, send_counts, send_displacements, send_types, all.to, [&](const auto& block) {
          input.reads(block);
        });
    Roles::each_block(
        recv, recv_counts, recv_displacements, recv_types, all.from, [&](const auto& block) {
          receives(result, block);
        });
  }
  template <class... Arguments>
  static void describe_neighbours_exchange_v(Shadows<Abi>& shadows, Arguments&... arguments) {
    describe_blocks(shadows, arguments...);
  }
  template <class... Arguments>
  static void describe_neighbours_exchange_w(Shadows<Abi>& shadows, Arguments&... arguments) {
    describe_blocks(shadows, arguments...);
  }
};

}  // namespace sennit_mpi
