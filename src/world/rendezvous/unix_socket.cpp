#include "world/rendezvous/unix_socket.hpp"

#include "base/sha256.hpp"
#include "world/rendezvous/frame.hpp"
#include "world/rendezvous/process.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace sennit {
namespace {

UniqueFd open_socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Status socket_failure(std::string_view what, const SocketAddress& address) {
  if (errno == EMFILE || errno == ENFILE) {
    return descriptor_shortage(1);
  }
  return fail(
      Code::kSystemError, "{} of the rendezvous {}: {}", what, address.text, std::strerror(errno));
}

Status held_by_other_user(const SocketAddress& address, const ucred& holder) {
  ErrorDetail detail;
  detail.evidence =
      fmt::format("pid {} of uid {} holds it, this is uid {}", holder.pid, holder.uid, geteuid());
  detail.next = "set SENNIT_SOCKET_DIR to a folder of mode 0700 of your own, or use another key";
  return {Code::kSystemError,
          fmt::format("the rendezvous {} is held by another user", address.text),
          detail};
}

// Opens the folder itself, so that what is checked is what is used.
Result<UniqueFd> open_private_folder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) {
    return fail(Code::kInvalidArgument,
                "SENNIT_SOCKET_DIR='{}' cannot be opened as a folder: {}",
                folder,
                std::strerror(errno));
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return fail(
        Code::kInvalidArgument,
        "SENNIT_SOCKET_DIR='{}' has owner {} and mode {:04o}; allowed: owner {} and mode 0700, so "
        "that no other user can reach the socket",
        folder,
        info.st_uid,
        info.st_mode & 07777u,
        geteuid());
  }
  return fd;
}

// A file at the address to which nobody listens was left by a rank that was killed. The caller
// holds the lock of the folder, so it cannot be one that is just being made.
Result<bool> remove_if_stale(const SocketAddress& address) {
  const UniqueFd probe = open_socket();
  if (!probe.valid()) {
    return socket_failure("probing", address);
  }
  const int connected =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length);
  if (connected == 0 || errno != ECONNREFUSED) {
    return false;
  }
  return unlink(address.address.sun_path) == 0 || errno == ENOENT;
}

// The socket file that `text` names; nothing when the name is too long.
std::optional<SocketAddress> path_address(const std::string& folder, std::string text) {
  SocketAddress result;
  result.folder = folder;
  result.text = std::move(text);
  result.address.sun_family = AF_UNIX;
  if (result.text.size() >= sizeof result.address.sun_path) {
    return std::nullopt;
  }
  std::memcpy(result.address.sun_path, result.text.data(), result.text.size());
  // A path ends with a zero, an abstract name does not.
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + result.text.size() + 1);
  return result;
}

// Removes what killed ranks of this user's other jobs have left in the folder, whose lock the
// caller holds. What cannot be removed now stays for the next.
void sweep(const SocketAddress& address) {
  const std::string prefix = fmt::format("sennit-{}-", geteuid());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(address.folder, error)) {
    const std::string path = entry.path();
    const bool ours = entry.path().filename().string().starts_with(prefix);
    if (ours && path != address.text && entry.is_socket(error)) {
      if (const auto other = path_address(address.folder, path); other) {
        static_cast<void>(remove_if_stale(*other).ok());
      }
    }
  }
}

bool bind_to(const UniqueFd& socket, const SocketAddress& address) {
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length) ==
         0;
}

// Takes the descriptors out of the control data, whatever else is in there.
std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + index * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * kMaxFdsPerFrame);

}  // namespace

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    reset();
    socket_ = std::move(other.socket_);
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

void Listener::reset() {
  // The file first: whoever finds no file tries again, whoever finds a dead one might remove the
  // next.
  if (!path_.empty()) {
    unlink(path_.c_str());
    path_.clear();
  }
  socket_.reset();
}

Result<SocketAddress> rendezvous_address(std::string_view key, const std::string& folder) {
  const std::string name = fmt::format("sennit-{}-{}", geteuid(), sha256_hex(key).substr(0, 16));
  auto result = path_address(folder, folder.empty() ? "@" + name : folder + "/" + name);
  if (!result) {
    return fail(Code::kInvalidArgument,
                "SENNIT_SOCKET_DIR='{}' is too long; allowed: at most {} bytes",
                folder,
                sizeof result->address.sun_path - name.size() - 2);
  }
  if (folder.empty()) {
    result->address.sun_path[0] = '\0';
    --result->length;
  } else {
    SENNIT_RETURN_IF_ERROR(open_private_folder(folder).status());
  }
  return *std::move(result);
}

