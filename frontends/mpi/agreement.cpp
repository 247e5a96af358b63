#include "agreement.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>

namespace sennit_mpi {
namespace {

template <std::size_t kSize>
void store(std::array<char, kSize>& to, const std::string& text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
}

// While they join: a connection and a descriptor of each other rank's process, the segment. After
// that the process keeps one descriptor of each other process. And the program's own needs, which
// are not for us to use up.
bool has_descriptors(int ranks) {
  constexpr rlim_t kLeftToProgram = 64;
  rlimit limit{};
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return folder != nullptr && ::closedir(folder) == 0;
  }
  rlim_t open = 0;
  while (::readdir(folder) != nullptr) {
    ++open;
  }
  ::closedir(folder);
  return open + 2 * static_cast<rlim_t>(ranks) + kLeftToProgram <= limit.rlim_cur;
}

std::uint64_t network_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Facts facts_of_process(int ranks, const std::string& settings) {
  Facts facts;
  store(facts.version, sennit_version_string());
  store(facts.settings, settings);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  store(facts.boot, boot);
  facts.network = network_namespace();
  facts.user = ::geteuid();
  facts.can_open = has_descriptors(ranks) ? 1 : 0;
  return facts;
}

std::string obstacle(std::span<const Facts> facts, bool takes_nodes) {
  const auto all_have = [&](auto member) {
    return std::ranges::all_of(facts, [&](const Facts& one) { return one.*member != 0; });
  };
  const auto differ = [&](auto member) {
    return std::ranges::any_of(
        facts, [&](const Facts& one) { return one.*member != facts.front().*member; });
  };
  if (!all_have(&Facts::is_of_job)) {
    return "ranks of another MPI_COMM_WORLD";
  }
  if (differ(&Facts::version)) {
    return "different versions of the library";
  }
  if (differ(&Facts::settings)) {
    return "different values of SENNIT_MPI_AFTER, SENNIT_MPI_NODES or SENNIT_MPI_PASS, or "
           "SENNIT_CODEC on "
           "some alone";
  }
  if (!takes_nodes && differ(&Facts::boot)) {
    return "several nodes";
  }
  if (!takes_nodes && differ(&Facts::network)) {
    return "several network namespaces";
  }
  if (differ(&Facts::user)) {
    return "several users";
  }
  if (!all_have(&Facts::has_room)) {
    return "too many persistent requests";
  }
  if (!all_have(&Facts::can_open)) {
    return "too few file descriptors (ulimit -n)";
  }
  return {};
}

}  // namespace sennit_mpi
