#include "world/nodes/tcp_socket.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <net/if.h>  // IWYU pragma: keep: IFF_UP

namespace sennit {
namespace {

bool is_link_local(const TcpAddress& address) {
  if (address.address.ss_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address.address);
    return (ntohl(ip.sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254.0.0/16
  }
  const auto& ip = reinterpret_cast<const sockaddr_in6&>(address.address);
  return IN6_IS_ADDR_LINKLOCAL(&ip.sin6_addr);
}

const sockaddr* raw(const TcpAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.address);
}

UniqueFd open_socket(const TcpAddress& address) {
  return UniqueFd(
      socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

// The address of this machine on the way to an address that nobody has (192.0.2.0/24 is for
// documentation). Connecting a UDP socket sends nothing.
std::string default_source() {
  TcpAddress address;
  auto& ip = reinterpret_cast<sockaddr_in&>(address.address);
  ip.sin_family = AF_INET;
  ip.sin_addr.s_addr = htonl(0xc0000201);
  ip.sin_port = htons(9);
  address.length = sizeof(sockaddr_in);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  TcpAddress own;
  own.length = sizeof own.address;
  if (!socket.valid() || connect(socket.get(), raw(address), address.length) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.address), &own.length) != 0) {
    return {};
  }
  return own.host();
}

void set_option(int socket, int level, int option, int value) {
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof value));
}

}  // namespace

TcpAddress TcpAddress::with_port(std::uint16_t port) const {
  TcpAddress result = *this;
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(result.address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(result.address).sin6_port = htons(port);
  }
  return result;
}

std::string TcpAddress::host() const {
  std::array<char, NI_MAXHOST> name{};
  if (getnameinfo(raw(*this), length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return name.data();
}

std::string TcpAddress::text() const {
  const bool is_v4 = address.ss_family == AF_INET;
  const std::uint16_t port = is_v4 ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  return is_v4 ? fmt::format("{}:{}", host(), ntohs(port))
               : fmt::format("[{}]:{}", host(), ntohs(port));
}

bool TcpAddress::is_loopback() const {
  if (address.ss_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(ip.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& ip = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&ip.sin6_addr);
}

Result<std::vector<TcpAddress>> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<TcpAddress> addresses;
  for (const addrinfo* entry = error == 0 ? found : nullptr; entry != nullptr;
       entry = entry->ai_next) {
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6) {
      TcpAddress address;
      std::memcpy(&address.address, entry->ai_addr, entry->ai_addrlen);
      address.length = entry->ai_addrlen;
      if (!is_link_local(address)) {
        addresses.push_back(address);
      }
    }
  }
  if (addresses.empty()) {
    return fail(Code::kSystemError,
                "the host '{}' has no address: {}",
                host,
                error != 0 ? gai_strerror(error) : "only link-local ones");
  }
  return addresses;
}

std::vector<TcpAddress> own_addresses(std::size_t most) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  std::vector<TcpAddress> addresses;
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    const int family = entry->ifa_addr == nullptr ? AF_UNSPEC : entry->ifa_addr->sa_family;
    if ((entry->ifa_flags & IFF_UP) == 0 || (family != AF_INET && family != AF_INET6)) {
      continue;
    }
    TcpAddress address;
    address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.address, entry->ifa_addr, address.length);
    if (!address.is_loopback() && !is_link_local(address)) {
      addresses.push_back(address);
    }
  }
  const std::string first = default_source();
  std::ranges::stable_partition(addresses,
                                [&](const auto& address) { return address.host() == first; });
  if (addresses.size() > most) {
    addresses.erase(addresses.begin() + static_cast<std::ptrdiff_t>(most), addresses.end());
  }
  return addresses;
}

UniqueFd try_listen(const TcpAddress& address) {
  UniqueFd socket = open_socket(address);
  if (!socket.valid()) {
    return socket;
  }
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.address.ss_family == AF_INET6) {
    set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  }
  if (bind(socket.get(), raw(address), address.length) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

std::vector<TcpAddress> any_addresses() {
  TcpAddress v4;
  v4.address.ss_family = AF_INET;
  v4.length = sizeof(sockaddr_in);
  TcpAddress v6;
  v6.address.ss_family = AF_INET6;
  v6.length = sizeof(sockaddr_in6);
  return {v4, v6};
}

UniqueFd begin_connect(const TcpAddress& address) {
  UniqueFd socket = open_socket(address);
  if (socket.valid() && connect(socket.get(), raw(address), address.length) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    socket.reset();
  }
  return socket;
}

bool is_connected(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

UniqueFd accept_tcp(int listener) {
  return UniqueFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

TcpAddress peer_address(int socket) {
  TcpAddress peer;
  peer.length = sizeof peer.address;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer.address), &peer.length) != 0) {
    peer.length = 0;
  }
  return peer;
}

void watch_connection(int socket, double seconds) {
  constexpr int kMillisecondsASecond = 1000;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set_option(
      socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(seconds * kMillisecondsASecond));
}

}  // namespace sennit
