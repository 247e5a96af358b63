#include "path/rail/card_set.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace sennit::rail {
namespace {

// UCX may have something to do later that no descriptor shows.
constexpr std::chrono::milliseconds kLongestSleep{5};
// Of a thread that its doorbell may not wake.
constexpr std::chrono::microseconds kUnsureSleep{500};
constexpr std::chrono::milliseconds kSilenceInterval{100};

}  // namespace

Result<std::shared_ptr<CardSet>> CardSet::open(UcxDriver& driver,
                                               std::span<const NetworkCard> cards) {
  const std::shared_ptr<CardSet> set(new CardSet());
  set->receivers_.resize(cards.size());
  for (std::size_t rail = 0; rail < cards.size(); ++rail) {
    SENNIT_ASSIGN_OR_RETURN(
        std::unique_ptr<UcxCard> card,
        driver.open({.device = cards[rail].device, .is_rdma = cards[rail].is_rdma}));
    card->set_handler([self = set.get(), rail](std::span<const std::byte> header,
                                               std::span<const std::byte> payload) {
      self->on_message(static_cast<int>(rail), header, payload);
    });
    set->cards_.push_back(std::move(card));
    set->network_cards_.push_back(cards[rail]);
  }
  return set;
}

std::vector<std::string> CardSet::addresses() const {
  std::vector<std::string> addresses;
  for (const auto& card : cards_) {
    addresses.push_back(card->address());
  }
  return addresses;
}

Result<int> CardSet::endpoint(int rail, const std::string& address) {
  const auto known = endpoints_.find({rail, address});
  if (known != endpoints_.end()) {
    if (card(rail).failure(known->second).ok()) {
      return known->second;
    }
    close_endpoint(rail, address);
  }
  SENNIT_ASSIGN_OR_RETURN(const int endpoint, card(rail).connect(address));
  endpoints_.emplace(std::pair(rail, address), endpoint);
  return endpoint;
}

void CardSet::close_endpoint(int rail, const std::string& address) {
  const auto known = endpoints_.find({rail, address});
  if (known != endpoints_.end()) {
    card(rail).close(known->second);
    endpoints_.erase(known);
  }
}

void CardSet::set_receiver(int rail, std::uint64_t token, Receiver receiver) {
  receivers_[static_cast<std::size_t>(rail)].insert_or_assign(token, std::move(receiver));
}

void CardSet::remove_receiver(int rail, std::uint64_t token) {
  receivers_[static_cast<std::size_t>(rail)].erase(token);
}

void CardSet::on_message(int rail,
                         std::span<const std::byte> header,
                         std::span<const std::byte> payload) {
  Frame frame;
  if (header.size() < sizeof(frame)) {
    ++strange_frames_;
    return;
  }
  std::memcpy(&frame, header.data(), sizeof(frame));
  const auto& receivers = receivers_[static_cast<std::size_t>(rail)];
  const auto receiver = receivers.find(frame.token);
  if (receiver == receivers.end() || frame.bytes != payload.size()) {
    ++strange_frames_;
    return;
  }
  receiver->second({.frame = frame, .freed = header.subspan(sizeof(frame)), .payload = payload});
}

void CardSet::notice_silence() {
  const std::scoped_lock guard(mutex_);
  if (const auto now = std::chrono::steady_clock::now(); now >= silence_at_ + kSilenceInterval) {
    silence_at_ = now;
    for (const auto& card : cards_) {
      card->notice_silence();
    }
  }
}

bool CardSet::progress() {
  const std::scoped_lock guard(mutex_);
  bool moved = false;
  for (const auto& card : cards_) {
    moved = card->progress() || moved;
  }
  return moved;
}

bool CardSet::arm(std::vector<pollfd>& entries) {
  const std::scoped_lock guard(mutex_);
  for (const auto& card : cards_) {
    if (!card->arm()) {
      return false;
    }
    entries.push_back({.fd = card->descriptor(), .events = POLLIN, .revents = 0});
  }
  return true;
}

void CardSet::sleep(Doorbell& bell,
                    std::chrono::nanoseconds limit,
                    const std::function<bool()>& look_again) {
  const bool is_sure = wake_socket_.announce(bell);
  limit = std::min<std::chrono::nanoseconds>(limit, is_sure ? kLongestSleep : kUnsureSleep);
  // ppoll passes over a descriptor of -1.
  std::vector<pollfd> entries{{.fd = wake_socket_.descriptor(), .events = POLLIN, .revents = 0}};
  if (arm(entries) && !look_again()) {
    const timespec timeout{.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(limit.count() % 1'000'000'000)};
    // However it ends: look again.
    static_cast<void>(::ppoll(entries.data(), entries.size(), &timeout, nullptr));
  }
  wake_socket_.withdraw(bell);
}

}  // namespace sennit::rail
