// Unix sockets of the rendezvous. They are SOCK_SEQPACKET: a message arrives whole or not at all,
// so there is no half-read frame to keep and to wait for. All sockets are non-blocking and
// close-on-exec.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct SocketAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  std::string text;    // for messages: "@sennit-1000-0123456789abcdef" or a path
  std::string folder;  // empty: abstract, without a file
};

// `folder` is SENNIT_SOCKET_DIR: empty for an abstract name, else it must be this user's alone.
Result<SocketAddress> rendezvous_address(std::string_view key, const std::string& folder);

// A listening socket. Removes its file, if it has one, together with itself.
class Listener {
 public:
  Listener() = default;
  Listener(UniqueFd socket, std::string path)
      : socket_(std::move(socket)), path_(std::move(path)) {}
  ~Listener() { reset(); }
  Listener(Listener&& other) noexcept
      : socket_(std::move(other.socket_)), path_(std::exchange(other.path_, {})) {}
  Listener& operator=(Listener&& other) noexcept;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int get() const { return socket_.get(); }
  [[nodiscard]] bool valid() const { return socket_.valid(); }
  void reset();

 private:
  UniqueFd socket_;
  std::string path_;
};

// An invalid Listener: a process of this user has the name now; `holder` is its pid, 0 if not
// known.
struct ListenAttempt {
  Listener listener;
  pid_t holder = 0;
};
Result<ListenAttempt> try_listen(const SocketAddress& address);

// Removes the file of a rank 0 that was killed; for ranks that gave up waiting for it.
void remove_what_is_left(const SocketAddress& address);

// An invalid descriptor: nobody listens now, or more connections wait than the system keeps. The
// other end belongs to this user, else it is an error.
Result<UniqueFd> try_connect(const SocketAddress& address);

ucred peer_of(int socket);

enum class SendState {
  kSent,
  kBusy,         // the other end has to read first
  kFdsInFlight,  // the user has too many descriptors in messages that nobody has read: wait a
                 // little
  kClosed,
};
SendState send_message(int socket, std::string_view bytes, std::span<const int> fds);

enum class ReceiveState {
  kMessage,
  kNothing,        // no message waits
  kMalformed,      // longer than allowed, or with more descriptors than allowed
  kNoDescriptors,  // this process has no room for the descriptors of the message
  kClosed,
};
struct Received {
  ReceiveState state = ReceiveState::kNothing;
  std::string bytes;
  std::vector<UniqueFd> fds;
};
Received receive_message(int socket, std::size_t max_bytes, int max_fds);

}  // namespace sennit
