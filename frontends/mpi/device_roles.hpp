// DeviceRoles: what each collective reads and writes on this rank, for buffers in device memory.
// All of MPI's forms are here, also those that are passed on: intercommunicators, whose root has
// MPI_ROOT.
#pragma once

#include "calls.hpp"
#include "shadows.hpp"

#include <algorithm>
#include <cstdint>

namespace sennit_mpi {

template <class Abi, class N, class D>
struct DeviceRoles {
  using Of = Calls<Abi, N, D>;
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Op = typename Abi::Op;

  struct Shape {
    Shape(Comm comm, int root) : Shape(comm) {
      is_root = root == Abi::kRoot || (is_inter == 0 && root == rank);
      // In the group of an intercommunicator that has the root, ranks give MPI_ROOT or
      // MPI_PROC_NULL.
      takes_part = is_inter == 0 || root >= 0;
    }
    explicit Shape(Comm comm) {
      const auto& mpi = Of::front().functions.mpi;
      mpi.comm_rank(comm, &rank);
      mpi.comm_size(comm, &members);
      mpi.comm_test_inter(comm, &is_inter);
      peers = members;
      if (is_inter != 0) {
        mpi.comm_remote_size(comm, &peers);
      }
    }

    int rank = 0;
    int members = 0;
    int peers = 0;
    int is_inter = 0;
    bool is_root = false;
    bool takes_part = true;
  };

  // What the MPI refuses has nothing that could be read or written.
  static Elements<Abi> part_of(const void* buffer,
                               std::int64_t offset,
                               std::int64_t count,
                               Type type) {
    return count > 0 && Of::is_valid(buffer, count, type)
               ? Of::elements_at(buffer, offset, count, type)
               : Elements<Abi>{};
  }

  template <class Displacement, class Use>
  static void each_block(const void* buffer,
                         const N* counts,
                         const Displacement* displacements,
                         Type type,
                         int ranks,
                         Use&& use) {
    for (int rank = 0; rank < ranks && counts != nullptr && displacements != nullptr; ++rank) {
      use(part_of(buffer, displacements[rank], counts[rank], type));
    }
  }
  // Displacements are in bytes.
  template <class Displacement, class Use>
  static void each_block(const void* buffer,
                         const N* counts,
                         const Displacement* displacements,
                         const Type* types,
                         int ranks,
                         Use&& use) {
    const bool are_there = counts != nullptr && displacements != nullptr && types != nullptr;
    for (int rank = 0; rank < ranks && are_there; ++rank) {
      use(part_of(Of::moved(buffer, displacements[rank]), 0, counts[rank], types[rank]));
    }
  }

  // Contributions, and a result, of which in place the contributions are a part.
  static void reduction(Shadows<Abi>& shadows,
                        const void*& send,
                        void*& recv,
                        std::int64_t contributed,
                        std::int64_t received,
                        Type type,
                        Op op) {
    if (!Of::datatypes().reduction_of(type, op)) {
      shadows.keep_to_host();
    }
    const auto result = shadows.of(recv);
    if (Of::is_in_place(send)) {
      result.reads(part_of(recv, 0, contributed, type));
    } else {
      shadows.of(send).reads(part_of(send, 0, contributed, type));
    }
    result.writes(part_of(recv, 0, received, type));
  }

  static void all_reduce(Shadows<Abi>& shadows,
                         const void*& send,
                         void*& recv,
                         N count,
                         Type type,
                         Op op,
                         Comm /*comm*/) {
    reduction(shadows, send, recv, count, count, type, op);
  }

  static void reduce(Shadows<Abi>& shadows,
                     const void*& send,
                     void*& recv,
                     N count,
                     Type type,
                     Op op,
                     int root,
                     Comm comm) {
    const Shape shape(comm, root);
    reduction(
        shadows, send, recv, shape.takes_part ? count : 0, shape.is_root ? count : 0, type, op);
  }

  static void broadcast(
      Shadows<Abi>& shadows, void*& buffer, N count, Type type, int root, Comm comm) {
    const Shape shape(comm, root);
    const Elements<Abi> all = part_of(buffer, 0, count, type);
    if (shape.is_root) {
      shadows.of(buffer).reads(all);
    } else if (shape.takes_part) {
      shadows.of(buffer).writes(all);
    }
  }

