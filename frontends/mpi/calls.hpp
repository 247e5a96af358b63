// The calls of calls.def on the library, for one ABI and one width of counts.
//
// A call is taken or passed on by what all its ranks share: communicator, operator, the type of a
// reduction, counts that MPI wants to be equal. Never by buffers, or by types that may differ. Only
// what one rank alone can tell to be wrong goes to the MPI as well, which says so.
#pragma once

#include "buffers.hpp"
#include "front.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

namespace sennit_mpi {

template <class Abi>
inline Front<Abi>* front_in_use = nullptr;

// Counts of 64 bits as an MPI without such calls takes them.
class Narrowed {
 public:
  explicit Narrowed(std::size_t entries) : entries_(entries) {}

  template <class Argument>
  auto operator()(Argument argument) {
    if constexpr (std::is_same_v<Argument, std::int64_t>) {
      return narrow(argument);
    } else if constexpr (std::is_same_v<Argument, const std::int64_t*>) {
      if (argument == nullptr) {
        return static_cast<const int*>(nullptr);
      }
      std::vector<int>& numbers = arrays_.at(used_++);
      for (std::size_t i = 0; i < entries_; ++i) {
        numbers.push_back(narrow(argument[i]));
      }
      return static_cast<const int*>(numbers.data());
    } else {
      return argument;
    }
  }
  [[nodiscard]] bool fits() const { return fits_; }

 private:
  int narrow(std::int64_t number) {
    fits_ = fits_ && number >= std::numeric_limits<int>::min() &&
            number <= std::numeric_limits<int>::max();
    return fits_ ? static_cast<int>(number) : 0;
  }

  std::size_t entries_;
  bool fits_ = true;
  std::array<std::vector<int>, 4> arrays_;
  std::size_t used_ = 0;
};

template <class Abi, class N, class D>
class Calls {
 public:
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Op = typename Abi::Op;

  // NOLINTBEGIN(readability-identifier-naming)
#define SENNIT_MPI_COUNTED(name, stem, parameters) static int stem parameters;
#define SENNIT_MPI_SINGLE(name, stem, parameters)
#include "calls.def"
  // NOLINTEND(readability-identifier-naming)

 private:
  static constexpr bool kIsPlain = std::is_same_v<N, int>;
  using Taken = Member<Abi>;

  static Front<Abi>& front() { return *front_in_use<Abi>; }
  static const typename Functions<Abi>::template Counted<N, D>& same_width() {
    if constexpr (kIsPlain) {
      return front().functions.plain;
    } else {
      return front().functions.large;
    }
  }

  // The MPI's own call. `entries` tells the length of the arrays of counts, if it has to be known.
  template <class Same, class Plain, class Entries, class... Arguments>
  static int pass_on(Same same, Plain plain, Entries entries, Comm comm, Arguments... arguments) {
    if (same != nullptr) {
      return same(arguments...);
    }
    Narrowed narrowed(entries());
    // Braces: from left to right.
    const std::tuple narrow{narrowed(arguments)...};
    if (!narrowed.fits()) {
      front().functions.mpi.comm_call_errhandler(comm, Abi::kErrCount);
      return Abi::kErrCount;
    }
    return std::apply(plain, narrow);
  }

  // Where a call has no arrays.
  static std::size_t no_entries() { return 0; }
  static std::size_t entry_a_member(Comm comm) {
    int size = 0;
    front().functions.mpi.comm_size(comm, &size);
    return static_cast<std::size_t>(size);
  }
  static std::size_t entry_a_peer(Comm comm) {
    int is_inter = 0;
    int size = 0;
    front().functions.mpi.comm_test_inter(comm, &is_inter);
    if (is_inter == 0) {
      return entry_a_member(comm);
    }
    front().functions.mpi.comm_remote_size(comm, &size);
    return static_cast<std::size_t>(size);
  }
  // Elsewhere than at the root the arrays mean nothing, and may lead nowhere.
  static std::size_t entry_a_peer_at(int root, Comm comm) {
    int rank = -1;
    front().functions.mpi.comm_rank(comm, &rank);
    return root == rank || root == Abi::kRoot ? entry_a_peer(comm) : 0;
  }

