// UcxDriver: network cards through UCX, an engine for messages between nodes. The library is opened
// at run time, and only by a program that asks for it; where it is missing, ucx_driver() says so.
//
//   SENNIT_ASSIGN_OR_RETURN(UcxDriver* const ucx, ucx_driver());
//   SENNIT_ASSIGN_OR_RETURN(const std::unique_ptr<UcxCard> card, ucx->open({.device = "eth0"}));
//   card->set_handler([](auto header, auto payload) { ... });
//   SENNIT_ASSIGN_OR_RETURN(const int endpoint, card->connect(address_of_the_peer));
//   MessageState state;
//   card->send(endpoint, header, payload, state);
//   while (state == MessageState::kUnderWay) { card->progress(); }
//
// A card and all that belongs to it is for one thread at a time. Nothing happens but in calls:
// messages arrive, sends end and connections are made while their card makes progress, at both
// ends.
#pragma once

#include "base/status.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sennit {

enum class MessageState : std::uint8_t {
  kDone,      // the payload may be overwritten
  kUnderWay,  // the payload and the state have to stay where they are
  kFailed,    // the endpoint has failed; whether the message arrived is not known
};

// One card as one thread drives it. The destructor cuts its connections off.
class UcxCard {
 public:
  static constexpr std::size_t kMostHeaderBytes = 128;

  // Both spans end with the call. Must not call the card.
  using Handler =
      std::function<void(std::span<const std::byte> header, std::span<const std::byte> payload)>;

  virtual ~UcxCard() = default;

  // What a peer has to know to connect; any bytes.
  [[nodiscard]] virtual const std::string& address() const = 0;
  // Of all messages that arrive; before the first progress().
  virtual void set_handler(Handler handler) = 0;
  // A number for an endpoint to the card with this address. Does not wait for the peer.
  virtual Result<int> connect(std::string_view address) = 0;
  // `header` is copied. Messages may arrive in any order. What has ended needs no progress() of
  // this end any more if ends_when_left() and the payload is not empty. Else the card may still
  // hold a part of a small message, and the next to that endpoint ends only after that has left.
  virtual void send(int endpoint,
                    std::span<const std::byte> header,
                    std::span<const std::byte> payload,
                    MessageState& state) = 0;
  [[nodiscard]] virtual bool ends_when_left() const = 0;
  // Why the endpoint has failed; ok while it works.
  [[nodiscard]] virtual Status failure(int endpoint) const = 0;
  // Looks which endpoints get no acknowledgement any more, which UCX itself does not over TCP: they
  // count as failed until the next look. System calls: for who waits for long.
  virtual void notice_silence() = 0;
  // Ends all sends of the endpoint, which must not be used any more.
  virtual void close(int endpoint) = 0;
  // True when anything happened.
  virtual bool progress() = 0;
  // Readable when progress() has something to do, once arm() has returned true. False: progress()
  // has something to do now.
  [[nodiscard]] virtual int descriptor() const = 0;
  virtual bool arm() = 0;
};

struct UcxCardOptions {
  std::string device;    // "eth0", "mlx5_0:1"
  bool is_rdma = false;  // a device of InfiniBand or RoCE, else a network interface
};

class UcxDriver {
 public:
  virtual ~UcxDriver() = default;

  virtual std::string version() = 0;
  virtual Result<std::unique_ptr<UcxCard>> open(const UcxCardOptions& options) = 0;
};

// UCX of this machine, opened once; kUnsupported, with the reason, where there is none. A test may
// have put another in its place (testing/given_ucx.hpp).
Result<UcxDriver*> ucx_driver();

// Behind ucx_driver(): what is really here, and the place for a test's; null: none.
Result<UcxDriver*> ucx_of_this_machine();
std::atomic<UcxDriver*>& given_ucx();

}  // namespace sennit
