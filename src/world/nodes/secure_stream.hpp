// SecureStream: what two processes of a job on different nodes say to each other, as a stream of
// bytes in which nobody else can say anything. Nothing here touches a socket.
//
// First both ends prove that they know the key of the job, each with a code over the random numbers
// of both, so that no proof serves twice:
//
//   guest   magic, protocol, its rank, 32 random bytes                        ("opening")
//   root    magic, protocol, 32 random bytes, HMAC("root", opening, answer)   ("answer")
//   guest   HMAC("guest", opening, answer)                                    ("proof")
//
// From then on messages travel, each with a code over its number, type and payload, by a key of
// this connection and direction alone. A message that is left out, repeated, moved, changed or made
// by others ends the stream. Payloads are authenticated, not encrypted. The key never travels.
//
// Before its proof has come, an end reads these fixed sizes and nothing else of a stranger.
#pragma once

#include "base/hmac.hpp"
#include "base/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sennit {

// What the code of the key is made with; 32 bytes that only the job knows.
using StreamKey = std::array<std::uint8_t, 32>;

inline constexpr std::uint16_t kNodeProtocol = 1;
inline constexpr std::size_t kMaxNodePayload = std::size_t{64} * 1024;

struct StreamMessage {
  std::uint16_t type = 0;
  std::string payload;
};

class SecureStream {
 public:
  enum class State {
    kProving,  // the proofs are on their way
    kOpen,
    kBroken,  // the other end is no process of this job, or does not keep to the form
  };
  using Nonce = std::array<std::uint8_t, 32>;

  // The end that has connected, of this rank; says its opening at once.
  static SecureStream guest(const StreamKey& key, int rank, const Nonce& nonce);
  // The end that has accepted.
  static SecureStream root(const StreamKey& key, const Nonce& nonce);

  // Takes what has arrived, any number of bytes. Nothing is taken once the stream is broken.
  void feed(std::string_view bytes);
  // The next whole message, in order.
  std::optional<StreamMessage> next();
  // Appends a message to the output; only while the stream is open.
  void send(std::uint16_t type, std::string_view payload);
  // What is to be sent to the other end; the caller takes off what it has sent.
  [[nodiscard]] std::string& output() { return output_; }

  [[nodiscard]] State state() const { return state_; }
  // Of the other end, when open; this end's own is kNodeProtocol.
  [[nodiscard]] std::uint16_t peer_protocol() const { return peer_protocol_; }
  // That a guest has said in its opening; as authentic as the stream.
  [[nodiscard]] int guest_rank() const { return guest_rank_; }
  // Bytes that feed() can make use of now: few, until the other end has proved itself.
  [[nodiscard]] std::size_t appetite() const;

 private:
  enum class Role { kGuest, kRoot };

  SecureStream(Role role, const StreamKey& key, const Nonce& nonce)
      : role_(role), key_(key), nonce_(nonce) {}

  bool take_step();
  bool take_opening();
  bool take_answer();
  bool take_proof();
  bool take_message();
  void open();
  [[nodiscard]] MacCode code_of(std::string_view purpose) const;
  static MacCode code_of_message(const MacCode& key, std::uint64_t number, std::string_view bytes);

  Role role_;
  StreamKey key_;
  Nonce nonce_;
  State state_ = State::kProving;
  std::string opening_;  // as it travelled
  std::string answer_;   // without its code
  std::uint16_t peer_protocol_ = 0;
  int guest_rank_ = -1;
  MacCode receive_key_{};
  MacCode send_key_{};
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
  std::string input_;
  std::string output_;
  std::optional<StreamMessage> message_;
};

}  // namespace sennit
