#include "channel/wake_socket.hpp"

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace sennit {
namespace {

// The system makes up names of five hexadecimal digits (unix(7), autobind).
constexpr int kNameDigits = 5;
constexpr int kCountBits = 12;
constexpr socklen_t kNameBytes = offsetof(sockaddr_un, sun_path) + 1 + kNameDigits;

int open_socket() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

WakeSocket::WakeSocket() : socket_(open_socket()) {
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t bytes = sizeof(name);
  const bool is_bound =
      socket_.valid() &&
      ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(sa_family_t)) == 0 &&
      ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name), &bytes) == 0 &&
      bytes == kNameBytes;
  if (is_bound) {
    const std::string digits(name.sun_path + 1, kNameDigits);
    const auto number = static_cast<std::uint32_t>(std::strtoul(digits.c_str(), nullptr, 16));
    announcement_ = number << kCountBits;
  }
  // Number 0 would look like none.
  if (announcement_ == 0) {
    socket_.reset();
  }
}

bool WakeSocket::announce(Doorbell& bell) {
  {
    const std::scoped_lock guard(mutex_);
    bell.sleepers.fetch_add(1 + (sleepers_++ == 0 ? announcement_ : 0), std::memory_order_seq_cst);
  }
  // Partner: wake(), as for sleep_on().
  return barrier_on_all_cores() && socket_.valid();
}

void WakeSocket::withdraw(Doorbell& bell) {
  const std::scoped_lock guard(mutex_);
  bell.sleepers.fetch_sub(1 + (--sleepers_ == 0 ? announcement_ : 0), std::memory_order_seq_cst);
  if (sleepers_ == 0 && socket_.valid()) {
    std::array<char, 1> datagram{};
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
    while (::recv(socket_.get(), datagram.data(), datagram.size(), 0) >= 0) {
    }
  }
}

void WakeSocket::send_to(std::uint32_t sleepers) {
  const std::uint32_t number = sleepers >> kCountBits;
  if (number == 0) {
    return;
  }
  static const int kSender = open_socket();
  if (kSender < 0) {
    return;
  }
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  // The first character stays 0: the name is in no file system.
  fmt::format_to_n(name.sun_path + 1, kNameDigits, "{:05x}", number);
  // A socket that is full wakes its owner anyway; one that is gone has nobody who sleeps.
  const char datagram = 0;
  static_cast<void>(::sendto(kSender,
                             &datagram,
                             sizeof(datagram),
                             MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&name),
                             kNameBytes));
}

}  // namespace sennit
