// The calls that move data: in bytes, whatever the types are. Ranks may describe one block by
// different types and counts, so none of them, and no buffer, may decide whether a call is taken.
#pragma once

#include "calls.hpp"

#include "sennit/sennit.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sennit_mpi {

template <class Abi, class N, class D>
int Calls<Abi, N, D>::broadcast(void* buffer, N count, Type type, int root, Comm comm) {
  Taken* const taken = front().taking(comm, Call::kBcast);
  if (taken == nullptr || !is_valid(buffer, count, type) || !is_rank(root, *taken)) {
    return SENNIT_MPI_PASS(broadcast, no_entries(), buffer, count, type, root, comm);
  }
  const Packer<Abi> packing = packer(*taken);
  const Elements<Abi> whole = elements(buffer, count, type);
  const auto run = [&](const void* send, void* recv) {
    return sennit_broadcast(
        send, recv, whole.bytes(), SENNIT_UINT8, root, taken->engine, nullptr, nullptr);
  };
  sennit_status_t status = SENNIT_OK;
  if (whole.is_plain()) {
    status = run(buffer, buffer);
  } else if (root == taken->rank) {
    const SendPiece<Abi> piece(packing, whole);
    // The root's output is its input: nothing is written.
    status = run(piece.data(), const_cast<std::byte*>(piece.data()));
  } else {
    const RecvPiece<Abi> piece(packing, whole);
    status = run(piece.data(), piece.data());
    piece.finish();
  }
  return front().finish(*taken, status, whole.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::all_gather(const void* send,
                                 N send_count,
                                 Type send_type,
                                 void* recv,
                                 N recv_count,
                                 Type recv_type,
                                 Comm comm) {
  Taken* const taken = front().taking(comm, Call::kAllgather);
  const bool in_place = is_in_place(send);
  if (taken == nullptr || !is_valid(recv, recv_count, recv_type) ||
      (!in_place && !is_valid(send, send_count, send_type))) {
    return SENNIT_MPI_PASS(
        all_gather, no_entries(), send, send_count, send_type, recv, recv_count, recv_type, comm);
  }
  const Packer<Abi> packing = packer(*taken);
  const std::int64_t count = recv_count;
  SendPiece<Abi> input(packing,
                       in_place ? elements_at(recv, taken->rank * count, count, recv_type)
                                : elements(send, send_count, send_type));
  const RecvPiece<Abi> output(packing, elements(recv, taken->size * count, recv_type));
  input.keep_off(output.range(),
                 output.data() + static_cast<std::size_t>(taken->rank) * input.bytes());
  const sennit_status_t status = sennit_all_gather(
      input.data(), output.data(), input.bytes(), SENNIT_UINT8, taken->engine, nullptr, nullptr);
  output.finish();
  return front().finish(*taken, status, input.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::all_gather_v(const void* send,
                                   N send_count,
                                   Type send_type,
                                   void* recv,
                                   const N* recv_counts,
                                   const D* recv_displacements,
                                   Type recv_type,
                                   Comm comm) {
  Taken* const taken = front().taking(comm, Call::kAllgatherv);
  const bool in_place = is_in_place(send);
  if (taken == nullptr || !are_valid(recv, recv_counts, recv_displacements, recv_type, *taken) ||
      (!in_place && !is_valid(send, send_count, send_type))) {
    return SENNIT_MPI_PASS(all_gather_v,
                           entry_a_peer(comm),
                           send,
                           send_count,
                           send_type,
                           recv,
                           recv_counts,
                           recv_displacements,
                           recv_type,
                           comm);
  }
  const Packer<Abi> packing = packer(*taken);
  Blocks<Abi> output(packing);
  add_blocks(output, recv, recv_counts, recv_displacements, recv_type, *taken);
  output.settle();
  SendPiece<Abi> input(
      packing, in_place ? output.elements(taken->rank) : elements(send, send_count, send_type));
  input.keep_off(output.range(), output.block(taken->rank));
  const sennit_status_t status = sennit_all_gather_v(input.data(),
                                                     input.bytes(),
                                                     output.data(),
                                                     output.counts(),
                                                     output.displacements(),
                                                     SENNIT_UINT8,
                                                     taken->engine,
                                                     nullptr,
                                                     nullptr);
  output.finish();
  return front().finish(*taken, status, input.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::all_to_all(const void* send,
                                 N send_count,
                                 Type send_type,
                                 void* recv,
                                 N recv_count,
                                 Type recv_type,
                                 Comm comm) {
  Taken* const taken = front().taking(comm, Call::kAlltoall);
  const bool in_place = is_in_place(send);
  if (taken == nullptr || !is_valid(recv, recv_count, recv_type) ||
      (!in_place && !is_valid(send, send_count, send_type))) {
    return SENNIT_MPI_PASS(
        all_to_all, no_entries(), send, send_count, send_type, recv, recv_count, recv_type, comm);
  }
  const Packer<Abi> packing = packer(*taken);
  const std::int64_t ranks = taken->size;
  SendPiece<Abi> input(packing,
                       in_place ? elements(recv, ranks * recv_count, recv_type)
                                : elements(send, ranks * send_count, send_type));
  const RecvPiece<Abi> output(packing, elements(recv, ranks * recv_count, recv_type));
  input.keep_off(output.range(), output.data());
  const std::size_t bytes = input.bytes() / static_cast<std::size_t>(ranks);
  const sennit_status_t status = sennit_all_to_all(
      input.data(), output.data(), bytes, SENNIT_UINT8, taken->engine, nullptr, nullptr);
  output.finish();
  return front().finish(*taken, status, input.bytes());
}

// Alltoallv and Alltoallw. In place, what is sent are the blocks that are received.
template <class Abi, class N, class D>
template <class Types>
int Calls<Abi, N, D>::exchange(Taken& taken,
                               const void* send,
                               const N* send_counts,
                               const D* send_displacements,
                               Types send_types,
                               void* recv,
                               const N* recv_counts,
                               const D* recv_displacements,
                               Types recv_types) {
  const Packer<Abi> packing = packer(taken);
  Blocks<Abi> input(packing);
  Blocks<Abi> output(packing);
  add_blocks(output, recv, recv_counts, recv_displacements, recv_types, taken);
  output.settle();
  if (is_in_place(send)) {
    add_blocks(input, recv, recv_counts, recv_displacements, recv_types, taken);
  } else {
    add_blocks(input, send, send_counts, send_displacements, send_types, taken);
  }
  input.settle_and_pack();
  input.keep_off(output.range());
  const sennit_status_t status = sennit_all_to_all_v(input.data(),
                                                     input.counts(),
                                                     input.displacements(),
                                                     output.data(),
                                                     output.counts(),
                                                     output.displacements(),
                                                     SENNIT_UINT8,
                                                     taken.engine,
                                                     nullptr,
                                                     nullptr);
  output.finish();
  return front().finish(taken, status, input.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::all_to_all_v(const void* send,
                                   const N* send_counts,
                                   const D* send_displacements,
                                   Type send_type,
                                   void* recv,
                                   const N* recv_counts,
                                   const D* recv_displacements,
                                   Type recv_type,
                                   Comm comm) {
  Taken* const taken = front().taking(comm, Call::kAlltoallv);
  if (taken == nullptr || !are_valid(recv, recv_counts, recv_displacements, recv_type, *taken) ||
      (!is_in_place(send) &&
       !are_valid(send, send_counts, send_displacements, send_type, *taken))) {
    return SENNIT_MPI_PASS(all_to_all_v,
                           entry_a_peer(comm),
                           send,
                           send_counts,
                           send_displacements,
                           send_type,
                           recv,
                           recv_counts,
                           recv_displacements,
                           recv_type,
                           comm);
  }
  return exchange(*taken,
                  send,
                  send_counts,
                  send_displacements,
                  send_type,
                  recv,
                  recv_counts,
                  recv_displacements,
                  recv_type);
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::all_to_all_w(const void* send,
                                   const N* send_counts,
                                   const D* send_displacements,
                                   const Type* send_types,
                                   void* recv,
                                   const N* recv_counts,
                                   const D* recv_displacements,
                                   const Type* recv_types,
                                   Comm comm) {
  Taken* const taken = front().taking(comm, Call::kAlltoallw);
  if (taken == nullptr || !are_valid(recv, recv_counts, recv_displacements, recv_types, *taken) ||
      (!is_in_place(send) &&
       !are_valid(send, send_counts, send_displacements, send_types, *taken))) {
    return SENNIT_MPI_PASS(all_to_all_w,
                           entry_a_peer(comm),
                           send,
                           send_counts,
                           send_displacements,
                           send_types,
                           recv,
                           recv_counts,
                           recv_displacements,
                           recv_types,
                           comm);
  }
  return exchange(*taken,
                  send,
                  send_counts,
                  send_displacements,
                  send_types,
                  recv,
                  recv_counts,
                  recv_displacements,
                  recv_types);
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::gather(const void* send,
                             N send_count,
                             Type send_type,
                             void* recv,
                             N recv_count,
                             Type recv_type,
                             int root,
                             Comm comm) {
  Taken* const taken = front().taking(comm, Call::kGather);
  const bool is_root = taken != nullptr && taken->rank == root;
  const bool in_place = is_root && is_in_place(send);
  if (taken == nullptr || !is_rank(root, *taken) ||
      (is_root && !is_valid(recv, recv_count, recv_type)) ||
      (!in_place && !is_valid(send, send_count, send_type))) {
    return SENNIT_MPI_PASS(
        gather, no_entries(), send, send_count, send_type, recv, recv_count, recv_type, root, comm);
  }
  const Packer<Abi> packing = packer(*taken);
  const std::int64_t count = recv_count;
  SendPiece<Abi> input(packing,
                       in_place ? elements_at(recv, root * count, count, recv_type)
                                : elements(send, send_count, send_type));
  const RecvPiece<Abi> output(
      packing, is_root ? elements(recv, taken->size * count, recv_type) : Elements<Abi>{});
  if (is_root) {
    input.keep_off(output.range(), output.data() + static_cast<std::size_t>(root) * input.bytes());
  }
  const sennit_status_t status = sennit_gather(input.data(),
                                               output.data(),
                                               input.bytes(),
                                               SENNIT_UINT8,
                                               root,
                                               taken->engine,
                                               nullptr,
                                               nullptr);
  output.finish();
  return front().finish(*taken, status, input.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::gather_v(const void* send,
                               N send_count,
                               Type send_type,
                               void* recv,
                               const N* recv_counts,
                               const D* recv_displacements,
                               Type recv_type,
                               int root,
                               Comm comm) {
  Taken* const taken = front().taking(comm, Call::kGatherv);
  const bool is_root = taken != nullptr && taken->rank == root;
  const bool in_place = is_root && is_in_place(send);
  if (taken == nullptr || !is_rank(root, *taken) ||
      (is_root && !are_valid(recv, recv_counts, recv_displacements, recv_type, *taken)) ||
      (!in_place && !is_valid(send, send_count, send_type))) {
    return SENNIT_MPI_PASS(gather_v,
                           entry_a_peer_at(root, comm),
                           send,
                           send_count,
                           send_type,
                           recv,
                           recv_counts,
                           recv_displacements,
                           recv_type,
                           root,
                           comm);
  }
  const Packer<Abi> packing = packer(*taken);
  Blocks<Abi> output(packing);
  if (is_root) {
    add_blocks(output, recv, recv_counts, recv_displacements, recv_type, *taken);
  }
  output.settle();
  SendPiece<Abi> input(packing,
                       in_place ? output.elements(root) : elements(send, send_count, send_type));
  if (is_root) {
    input.keep_off(output.range(), output.block(root));
  }
  const sennit_status_t status = sennit_gather_v(input.data(),
                                                 input.bytes(),
                                                 output.data(),
                                                 output.counts(),
                                                 output.displacements(),
                                                 SENNIT_UINT8,
                                                 root,
                                                 taken->engine,
                                                 nullptr,
                                                 nullptr);
  output.finish();
  return front().finish(*taken, status, input.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::scatter(const void* send,
                              N send_count,
                              Type send_type,
                              void* recv,
                              N recv_count,
                              Type recv_type,
                              int root,
                              Comm comm) {
  Taken* const taken = front().taking(comm, Call::kScatter);
  const bool is_root = taken != nullptr && taken->rank == root;
  const bool in_place = is_root && is_in_place(recv);
  if (taken == nullptr || !is_rank(root, *taken) ||
      (is_root && !is_valid(send, send_count, send_type)) ||
      (!in_place && !is_valid(recv, recv_count, recv_type))) {
    return SENNIT_MPI_PASS(scatter,
                           no_entries(),
                           send,
                           send_count,
                           send_type,
                           recv,
                           recv_count,
                           recv_type,
                           root,
                           comm);
  }
  const Packer<Abi> packing = packer(*taken);
  const std::int64_t ranks = taken->size;
  SendPiece<Abi> input(packing,
                       is_root ? elements(send, ranks * send_count, send_type) : Elements<Abi>{});
  const std::size_t block = input.bytes() / static_cast<std::size_t>(ranks);
  const std::size_t own = static_cast<std::size_t>(root) * block;
  // In place the root's own block stays where it is, which is in place for the library as well.
  const RecvPiece<Abi> output(
      packing,
      in_place ? Elements<Abi>{.place = input.data() + own,
                               .count = block,
                               .type = front().abi.byte(),
                               .layout = {.bytes = 1, .extent = 1, .is_dense = true}}
               : elements(recv, recv_count, recv_type));
  if (is_root && !in_place) {
    input.keep_off(output.range(), output.data() - own);
  }
  const sennit_status_t status = sennit_scatter(input.data(),
                                                output.data(),
                                                output.bytes(),
                                                SENNIT_UINT8,
                                                root,
                                                taken->engine,
                                                nullptr,
                                                nullptr);
  output.finish();
  return front().finish(*taken, status, output.bytes());
}

template <class Abi, class N, class D>
int Calls<Abi, N, D>::scatter_v(const void* send,
                                const N* send_counts,
                                const D* send_displacements,
                                Type send_type,
                                void* recv,
                                N recv_count,
                                Type recv_type,
                                int root,
                                Comm comm) {
  Taken* const taken = front().taking(comm, Call::kScatterv);
  const bool is_root = taken != nullptr && taken->rank == root;
  const bool in_place = is_root && is_in_place(recv);
  if (taken == nullptr || !is_rank(root, *taken) ||
      (is_root && !are_valid(send, send_counts, send_displacements, send_type, *taken)) ||
      (!in_place && !is_valid(recv, recv_count, recv_type))) {
    return SENNIT_MPI_PASS(scatter_v,
                           entry_a_peer_at(root, comm),
                           send,
                           send_counts,
                           send_displacements,
                           send_type,
                           recv,
                           recv_count,
                           recv_type,
                           root,
                           comm);
  }
  const Packer<Abi> packing = packer(*taken);
  Blocks<Abi> input(packing);
  if (is_root) {
    add_blocks(input, send, send_counts, send_displacements, send_type, *taken);
  }
  input.settle_and_pack();
  const RecvPiece<Abi> output(
      packing,
      in_place ? Elements<Abi>{.place = input.block(root),
                               .count = input.bytes_of(root),
                               .type = front().abi.byte(),
                               .layout = {.bytes = 1, .extent = 1, .is_dense = true}}
               : elements(recv, recv_count, recv_type));
  if (is_root && output.data() != input.block(root)) {
    input.keep_off(output.range());
  }
  const sennit_status_t status = sennit_scatter_v(input.data(),
                                                  input.counts(),
                                                  input.displacements(),
                                                  output.data(),
                                                  output.bytes(),
                                                  SENNIT_UINT8,
                                                  root,
                                                  taken->engine,
                                                  nullptr,
                                                  nullptr);
  output.finish();
  return front().finish(*taken, status, output.bytes());
}

}  // namespace sennit_mpi
