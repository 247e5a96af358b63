#include "world/nodes/secure_stream.hpp"

#include "world/rendezvous/wire.hpp"

#include <array>
#include <utility>

namespace sennit {
namespace {

// Machines of the other byte order read another magic.
constexpr std::uint32_t kMagic = 0x644e6e53;  // "SnNd"
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kOpeningBytes = 4 + 2 + 2 + 4 + kNonceBytes;
constexpr std::size_t kAnswerBytes = 4 + 2 + 2 + kNonceBytes;
constexpr std::size_t kCodeBytes = 32;
constexpr std::size_t kHeaderBytes = 4 + 2 + 2;  // payload bytes, type, zero

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool has_magic(std::string_view bytes) {
  WireReader in(bytes);
  return in.number<std::uint32_t>() == kMagic;
}

}  // namespace

SecureStream SecureStream::guest(const StreamKey& key, int rank, const Nonce& nonce) {
  SecureStream stream(Role::kGuest, key, nonce);
  WireWriter out;
  out.number(kMagic);
  out.number(kNodeProtocol);
  out.number(std::uint16_t{0});
  out.number<std::int32_t>(rank);
  out.bytes(text_of(nonce));
  stream.opening_ = out.take();
  stream.output_ = stream.opening_;
  stream.guest_rank_ = rank;
  return stream;
}

SecureStream SecureStream::root(const StreamKey& key, const Nonce& nonce) {
  return {Role::kRoot, key, nonce};
}

void SecureStream::feed(std::string_view bytes) {
  if (state_ == State::kBroken) {
    return;
  }
  input_.append(bytes);
  while (!message_ && take_step()) {
  }
}

std::optional<StreamMessage> SecureStream::next() {
  std::optional<StreamMessage> message = std::exchange(message_, std::nullopt);
  while (!message_ && take_step()) {
  }
  return message;
}

void SecureStream::send(std::uint16_t type, std::string_view payload) {
  SENNIT_CHECK(payload.size() <= kMaxNodePayload, "a message between nodes has a limit");
  if (state_ != State::kOpen) {
    return;
  }
  WireWriter out;
  out.number(static_cast<std::uint32_t>(payload.size()));
  out.number(type);
  out.number(std::uint16_t{0});
  out.bytes(payload);
  const std::string bytes = out.take();
  output_ += bytes;
  output_ += text_of(code_of_message(send_key_, sent_++, bytes));
}

std::size_t SecureStream::appetite() const {
  constexpr std::size_t kWhileOpen = std::size_t{64} * 1024;
  if (state_ == State::kProving) {
    const std::size_t expected = role_ == Role::kGuest ? kAnswerBytes + kCodeBytes
                                 : opening_.empty()    ? kOpeningBytes
                                                       : kCodeBytes;
    return expected - input_.size();
  }
  return state_ == State::kOpen ? kWhileOpen : 0;
}

// True when something was taken, so that there may be more to take.
bool SecureStream::take_step() {
  switch (state_) {
    case State::kProving:
      if (role_ == Role::kGuest) {
        return take_answer();
      }
      return opening_.empty() ? take_opening() : take_proof();
    case State::kOpen:
      return take_message();
    case State::kBroken:
      break;
  }
  return false;
}

bool SecureStream::take_opening() {
  if (input_.size() >= sizeof kMagic && !has_magic(input_)) {
    state_ = State::kBroken;
    return false;
  }
  if (input_.size() < kOpeningBytes) {
    return false;
  }
  opening_ = input_.substr(0, kOpeningBytes);
  input_.erase(0, kOpeningBytes);
  WireReader in(opening_);
  in.number<std::uint32_t>();
  peer_protocol_ = in.number<std::uint16_t>();
  in.number<std::uint16_t>();
  guest_rank_ = in.number<std::int32_t>();
  WireWriter out;
  out.number(kMagic);
  out.number(kNodeProtocol);
  out.number(std::uint16_t{0});
  out.bytes(text_of(nonce_));
  answer_ = out.take();
  output_ += answer_;
  output_ += text_of(code_of("root"));
  return true;
}

bool SecureStream::take_answer() {
  if (input_.size() >= sizeof kMagic && !has_magic(input_)) {
    state_ = State::kBroken;
    return false;
  }
  if (input_.size() < kAnswerBytes + kCodeBytes) {
    return false;
  }
  answer_ = input_.substr(0, kAnswerBytes);
  const std::string code = input_.substr(kAnswerBytes, kCodeBytes);
  input_.erase(0, kAnswerBytes + kCodeBytes);
  if (!is_same_code(code_of("root"), code)) {
    state_ = State::kBroken;
    return false;
  }
  WireReader in(answer_);
  in.number<std::uint32_t>();
  peer_protocol_ = in.number<std::uint16_t>();
  output_ += text_of(code_of("guest"));
  open();
  return true;
}

bool SecureStream::take_proof() {
  if (input_.size() < kCodeBytes) {
    return false;
  }
  const std::string code = input_.substr(0, kCodeBytes);
  input_.erase(0, kCodeBytes);
  if (!is_same_code(code_of("guest"), code)) {
    state_ = State::kBroken;
    return false;
  }
  open();
  return true;
}

bool SecureStream::take_message() {
  if (input_.size() < kHeaderBytes) {
    return false;
  }
  WireReader in(input_);
  const std::size_t payload_bytes = in.number<std::uint32_t>();
  const auto type = in.number<std::uint16_t>();
  if (payload_bytes > kMaxNodePayload) {
    state_ = State::kBroken;
    return false;
  }
  const std::size_t bytes = kHeaderBytes + payload_bytes;
  if (input_.size() < bytes + kCodeBytes) {
    return false;
  }
  const std::string_view text = std::string_view(input_).substr(0, bytes);
  if (!is_same_code(code_of_message(receive_key_, received_, text),
                    std::string_view(input_).substr(bytes, kCodeBytes))) {
    state_ = State::kBroken;
    return false;
  }
  ++received_;
  message_ = StreamMessage{type, std::string(text.substr(kHeaderBytes))};
  input_.erase(0, bytes + kCodeBytes);
  return true;
}

void SecureStream::open() {
  state_ = State::kOpen;
  const MacCode to_root = code_of("to root");
  const MacCode to_guest = code_of("to guest");
  receive_key_ = role_ == Role::kRoot ? to_root : to_guest;
  send_key_ = role_ == Role::kRoot ? to_guest : to_root;
}

MacCode SecureStream::code_of(std::string_view purpose) const {
  const std::array parts = {std::string_view("sennit nodes "),
                            purpose,
                            std::string_view(opening_),
                            std::string_view(answer_)};
  return hmac_sha256(key_, parts);
}

MacCode SecureStream::code_of_message(const MacCode& key,
                                      std::uint64_t number,
                                      std::string_view bytes) {
  const std::array parts = {std::string_view(reinterpret_cast<const char*>(&number), sizeof number),
                            bytes};
  return hmac_sha256(key, parts);
}

}  // namespace sennit
