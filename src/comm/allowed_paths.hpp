// AllowedPaths: what a list of paths (SENNIT_PATHS) lets a communicator use.
#pragma once

#include "base/status.hpp"

#include <string_view>

namespace sennit {

struct AllowedPaths {
  // Between host ranks; ranks with GPUs meet through them, too.
  bool shm = false;
  bool cma = false;
  // Between GPUs.
  bool nvlink = false;
  bool device = false;  // of ranks that share one
  bool host = false;
};

// "shm,cma". Ranks with GPUs may use all paths of a kind of which the list names none. What such
// ranks cannot use is refused by name.
Result<AllowedPaths> parse_paths(std::string_view text, bool have_devices);

}  // namespace sennit
