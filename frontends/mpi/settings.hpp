// Settings: what the environment says to the front end (src/base/env.def has the variables).
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace sennit_mpi {

// The calls of calls.def.
enum class Call : unsigned char {
#define SENNIT_MPI_COLLECTIVE(name, nonblocking, ...) k##name, k##nonblocking, k##name##_init,
#define SENNIT_MPI_OTHER(name, ...) k##name,
#include "calls.def"
};
constexpr std::size_t kCalls = static_cast<std::size_t>(Call::kFinalize) + 1;

struct Settings {
  bool is_off = false;                // every call goes straight to the MPI
  bool tells_share = false;           // what was taken and what was passed on, at the end
  bool takes_nodes = false;           // communicators on several nodes run on the library
  bool has_codecs = false;            // there are rules for codecs
  int after = 2;                      // blocking collectives that are passed on before an engine
  std::array<bool, kCalls> passed{};  // calls that are always passed on

  // What is wrong with a value is written to standard error, and the default taken.
  static Settings from_environment();

  [[nodiscard]] bool passes(Call call) const { return passed[static_cast<std::size_t>(call)]; }
  // What has to be the same on all ranks.
  [[nodiscard]] std::string shared() const;
};

}  // namespace sennit_mpi
