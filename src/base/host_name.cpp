#include "base/host_name.hpp"

#include <unistd.h>

#include <array>

namespace sennit {

std::string host_name() {
  std::array<char, 65> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown-host";
}

}  // namespace sennit
