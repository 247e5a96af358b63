#include "world/nodes/node_link.hpp"

#include "world/rendezvous/process.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace sennit {

SecureStream::Nonce random_nonce() {
  SecureStream::Nonce nonce{};
  const Token first = random_token();
  const Token second = random_token();
  std::ranges::copy(first, nonce.begin());
  std::ranges::copy(second, nonce.begin() + first.size());
  return nonce;
}

NodeLink::State NodeLink::pump() {
  if (state_ == State::kProving || state_ == State::kOpen) {
    write_some();
  }
  if (state_ == State::kProving || state_ == State::kOpen) {
    read_some();
  }
  if (state_ == State::kProving || state_ == State::kOpen) {
    write_some();  // an answer
  }
  return state_;
}

void NodeLink::send(std::uint16_t type, std::string_view payload) {
  stream_.send(type, payload);
  if (state_ == State::kOpen) {
    write_some();
  }
}

void NodeLink::flush(Deadline::Clock::time_point until) {
  while (has_output_ && state_ == State::kOpen && Deadline::Clock::now() < until) {
    pollfd watched{socket_.get(), POLLOUT, 0};
    poll(&watched, 1, Deadline::poll_ms(until));
    write_some();
  }
}

short NodeLink::events() const {
  return static_cast<short>(has_output_ ? POLLIN | POLLOUT : POLLIN);
}

std::optional<StreamMessage> NodeLink::next() {
  std::optional<StreamMessage> message = stream_.next();
  if (stream_.state() == SecureStream::State::kBroken) {
    state_ = State::kClosed;
  }
  return message;
}

void NodeLink::read_some() {
  // Bounded, so that one connection cannot keep the caller from the others.
  constexpr int kMostReads = 16;
  std::array<char, std::size_t{64} * 1024> bytes;
  for (int reads = 0; reads < kMostReads; ++reads) {
    if (stream_.state() == SecureStream::State::kBroken) {
      state_ = State::kClosed;  // by a message that was taken since
      return;
    }
    const std::size_t wanted = std::min(stream_.appetite(), bytes.size());
    if (wanted == 0) {
      break;
    }
    const ssize_t got = recv(socket_.get(), bytes.data(), wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
        end(got == 0 ? 0 : errno);
      }
      return;
    }
    stream_.feed({bytes.data(), static_cast<std::size_t>(got)});
    if (stream_.state() == SecureStream::State::kBroken) {
      state_ = State::kClosed;
      return;
    }
    if (stream_.state() == SecureStream::State::kOpen) {
      state_ = State::kOpen;
    }
  }
}

void NodeLink::write_some() {
  std::string& output = stream_.output();
  std::size_t sent = 0;
  while (sent < output.size()) {
    const ssize_t count = ::send(
        socket_.get(), output.data() + sent, output.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      // Of a connection that the other end has closed, more can be read: first what it has said.
      if (errno == ETIMEDOUT || errno == EHOSTUNREACH) {
        end(errno);
      } else if (errno == EPIPE || errno == ECONNRESET) {
        sent = output.size();
      }
      break;
    }
    sent += static_cast<std::size_t>(count);
  }
  output.erase(0, sent);
  has_output_ = !output.empty();
}

void NodeLink::end(int error) {
  const bool is_lost = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  state_ = is_lost ? State::kLost : State::kClosed;
}

}  // namespace sennit