  static bool is_in_place(const void* buffer) { return buffer == Abi::in_place(); }
  static bool is_rank(int root, const Taken& taken) { return root >= 0 && root < taken.size; }
  static Packer<Abi> packer(const Taken& taken) {
    return {front().functions, taken.handle.load(std::memory_order_relaxed)};
  }
  static const Datatypes<Abi>& datatypes() { return front().running()->datatypes; }

  // What the MPI would refuse is not ours to describe.
  static bool is_valid(const void* buffer, std::int64_t count, Type type) {
    if (count < 0 || type == Type{} || type == front().abi.type_null()) {
      return false;
    }
    return !is_in_place(buffer);
  }
  // A buffer may be MPI_BOTTOM, and only the displacement make it an address.
  static const void* moved(const void* buffer, std::int64_t bytes) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(buffer) +
                                         static_cast<std::uintptr_t>(bytes));
  }
  static Elements<Abi> elements(const void* buffer, std::int64_t count, Type type) {
    return {buffer, static_cast<std::size_t>(count), type, datatypes().layout_of(type)};
  }
  // The same, so many elements of the type further on.
  static Elements<Abi> elements_at(const void* buffer,
                                   std::int64_t offset,
                                   std::int64_t count,
                                   Type type) {
    Elements<Abi> all = elements(buffer, count, type);
    all.place = moved(buffer, offset * all.layout.extent);
    return all;
  }
  // A block a rank, its displacement in elements of the type.
  static bool are_valid(
      const void* buffer, const N* counts, const D* displacements, Type type, const Taken& taken) {
    return counts != nullptr && displacements != nullptr && is_valid(buffer, 0, type) &&
           std::all_of(counts, counts + taken.size, [](N count) { return count >= 0; });
  }
  static void add_blocks(Blocks<Abi>& blocks,
                         const void* buffer,
                         const N* counts,
                         const D* displacements,
                         Type type,
                         const Taken& taken) {
    const Layout layout = datatypes().layout_of(type);
    for (int rank = 0; rank < taken.size; ++rank) {
      const auto offset = static_cast<std::intptr_t>(displacements[rank]) * layout.extent;
      const auto count = static_cast<std::size_t>(counts[rank]);
      blocks.add({moved(buffer, offset), count, type, layout});
    }
  }
  // The same with a type a rank; displacements are in bytes.
  static void add_blocks(Blocks<Abi>& blocks,
                         const void* buffer,
                         const N* counts,
                         const D* displacements,
                         const Type* types,
                         const Taken& taken) {
    for (int rank = 0; rank < taken.size; ++rank) {
      blocks.add(elements(moved(buffer, displacements[rank]), counts[rank], types[rank]));
    }
  }
  static bool are_valid(const void* buffer,
                        const N* counts,
                        const D* displacements,
                        const Type* types,
                        const Taken& taken) {
    if (counts == nullptr || displacements == nullptr || types == nullptr) {
      return false;
    }
    for (int rank = 0; rank < taken.size; ++rank) {
      if (!is_valid(buffer, counts[rank], types[rank])) {
        return false;
      }
    }
    return true;
  }

  template <class Types>
  static int exchange(Taken& taken,
                      const void* send,
                      const N* send_counts,
                      const D* send_displacements,
                      Types send_types,
                      void* recv,
                      const N* recv_counts,
                      const D* recv_displacements,
                      Types recv_types);
  // What both forms of reduce_scatter are, where every rank gets as many elements.
  static int reduce_scatter_evenly(
      Taken& taken, const void* send, void* recv, std::int64_t count, const Reduction& reduction);
};

}  // namespace sennit_mpi

// The MPI's call with the same arguments; `entries` is evaluated only where it is needed.
#define SENNIT_MPI_PASS(stem, entries, ...) \
  pass_on(                                  \
      same_width().stem, front().functions.plain.stem, [&] { return entries; }, comm, __VA_ARGS__)
