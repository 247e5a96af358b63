// The ways of Sennit that sennit-compare times, not only its own choice.
#pragma once

#include "compare_options.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sennit_bench {

// What a call asks for; empty: Sennit's choice.
struct Variant {
  std::string name;
  std::string path;
  std::string protocol;
};

// As --against says, where the ways can run a call of so many bytes.
std::vector<Variant> variants_of(const Options& options,
                                 const std::string& collective,
                                 std::size_t bytes);

}  // namespace sennit_bench