  static void all_gather(Shadows<Abi>& shadows,
                         const void*& send,
                         N send_count,
                         Type send_type,
                         void*& recv,
                         N recv_count,
                         Type recv_type,
                         Comm comm) {
    const Shape shape(comm);
    const std::int64_t count = recv_count;
    const auto result = shadows.of(recv);
    if (Of::is_in_place(send)) {
      result.reads(part_of(recv, shape.rank * count, count, recv_type));
    } else {
      shadows.of(send).reads(part_of(send, 0, send_count, send_type));
    }
    result.writes(part_of(recv, 0, shape.peers * count, recv_type));
  }

  static void all_gather_v(Shadows<Abi>& shadows,
                           const void*& send,
                           N send_count,
                           Type send_type,
                           void*& recv,
                           const N* recv_counts,
                           const D* recv_displacements,
                           Type recv_type,
                           Comm comm) {
    const Shape shape(comm);
    const auto result = shadows.of(recv);
    if (Of::is_in_place(send)) {
      if (recv_counts != nullptr && recv_displacements != nullptr) {
        result.reads(
            part_of(recv, recv_displacements[shape.rank], recv_counts[shape.rank], recv_type));
      }
    } else {
      shadows.of(send).reads(part_of(send, 0, send_count, send_type));
    }
    each_block(
        recv, recv_counts, recv_displacements, recv_type, shape.peers, [&](const auto& block) {
          result.writes(block);
        });
  }

  static void all_to_all(Shadows<Abi>& shadows,
                         const void*& send,
                         N send_count,
                         Type send_type,
                         void*& recv,
                         N recv_count,
                         Type recv_type,
                         Comm comm) {
    const std::int64_t peers = Shape(comm).peers;
    const Elements<Abi> received = part_of(recv, 0, peers * recv_count, recv_type);
    const auto result = shadows.of(recv);
    if (Of::is_in_place(send)) {
      result.reads(received);
    } else {
      shadows.of(send).reads(part_of(send, 0, peers * send_count, send_type));
    }
    result.writes(received);
  }

  template <class Types>
  static void exchange(Shadows<Abi>& shadows,
                       const void*& send,
                       const N* send_counts,
                       const D* send_displacements,
                       Types send_types,
                       void*& recv,
                       const N* recv_counts,
                       const D* recv_displacements,
                       Types recv_types,
                       Comm comm) {
    const int peers = Shape(comm).peers;
    const bool in_place = Of::is_in_place(send);
    const auto result = shadows.of(recv);
    if (in_place) {
      shadows.keep_to_host();  // the library wants what is sent elsewhere
    } else {
      const auto input = shadows.of(send);
      each_block(send, send_counts, send_displacements, send_types, peers, [&](const auto& block) {
        input.reads(block);
      });
    }
    each_block(recv, recv_counts, recv_displacements, recv_types, peers, [&](const auto& block) {
      if (in_place) {
        result.reads(block);
      }
      result.writes(block);
    });
  }

