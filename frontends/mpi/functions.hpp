// Functions: what the MPI itself does, PMPI_X, for the ABI at hand.
#pragma once

#include "library.hpp"

#include <cstdint>
#include <string>
#include <type_traits>

// A list in parentheses without them.
#define SENNIT_MPI_LIST(...) __VA_ARGS__

namespace sennit_mpi {

// An address, or a place in a file, which has 64 bits in calls of every width: another type than
// that of counts of 64 bits, which may have to be narrowed.
using Address = long long;
static_assert(!std::is_same_v<Address, std::int64_t> && sizeof(Address) == sizeof(std::int64_t));

template <class Abi>
struct Functions {
  using Comm = typename Abi::Comm;
  using Type = typename Abi::Type;
  using Op = typename Abi::Op;
  using Group = typename Abi::Group;
  using Errhandler = typename Abi::Errhandler;
  using Request = typename Abi::Request;
  using Info = typename Abi::Info;
  using Message = typename Abi::Message;
  using Window = typename Abi::Window;
  using File = typename Abi::File;

  // The collectives, with counts N and displacements D, their nonblocking and persistent forms, and
  // messages. Persistent collectives are null where the MPI is older than MPI 4.
  template <class N, class D>
  struct Counted {
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries) \
  int(*stem) parameters = nullptr;                                                     \
  int (*i_##stem)(SENNIT_MPI_LIST parameters, Request * request) = nullptr;            \
  int (*init_##stem)(SENNIT_MPI_LIST parameters, Info info, Request * request) = nullptr;
#define SENNIT_MPI_NEIGHBOUR SENNIT_MPI_COLLECTIVE
#define SENNIT_MPI_PASSED(name, stem, form, errors, parameters, arguments) \
  int(*stem) parameters = nullptr;
#define SENNIT_MPI_OTHER(name, stem, parameters)
#include "calls.def"
  };
  Counted<int, int> plain;
  Counted<std::int64_t, std::int64_t> large;  // null where the MPI is older than MPI 4
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries)
#define SENNIT_MPI_OTHER(name, stem, parameters) int(*stem) parameters = nullptr;
#include "calls.def"

  struct Needed {
#define SENNIT_MPI_NEEDED(name, member, parameters) int(*member) parameters = nullptr;
#include "needed.def"
  };
  Needed mpi;

  explicit Functions(const Library& library) {
    const auto take = [&](auto& function, const std::string& name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          library.function("PMPI_" + name));
    };
#define SENNIT_MPI_UNCOUNTED(name, nonblocking, stem, parameters, arguments, entries) \
  take(plain.stem, #name);                                                            \
  take(plain.i_##stem, #nonblocking);                                                 \
  take(plain.init_##stem, #name "_init");
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, parameters, arguments, entries) \
  SENNIT_MPI_UNCOUNTED(name, nonblocking, stem, parameters, arguments, entries)        \
  take(large.stem, #name "_c");                                                        \
  take(large.i_##stem, #nonblocking "_c");                                             \
  take(large.init_##stem, #name "_init_c");
#define SENNIT_MPI_NEIGHBOUR SENNIT_MPI_COLLECTIVE
#define SENNIT_MPI_PASSED_UNCOUNTED(name, stem, form, errors, parameters, arguments) \
  take(plain.stem, #name);
#define SENNIT_MPI_PASSED(name, stem, form, errors, parameters, arguments) \
  take(plain.stem, #name);                                                 \
  take(large.stem, #name "_c");
#define SENNIT_MPI_OTHER(name, stem, parameters) take(stem, #name);
#include "calls.def"
#define SENNIT_MPI_NEEDED(name, member, parameters) take(mpi.member, #name);
#include "needed.def"
  }
};

}  // namespace sennit_mpi