Result<ListenAttempt> try_listen(const SocketAddress& address) {
  UniqueFd folder;
  if (!address.folder.empty()) {
    SENNIT_ASSIGN_OR_RETURN(folder, open_private_folder(address.folder));
    if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
      return ListenAttempt{};  // another rank 0 is just looking at the folder
    }
    sweep(address);
  }
  UniqueFd socket = open_socket();
  if (!socket.valid()) {
    return socket_failure("socket", address);
  }
  bool bound = bind_to(socket, address);
  if (!bound && errno == EADDRINUSE && folder.valid()) {
    SENNIT_ASSIGN_OR_RETURN(const bool removed, remove_if_stale(address));
    bound = removed && bind_to(socket, address);
    errno = EADDRINUSE;
  }
  if (!bound && errno == EADDRINUSE) {
    SENNIT_ASSIGN_OR_RETURN(const UniqueFd probe, try_connect(address));
    return ListenAttempt{{}, probe.valid() ? peer_of(probe.get()).pid : 0};
  }
  if (!bound) {
    return socket_failure("bind", address);
  }
  Listener listener(std::move(socket), address.folder.empty() ? "" : address.text);
  if (listen(listener.get(), SOMAXCONN) != 0) {
    return socket_failure("listen", address);
  }
  return ListenAttempt{std::move(listener), 0};
}

void remove_what_is_left(const SocketAddress& address) {
  if (address.folder.empty()) {
    return;
  }
  const Result<UniqueFd> folder = open_private_folder(address.folder);
  if (folder.ok() && flock(folder->get(), LOCK_EX | LOCK_NB) == 0) {
    static_cast<void>(remove_if_stale(address).ok());
  }
}

Result<UniqueFd> try_connect(const SocketAddress& address) {
  UniqueFd socket = open_socket();
  if (!socket.valid()) {
    return socket_failure("socket", address);
  }
  int result = 0;
  do {
    result =
        connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT || errno == EAGAIN) {
      return UniqueFd();
    }
    return socket_failure("connect", address);
  }
  const ucred peer = peer_of(socket.get());
  if (peer.uid != geteuid()) {
    return held_by_other_user(address, peer);
  }
  return socket;
}

ucred peer_of(int socket) {
  ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return {0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  }
  return peer;
}

SendState send_message(int socket, std::string_view bytes, std::span<const int> fds) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return SendState::kSent;
  }
  if (errno == ETOOMANYREFS) {
    return SendState::kFdsInFlight;
  }
  const bool busy = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
  return busy ? SendState::kBusy : SendState::kClosed;
}

Received receive_message(int socket, std::size_t max_bytes, int max_fds) {
  Received received;
  received.bytes.resize(max_bytes);
  iovec part{received.bytes.data(), received.bytes.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * static_cast<std::size_t>(max_fds));
  ssize_t got = 0;
  bool reset_seen = false;
  for (;;) {
    got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that closed without reading our last message causes one ECONNRESET, in front of the
    // messages that it sent before and that are still there to read.
    const bool first_reset = got < 0 && errno == ECONNRESET && !std::exchange(reset_seen, true);
    if (got >= 0 || (errno != EINTR && !first_reset)) {
      break;
    }
  }
  if (got < 0) {
    const bool nothing = errno == EAGAIN || errno == EWOULDBLOCK;
    received.state = nothing ? ReceiveState::kNothing : ReceiveState::kClosed;
    received.bytes.clear();
    return received;
  }
  received.bytes.resize(static_cast<std::size_t>(got));
  // Also of an empty message, which looks like the end of the connection: it may carry descriptors.
  received.fds = take_fds(message);
  if (got == 0) {
    received.state = ReceiveState::kClosed;
    return received;
  }
  const bool fds_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (fds_cut && received.fds.size() < static_cast<std::size_t>(max_fds)) {
    received.state = ReceiveState::kNoDescriptors;
  } else if (fds_cut || (message.msg_flags & MSG_TRUNC) != 0) {
    received.state = ReceiveState::kMalformed;
  } else {
    received.state = ReceiveState::kMessage;
  }
  return received;
}

}  // namespace sennit
