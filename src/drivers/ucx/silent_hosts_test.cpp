#include "drivers/ucx/silent_hosts.hpp"

#include "base/fd.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sennit::ucx {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A connection between two sockets of this process. An address of its own: others are not watched.
class SilentHosts : public testing::Test {
 protected:
  static constexpr const char* kHost = "127.83.3.1";

  void SetUp() override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ASSERT_EQ(::inet_pton(AF_INET, kHost, &address.sin_addr), 1);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
    sender_ = UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_TRUE(listener.valid() && sender_.valid());
    socklen_t bytes = sizeof(address);
    ASSERT_EQ(::bind(listener.get(), raw, bytes), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), raw, &bytes), 0);
    sockaddr_in own = address;
    own.sin_port = 0;
    ASSERT_EQ(::bind(sender_.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    ASSERT_EQ(::connect(sender_.get(), raw, bytes), 0);
    reader_ = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    ASSERT_TRUE(reader_.valid());
  }

  // As much as there is room for.
  void send_much() const {
    const std::vector<char> data(1 << 16, 'x');
    while (::send(sender_.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
    }
  }
  // In pieces of so many bytes, until the kernel's state is that.
  void fill(std::size_t bytes, const std::function<bool(const tcp_info&)>& is_it) const {
    const std::vector<char> data(bytes, 'x');
    const auto end = Clock::now() + std::chrono::seconds(10);
    bool is_full = false;
    tcp_info info{};
    while (!(is_full && is_it(info))) {
      ASSERT_LT(Clock::now(), end);
      is_full = ::send(sender_.get(), data.data(), data.size(), MSG_DONTWAIT) < 0;
      if (is_full) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      socklen_t length = sizeof(info);
      ASSERT_EQ(::getsockopt(sender_.get(), IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    }
  }
  // The reader's kernel drops what arrives, as a cable would.
  void cut() const {
    sock_filter drop{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
    const sock_fprog program{.len = 1, .filter = &drop};
    ASSERT_EQ(::setsockopt(reader_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
              0);
  }
  void heal() const {
    const int none = 0;
    ASSERT_EQ(::setsockopt(reader_.get(), SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none)), 0);
  }
  // For `longest` until that is so; how long it took.
  static Clock::duration await(const std::vector<std::string>& hosts, Clock::duration longest) {
    const auto begin = Clock::now();
    while (silent_hosts(kHost) != hosts && Clock::now() < begin + longest) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_EQ(silent_hosts(kHost), hosts);
    return Clock::now() - begin;
  }

  UniqueFd sender_;
  UniqueFd reader_;
};

TEST_F(SilentHosts, AreThoseBehindACutCableUntilItIsHealed) {
  // After a pause, in which nothing had to be acknowledged.
  std::this_thread::sleep_for(milliseconds(1600));
  cut();
  EXPECT_EQ(::send(sender_.get(), "x", 1, 0), 1);
  EXPECT_GT(await({kHost}, milliseconds(10'000)), milliseconds(1300));
  heal();
  await({}, milliseconds(20'000));
}

TEST_F(SilentHosts, AreThoseBehindACutCableThatHadNoRoom) {
  fill(1 << 16,
       [](const tcp_info& info) { return info.tcpi_unacked == 0 && info.tcpi_probes > 0; });
  cut();
  EXPECT_GT(await({kHost}, milliseconds(20'000)), milliseconds(1300));
}

TEST_F(SilentHosts, AreThoseBehindACutCableThatHadNoRoomForWhatWasSent) {
  const int bytes = 8000;
  ASSERT_EQ(::setsockopt(reader_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
  fill(1000, [](const tcp_info& info) {
    return info.tcpi_unacked > 0 && info.tcpi_backoff > 0 && info.tcpi_retransmits == 0;
  });
  cut();
  EXPECT_GT(await({kHost}, milliseconds(20'000)), milliseconds(1300));
}

TEST_F(SilentHosts, AreNoneWhoseProcessReadsNothing) {
  send_much();
  for (int look = 0; look < 50; ++look) {
    EXPECT_EQ(silent_hosts(kHost), std::vector<std::string>());
    std::this_thread::sleep_for(milliseconds(50));
  }
}

TEST(HostOf, IsTheAddressOfAnInterface) {
  EXPECT_EQ(host_of("lo"), "127.0.0.1");
  EXPECT_EQ(host_of("nosuchcard"), "");
}

}  // namespace
}  // namespace sennit::ucx
