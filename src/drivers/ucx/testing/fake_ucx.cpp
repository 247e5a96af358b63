#include "drivers/ucx/testing/fake_ucx.hpp"

#include "base/fd.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using Bytes = std::vector<std::byte>;

struct Arrival {
  Bytes header;
  Bytes payload;
};

struct Inbox {
  UniqueFd descriptor{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::vector<Arrival> arrivals;
};

}  // namespace

struct FakeUcx::Network {
  explicit Network(const Options& given) : options(given), random(given.seed) {}

  std::size_t below(std::size_t end) { return random() % end; }
  [[nodiscard]] bool is_mute(const std::string& address) const {
    return std::ranges::any_of(mute, [&](const std::string& device) {
      return address.starts_with(fmt::format("fake:{}:", device));
    });
  }

  std::mutex mutex;
  Options options;
  std::mt19937_64 random;
  std::map<std::string, Inbox> inboxes;  // by address
  std::set<std::string> cut;
  std::set<std::string> mute;  // devices
  std::uint64_t messages = 0;
  std::uint64_t payload_bytes = 0;
};

namespace {

class Card final : public UcxCard {
 public:
  Card(std::shared_ptr<FakeUcx::Network> network, std::string address)
      : network_(std::move(network)), address_(std::move(address)) {
    const std::scoped_lock guard(network_->mutex);
    descriptor_ = network_->inboxes[address_].descriptor.get();
  }
  ~Card() override {
    const std::scoped_lock guard(network_->mutex);
    network_->inboxes.erase(address_);
  }
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  [[nodiscard]] const std::string& address() const override { return address_; }
  void set_handler(Handler handler) override { handler_ = std::move(handler); }

  Result<int> connect(std::string_view address) override {
    if (!address.starts_with("fake:")) {
      return fail(Code::kSystemError, "'{}' is no address of a card", address);
    }
    endpoints_.push_back({.address = std::string(address)});
    return static_cast<int>(endpoints_.size()) - 1;
  }

  void send(int endpoint,
            std::span<const std::byte> header,
            std::span<const std::byte> payload,
            MessageState& state) override {
    Departure departure{
        .endpoint = endpoint, .header = Bytes(header.begin(), header.end()), .payload = payload};
    const bool is_first = std::ranges::none_of(
        departures_, [&](const Departure& other) { return other.endpoint == endpoint; });
    const bool is_copied = !network_->options.ends_when_left || payload.empty();
    if (is_first && is_copied && payload.size() <= network_->options.copied_bytes) {
      departure.copy.assign(payload.begin(), payload.end());
      state = MessageState::kDone;
    } else {
      departure.state = &state;
      state = MessageState::kUnderWay;
    }
    depart(std::move(departure), state);
  }

  [[nodiscard]] bool ends_when_left() const override { return network_->options.ends_when_left; }

  [[nodiscard]] Status failure(int endpoint) const override {
    const Endpoint& asked = endpoints_[static_cast<std::size_t>(endpoint)];
    return asked.failure.ok() && asked.is_silent
               ? fail(Code::kSystemError, "{} acknowledges nothing", asked.address)
               : asked.failure;
  }

  void notice_silence() override {
    const std::scoped_lock guard(network_->mutex);
    for (Endpoint& endpoint : endpoints_) {
      endpoint.is_silent = endpoint.has_lost;
    }
  }

  void close(int endpoint) override {
    fail_endpoint(endpoint, fail(Code::kSystemError, "closed by this end"));
  }

  bool progress() override {
    std::vector<Arrival> arrivals;
    bool moved = false;
    {
      const std::scoped_lock guard(network_->mutex);
      notice_cuts();
      moved = let_some_leave();
      Inbox& inbox = network_->inboxes[address_];
      arrivals = std::exchange(inbox.arrivals, {});
      std::uint64_t count = 0;
      // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
      static_cast<void>(::read(descriptor_, &count, sizeof(count)));
      if (!network_->options.keeps_order) {
        std::ranges::shuffle(arrivals, network_->random);
      }
    }
    for (const Arrival& arrival : arrivals) {
      handler_(arrival.header, arrival.payload);
    }
    return moved || !arrivals.empty();
  }

