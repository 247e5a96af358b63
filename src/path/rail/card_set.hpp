// CardSet: the cards of one progress engine. It connects them to those of other ranks, gives every
// frame that arrives to the communicator that it is for, and lets a thread sleep until one arrives.
//
// Any thread may call anything; calls take turns.
#pragma once

#include "channel/wake_socket.hpp"
#include "drivers/ucx/cards.hpp"
#include "drivers/ucx/ucx.hpp"
#include "path/rail/frame.hpp"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sennit::rail {

class CardSet {
 public:
  // For frames with one token. Called by progress(), under the lock.
  using Receiver = std::function<void(const Arrival& arrival)>;

  static Result<std::shared_ptr<CardSet>> open(UcxDriver& driver,
                                               std::span<const NetworkCard> cards);

  [[nodiscard]] int size() const { return static_cast<int>(cards_.size()); }
  [[nodiscard]] const std::vector<NetworkCard>& all() const { return network_cards_; }
  [[nodiscard]] const std::string& name(int rail) const {
    return network_cards_[static_cast<std::size_t>(rail)].device;
  }
  [[nodiscard]] std::vector<std::string> addresses() const;

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // These under the lock.
  // The endpoint of the rail's card to the card with this address; made at first use.
  Result<int> endpoint(int rail, const std::string& address);
  // Ends all that is under way to that card; whoever comes back to it connects anew.
  void close_endpoint(int rail, const std::string& address);
  [[nodiscard]] UcxCard& card(int rail) { return *cards_[static_cast<std::size_t>(rail)]; }
  void set_receiver(int rail, std::uint64_t token, Receiver receiver);
  void remove_receiver(int rail, std::uint64_t token);

  // Looks, now and then, which endpoints get no acknowledgement any more (UcxCard).
  void notice_silence();

  // Lets all cards do what there is to do; true when anything happened.
  bool progress();
  // Sleeps until a card has something to do or `bell` rings, at most `limit`, unless
  // `look_again()` returns true once nothing can arrive unnoticed any more.
  void sleep(Doorbell& bell,
             std::chrono::nanoseconds limit,
             const std::function<bool()>& look_again);

  // Frames that were not for anybody here, or malformed.
  [[nodiscard]] std::uint64_t strange_frames() const { return strange_frames_.load(); }

 private:
  CardSet() = default;
  void on_message(int rail, std::span<const std::byte> header, std::span<const std::byte> payload);

  // Whether the descriptors of all cards will show what arrives from now on; adds their
  // descriptors.
  bool arm(std::vector<pollfd>& entries);

  std::mutex mutex_;
  WakeSocket wake_socket_;
  std::vector<std::unique_ptr<UcxCard>> cards_;
  std::vector<NetworkCard> network_cards_;
  std::map<std::pair<int, std::string>, int> endpoints_;                // by rail and address
  std::vector<std::unordered_map<std::uint64_t, Receiver>> receivers_;  // by rail
  std::atomic<std::uint64_t> strange_frames_{0};
  std::chrono::steady_clock::time_point silence_at_{};  // when it was last looked for
};

}  // namespace sennit::rail
