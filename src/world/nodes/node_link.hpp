// NodeLink: a TCP connection between two ranks of a job on several nodes.
#pragma once

#include "base/fd.hpp"
#include "world/nodes/secure_stream.hpp"
#include "world/rendezvous/deadline.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace sennit {

// A number that serves once.
SecureStream::Nonce random_nonce();

class NodeLink {
 public:
  NodeLink(UniqueFd socket, SecureStream stream)
      : socket_(std::move(socket)), stream_(std::move(stream)) {}

  enum class State {
    kProving,
    kOpen,
    kClosed,  // by the other end, or because it is not of this job
    kLost,    // its machine no longer answers
  };

  // Reads and writes what can be without waiting.
  State pump();
  std::optional<StreamMessage> next();
  // Queues the message, and sends what can be sent now.
  void send(std::uint16_t type, std::string_view payload);
  // Until all has been handed to the system, `until` has passed or the connection has ended.
  void flush(Deadline::Clock::time_point until);

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const SecureStream& stream() const { return stream_; }
  [[nodiscard]] bool has_output() const { return has_output_; }
  // For poll(2).
  [[nodiscard]] short events() const;

 private:
  void read_some();
  void write_some();
  void end(int error);

  UniqueFd socket_;
  SecureStream stream_;
  State state_ = State::kProving;
  bool has_output_ = false;
};

}  // namespace sennit
