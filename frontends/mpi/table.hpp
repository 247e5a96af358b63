// The table from names to functions, for one ABI; a file each makes it (mpich.cpp, openmpi.cpp).
#pragma once

#include "calls.hpp"
#include "device_roles.hpp"
#include "front.hpp"
#include "messages.hpp"
#include "movements.hpp"
#include "reductions.hpp"

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

// Most requests are none of ours; a program without ours pays a load for that.
template <class Abi>
Persistent<Abi>* persistent_requests() {
  auto* const running = front_in_use<Abi>->running();
  return running != nullptr && !running->persistent.is_empty() ? &running->persistent : nullptr;
}
template <class Abi>
int start(typename Abi::Request* request) {
  auto* const ours = persistent_requests<Abi>();
  return ours != nullptr ? ours->start(request) : front_in_use<Abi>->functions.start(request);
}
template <class Abi>
int start_all(int count, typename Abi::Request* requests) {
  auto* const ours = persistent_requests<Abi>();
  return ours != nullptr ? ours->start_all(count, requests)
                         : front_in_use<Abi>->functions.start_all(count, requests);
}
template <class Abi>
int request_free(typename Abi::Request* request) {
  if (auto* const ours = persistent_requests<Abi>()) {
    ours->forget(*request);
  }
  auto* const running = front_in_use<Abi>->running();
  if (running != nullptr && running->requests.forget(*request)) {
    *request = front_in_use<Abi>->abi.request_null();
    return 0;
  }
  return front_in_use<Abi>->functions.request_free(request);
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
#define SENNIT_MPI_MESSAGE(name, stem, ...)                         \
  {#name, reinterpret_cast<void*>(&Messages<Abi, int, int>::stem)}, \
      {#name "_c", reinterpret_cast<void*>(&Messages<Abi, std::int64_t, std::int64_t>::stem)},
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
