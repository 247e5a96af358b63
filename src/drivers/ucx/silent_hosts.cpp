#include "drivers/ucx/silent_hosts.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <net/if.h>  // NOLINT(misc-include-cleaner): IFF_RUNNING

namespace sennit::ucx {
namespace {

constexpr unsigned kSilenceMs = 1500;
// They begin at 200 ms and double: 1.4 s have passed.
constexpr unsigned kRetransmissions = 3;
// Where the other end has no room, the kernel sends empty probes in the place of data. One or two
// may be left unanswered, since answers have a limited rate.
constexpr unsigned kProbes = 3;
// A host that answers each retransmission with "no room" does not acknowledge, and lives. Its last
// answer is as old as the last retransmission.
constexpr unsigned kUnansweredMs = 500;
constexpr unsigned kAnswerMs = 50;

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const bytes =
      address.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  const char* const done = ::inet_ntop(address.ss_family, bytes, text.data(), text.size());
  return done == nullptr ? std::string() : std::string(done);
}

// Of getsockname or getpeername. Empty: `descriptor` is no connected socket of the internet.
std::string end_of(int descriptor, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  const bool is_known = ask(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
                        (address.ss_family == AF_INET || address.ss_family == AF_INET6);
  return is_known ? text_of(address) : std::string();
}

// Without a carrier retransmissions fail here: they are counted, do not become rarer, and no last
// one shows when an answer was due. Where the other end has no room they are not counted.
bool are_unanswered_retransmissions(const tcp_info& info, bool has_carrier) {
  return info.tcpi_unacked > 0 &&
         std::max(info.tcpi_retransmits, info.tcpi_backoff) >= kRetransmissions &&
         (!has_carrier || (info.tcpi_last_data_sent >= kAnswerMs &&
                           info.tcpi_last_ack_recv >= info.tcpi_last_data_sent + kUnansweredMs));
}

// The kernel counts probes since the last answer.
bool is_silent(int descriptor, bool has_carrier) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
         info.tcpi_state == TCP_ESTABLISHED && info.tcpi_last_ack_recv >= kSilenceMs &&
         (info.tcpi_probes >= kProbes || are_unanswered_retransmissions(info, has_carrier));
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Interfaces interfaces() {
  ifaddrs* found = nullptr;
  return {::getifaddrs(&found) == 0 ? found : nullptr, &::freeifaddrs};
}

bool is_of_internet(const ifaddrs& entry) {
  return entry.ifa_addr != nullptr &&
         (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6);
}

std::string address_of(const ifaddrs& entry) {
  return text_of(*reinterpret_cast<const sockaddr_storage*>(entry.ifa_addr));
}

bool has_carrier(const std::string& host) {
  const Interfaces found = interfaces();
  for (const ifaddrs* entry = found.get(); entry != nullptr; entry = entry->ifa_next) {
    if (is_of_internet(*entry) && address_of(*entry) == host) {
      return (entry->ifa_flags & IFF_RUNNING) != 0;
    }
  }
  return true;  // it is not known
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

std::string host_of(const std::string& interface) {
  const Interfaces found = interfaces();
  std::string host;
  for (const ifaddrs* entry = found.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_name != interface || !is_of_internet(*entry)) {
      continue;
    }
    const bool is_v4 = entry->ifa_addr->sa_family == AF_INET;
    if (is_v4 || host.empty()) {
      host = address_of(*entry);
    }
    if (is_v4) {
      break;
    }
  }
  return host;
}

std::vector<std::string> silent_hosts(const std::string& host) {
  std::vector<std::string> silent;
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc/self/fd"));
  if (host.empty() || folder == nullptr) {
    return silent;
  }
  const bool is_plugged = has_carrier(host);
  while (const dirent* const entry = ::readdir(folder.get())) {
    const int descriptor = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
    // What is no connection over TCP says so in the first of these.
    if (entry->d_name[0] != '.' && is_silent(descriptor, is_plugged) &&
        end_of(descriptor, &::getsockname) == host) {
      silent.push_back(end_of(descriptor, &::getpeername));
    }
  }
  return silent;
}

}  // namespace sennit::ucx