  [[nodiscard]] int descriptor() const override { return descriptor_; }

  bool arm() override {
    const std::scoped_lock guard(network_->mutex);
    return departures_.empty() && network_->inboxes[address_].arrivals.empty();
  }

 private:
  struct Endpoint {
    std::string address;
    bool has_lost = false;  // what was sent to it
    bool is_silent = false;
    Status failure{};
  };
  struct Departure {
    int endpoint = 0;
    Bytes header{};
    Bytes copy{};
    std::span<const std::byte> payload{};
    MessageState* state = nullptr;  // null: the payload was copied
  };

  void depart(Departure departure, MessageState& state) {
    if (failure(departure.endpoint).ok()) {
      departures_.push_back(std::move(departure));
    } else {
      state = MessageState::kFailed;
    }
  }

  void fail_endpoint(int endpoint, const Status& why) {
    Endpoint& failed = endpoints_[static_cast<std::size_t>(endpoint)];
    if (failed.failure.ok()) {
      failed.failure = why;
    }
    std::erase_if(departures_, [&](const Departure& departure) {
      if (departure.endpoint == endpoint && departure.state != nullptr) {
        *departure.state = MessageState::kFailed;
      }
      return departure.endpoint == endpoint;
    });
  }

  void notice_cuts() {
    for (std::size_t e = 0; e < endpoints_.size(); ++e) {
      const std::string& peer = endpoints_[e].address;
      if (network_->cut.contains(address_) || network_->cut.contains(peer) ||
          !network_->inboxes.contains(peer)) {
        fail_endpoint(static_cast<int>(e),
                      fail(Code::kSystemError, "connection reset by {}", peer));
      }
    }
  }

  bool let_some_leave() {
    std::size_t wanted = departures_.empty() ? 0 : network_->below(departures_.size() + 1);
    const bool moved = wanted > 0;
    while (wanted-- > 0) {
      const Departure departure = std::move(departures_.front());
      departures_.pop_front();
      const bool is_copied = departure.state == nullptr;
      const std::span<const std::byte> payload =
          is_copied ? std::span<const std::byte>(departure.copy) : departure.payload;
      ++network_->messages;
      network_->payload_bytes += payload.size();
      Endpoint& to = endpoints_[static_cast<std::size_t>(departure.endpoint)];
      if (departure.state != nullptr) {
        *departure.state = MessageState::kDone;
      }
      if (network_->is_mute(address_) || network_->is_mute(to.address)) {
        to.has_lost = true;
        continue;
      }
      Inbox& inbox = network_->inboxes[to.address];
      inbox.arrivals.push_back(
          {.header = departure.header, .payload = Bytes(payload.begin(), payload.end())});
      const std::uint64_t one = 1;
      static_cast<void>(::write(inbox.descriptor.get(), &one, sizeof(one)));
    }
    return moved;
  }

  std::shared_ptr<FakeUcx::Network> network_;
  std::string address_;
  int descriptor_ = -1;
  Handler handler_;
  std::vector<Endpoint> endpoints_;
  std::deque<Departure> departures_;
};

}  // namespace

FakeUcx::FakeUcx(const Options& options) : network_(std::make_shared<Network>(options)) {}

FakeUcx::~FakeUcx() = default;

Result<std::unique_ptr<UcxCard>> FakeUcx::open(const UcxCardOptions& options) {
  static std::atomic<int> opened{0};
  return std::unique_ptr<UcxCard>(
      std::make_unique<Card>(network_, fmt::format("fake:{}:{}", options.device, ++opened)));
}

void FakeUcx::cut(const std::string& address) {
  const std::scoped_lock guard(network_->mutex);
  network_->cut.insert(address);
}

void FakeUcx::mute(const std::string& device) {
  const std::scoped_lock guard(network_->mutex);
  network_->mute.insert(device);
}

std::uint64_t FakeUcx::messages() const {
  const std::scoped_lock guard(network_->mutex);
  return network_->messages;
}

std::uint64_t FakeUcx::payload_bytes() const {
  const std::scoped_lock guard(network_->mutex);
  return network_->payload_bytes;
}

}  // namespace sennit
