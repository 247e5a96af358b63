// The table from names to functions, for one ABI; a file each makes it (mpich.cpp, openmpi.cpp).
#pragma once

#include "calls.hpp"
#include "device_roles.hpp"
#include "exchanges.hpp"
#include "front.hpp"
#include "movements.hpp"
#include "neighbour_calls.hpp"
#include "passed_calls.hpp"
#include "reductions.hpp"
#include "waits.hpp"

#include "sennit/sennit.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sennit_mpi {

template <class Abi>
int finalize() {
  return front_in_use<Abi>->finalize();
}

template <class Abi>
void start_front(Library library, Settings settings) {
  // Never freed: programs call MPI in destructors of their own globals.
  front_in_use<Abi> = new Front<Abi>(library, std::move(settings));
}

template <class Abi>
void* function_named(const std::string& name) {
  using Plain = Calls<Abi, int, int>;
  using Large = Calls<Abi, std::int64_t, std::int64_t>;
  using PlainPassed = PassedCalls<Abi, int, int>;
  using LargePassed = PassedCalls<Abi, std::int64_t, std::int64_t>;
  using PlainOfNeighbours = NeighbourCalls<Abi, int, int>;
  using LargeOfNeighbours = NeighbourCalls<Abi, std::int64_t, std::int64_t>;
  const struct {
    std::string_view name;
    void* function;
  } functions[] = {
#define SENNIT_MPI_UNCOUNTED(name, nonblocking, stem, ...)       \
  {#name, reinterpret_cast<void*>(&Plain::stem)},                \
      {#nonblocking, reinterpret_cast<void*>(&Plain::i_##stem)}, \
      {#name "_init", reinterpret_cast<void*>(&Plain::init_##stem)},
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, stem, ...)           \
  SENNIT_MPI_UNCOUNTED(name, nonblocking, stem, __VA_ARGS__){         \
      #name "_c", reinterpret_cast<void*>(&Large::stem)},             \
      {#nonblocking "_c", reinterpret_cast<void*>(&Large::i_##stem)}, \
      {#name "_init_c", reinterpret_cast<void*>(&Large::init_##stem)},
#define SENNIT_MPI_NEIGHBOUR(name, nonblocking, stem, ...)                        \
  {#name, reinterpret_cast<void*>(&PlainOfNeighbours::stem)},                     \
      {#nonblocking, reinterpret_cast<void*>(&PlainOfNeighbours::i_##stem)},      \
      {#name "_init", reinterpret_cast<void*>(&PlainOfNeighbours::init_##stem)},  \
      {#name "_c", reinterpret_cast<void*>(&LargeOfNeighbours::stem)},            \
      {#nonblocking "_c", reinterpret_cast<void*>(&LargeOfNeighbours::i_##stem)}, \
      {#name "_init_c", reinterpret_cast<void*>(&LargeOfNeighbours::init_##stem)},
#define SENNIT_MPI_PASSED_UNCOUNTED(name, stem, ...) \
  {#name, reinterpret_cast<void*>(&PlainPassed::stem)},
#define SENNIT_MPI_PASSED(name, stem, ...) \
  SENNIT_MPI_PASSED_UNCOUNTED(name, stem){#name "_c", reinterpret_cast<void*>(&LargePassed::stem)},
#define SENNIT_MPI_OTHER(name, stem, parameters) {#name, reinterpret_cast<void*>(&stem<Abi>)},
#include "calls.def"
  };
  for (const auto& [known, function] : functions) {
    if (known == name) {
      return function;
    }
  }
  return nullptr;
}

}  // namespace sennit_mpi
