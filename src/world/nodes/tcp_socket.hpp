// TCP sockets between nodes. All are non-blocking and close-on-exec.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct TcpAddress {
  sockaddr_storage address{};
  socklen_t length = 0;

  [[nodiscard]] TcpAddress with_port(std::uint16_t port) const;
  [[nodiscard]] std::string host() const;  // in numbers
  [[nodiscard]] std::string text() const;  // with the port: "10.0.0.7:4711", "[fd00::7]:4711"
  [[nodiscard]] bool is_loopback() const;
};

// All addresses of a name, link-local ones left out; kSystemError when there are none.
Result<std::vector<TcpAddress>> resolve(const std::string& host);

// Of this machine's interfaces, neither loopback nor link-local, at most `most`; first that from
// which it reaches others by default.
std::vector<TcpAddress> own_addresses(std::size_t most);

// Listens on one of this machine's addresses. Invalid: the port is taken, or the address is none of
// this machine's (see errno).
UniqueFd try_listen(const TcpAddress& address);
// "0.0.0.0" and "::".
std::vector<TcpAddress> any_addresses();

// Begins to connect; invalid: it has failed already. It ends when poll() finds it writable.
UniqueFd begin_connect(const TcpAddress& address);
// Of a connection that has begun: whether it stands.
bool is_connected(int socket);

UniqueFd accept_tcp(int listener);

// The other end of a connection.
TcpAddress peer_address(int socket);

// Small messages go at once, and a peer whose machine is gone is noticed: `seconds` after it has
// last answered, the connection ends with ETIMEDOUT. A peer that is busy or stopped stays.
void watch_connection(int socket, double seconds);

}  // namespace sennit