  static void all_to_all_v(Shadows<Abi>& shadows,
                           const void*& send,
                           const N* send_counts,
                           const D* send_displacements,
                           Type send_type,
                           void*& recv,
                           const N* recv_counts,
                           const D* recv_displacements,
                           Type recv_type,
                           Comm comm) {
    exchange(shadows,
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

  static void all_to_all_w(Shadows<Abi>& shadows,
                           const void*& send,
                           const N* send_counts,
                           const D* send_displacements,
                           const Type* send_types,
                           void*& recv,
                           const N* recv_counts,
                           const D* recv_displacements,
                           const Type* recv_types,
                           Comm comm) {
    exchange(shadows,
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

  static void gather(Shadows<Abi>& shadows,
                     const void*& send,
                     N send_count,
                     Type send_type,
                     void*& recv,
                     N recv_count,
                     Type recv_type,
                     int root,
                     Comm comm) {
    const Shape shape(comm, root);
    const std::int64_t count = recv_count;
    const bool in_place = shape.is_root && Of::is_in_place(send);
    if (shape.takes_part && !in_place) {
      shadows.of(send).reads(part_of(send, 0, send_count, send_type));
    }
    if (shape.is_root) {
      const auto result = shadows.of(recv);
      if (in_place) {
        result.reads(part_of(recv, shape.rank * count, count, recv_type));
      }
      result.writes(part_of(recv, 0, shape.peers * count, recv_type));
    }
  }

  static void gather_v(Shadows<Abi>& shadows,
                       const void*& send,
                       N send_count,
                       Type send_type,
                       void*& recv,
                       const N* recv_counts,
                       const D* recv_displacements,
                       Type recv_type,
                       int root,
                       Comm comm) {
    const Shape shape(comm, root);
    const bool in_place = shape.is_root && Of::is_in_place(send);
    if (shape.takes_part && !in_place) {
      shadows.of(send).reads(part_of(send, 0, send_count, send_type));
    }
    if (shape.is_root) {
      const auto result = shadows.of(recv);
      int block_of = 0;
      each_block(
          recv, recv_counts, recv_displacements, recv_type, shape.peers, [&](const auto& block) {
            if (in_place && block_of++ == shape.rank) {
              result.reads(block);
            }
            result.writes(block);
          });
    }
  }

  static void scatter(Shadows<Abi>& shadows,
                      const void*& send,
                      N send_count,
                      Type send_type,
                      void*& recv,
                      N recv_count,
                      Type recv_type,
                      int root,
                      Comm comm) {
    const Shape shape(comm, root);
    const std::int64_t count = send_count;
    if (shape.is_root) {
      shadows.of(send).reads(part_of(send, 0, shape.peers * count, send_type));
    }
    if (shape.takes_part && !Of::is_in_place(recv)) {
      shadows.of(recv).writes(part_of(recv, 0, recv_count, recv_type));
    }
  }

  static void scatter_v(Shadows<Abi>& shadows,
                        const void*& send,
                        const N* send_counts,
                        const D* send_displacements,
                        Type send_type,
                        void*& recv,
                        N recv_count,
                        Type recv_type,
                        int root,
                        Comm comm) {
    const Shape shape(comm, root);
    if (shape.is_root) {
      const auto input = shadows.of(send);
      each_block(
          send, send_counts, send_displacements, send_type, shape.peers, [&](const auto& block) {
            input.reads(block);
          });
    }
    if (shape.takes_part && !Of::is_in_place(recv)) {
      shadows.of(recv).writes(part_of(recv, 0, recv_count, recv_type));
    }
  }

  static void reduce_scatter(Shadows<Abi>& shadows,
                             const void*& send,
                             void*& recv,
                             const N* recv_counts,
                             Type type,
                             Op op,
                             Comm comm) {
    if (recv_counts == nullptr) {
      return;
    }
    const Shape shape(comm);
    std::int64_t all = 0;
    for (int member = 0; member < shape.members; ++member) {
      all += recv_counts[member];
    }
    const bool are_equal = std::all_of(
        recv_counts, recv_counts + shape.members, [&](N count) { return count == recv_counts[0]; });
    if (!are_equal || Of::is_in_place(send)) {
      shadows.keep_to_host();  // in place, the block that comes out has to be moved to the front
    }
    reduction(shadows, send, recv, all, recv_counts[shape.rank], type, op);
  }

  static void reduce_scatter_block(Shadows<Abi>& shadows,
                                   const void*& send,
                                   void*& recv,
                                   N recv_count,
                                   Type type,
                                   Op op,
                                   Comm comm) {
    const std::int64_t count = recv_count;
    if (Of::is_in_place(send)) {
      shadows.keep_to_host();  // as above
    }
    reduction(shadows, send, recv, Shape(comm).members * count, count, type, op);
  }

  static void scan(Shadows<Abi>& shadows,
                   const void*& send,
                   void*& recv,
                   N count,
                   Type type,
                   Op op,
                   Comm /*comm*/) {
    shadows.keep_to_host();
    reduction(shadows, send, recv, count, count, type, op);
  }

  // Rank 0 gets nothing.
  static void exclusive_scan(
      Shadows<Abi>& shadows, const void*& send, void*& recv, N count, Type type, Op op, Comm comm) {
    shadows.keep_to_host();
    reduction(shadows, send, recv, count, Shape(comm).rank > 0 ? count : 0, type, op);
  }

  static void barrier(Shadows<Abi>& /*shadows*/, Comm /*comm*/) {}
};

}  // namespace sennit_mpi
