// Connections to rank 0's port that are not what they should be, while a join over nodes is under
// way.
#include "world/nodes/node_link.hpp"
#include "world/nodes/node_request.hpp"  // IWYU pragma: keep: frames, places and keys
#include "world/nodes/nodes.hpp"
#include "world/nodes/tcp_socket.hpp"
#include "world/rendezvous/testing/rendezvous_fixture.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>

namespace sennit {
namespace {

constexpr const char* kRootHost = "127.0.0.1";

// Rank 0 of 2 waits in a thread while the test body disturbs it; finish() lets rank 1 join.
class NodesHostile : public RendezvousTest {
 protected:
  void start(int size = 2) {
    host_ = std::thread([this, size] { rank0_ = join_as(0, size, "a"); });
  }
  void finish() {
    const Result<Membership> rank1 = join_as(1, 2, "b");
    host_.join();
    EXPECT_TRUE(rank1.ok()) << rank1.status().message();
    EXPECT_TRUE(rank0_.ok()) << rank0_.status().message();
  }
  [[nodiscard]] Result<Membership> join_as(int rank, int size, const std::string& node) const {
    JoinOptions options = some_options();
    options.node = node;
    return join_world({.rank = rank, .size = size, .key = key_, .root = kRootHost}, options);
  }
  // A connection to rank 0, on the first of its ports.
  [[nodiscard]] UniqueFd connect_raw() const {
    const TcpAddress address =
        resolve(kRootHost)->front().with_port(ports_of(key_, PortRange()).front());
    for (int tries = 0; tries < 3000; ++tries) {
      UniqueFd socket = begin_connect(address);
      pollfd watched{socket.get(), POLLOUT, 0};
      if (socket.valid() && poll(&watched, 1, 1000) == 1 && is_connected(socket.get())) {
        return socket;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return {};
  }
  [[nodiscard]] std::unique_ptr<NodeLink> connect_as(int rank) const {
    UniqueFd socket = connect_raw();
    auto link = std::make_unique<NodeLink>(
        std::move(socket), SecureStream::guest(*stream_key(key_, ""), rank, random_nonce()));
    while (link->pump() == NodeLink::State::kProving) {
      pollfd watched{link->socket(), link->events(), 0};
      poll(&watched, 1, 1000);
    }
    return link;
  }
  // Waits until the other end has dropped the connection; what it said before is thrown away.
  static bool is_dropped(const UniqueFd& socket) {
    std::array<char, 4096> bytes{};
    pollfd watched{socket.get(), POLLIN, 0};
    while (poll(&watched, 1, static_cast<int>(kGenerousSeconds * 1000)) == 1) {
      const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) {
        return got == 0 || errno == ECONNRESET;
      }
    }
    return false;
  }
  void expect_dropped(std::string_view bytes, std::string_view what) const {
    const UniqueFd socket = connect_raw();
    ASSERT_TRUE(socket.valid());
    ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    shutdown(socket.get(), SHUT_WR);
    EXPECT_TRUE(is_dropped(socket)) << what;
  }

  std::thread host_;
  Result<Membership> rank0_ = Status(Code::kInternalError, "not run");
};

TEST_F(NodesHostile, StrangersAreDropped) {
  start();
  expect_dropped("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "a port scanner");
  expect_dropped(std::string(200'000, 'x'), "much text");
  expect_dropped("", "nothing at all");
  finish();
}

TEST_F(NodesHostile, AnOpeningCutAtAnyByteIsDropped) {
  start();
  SecureStream guest = SecureStream::guest(*stream_key(key_, ""), 1, random_nonce());
  const std::string opening = guest.output();
  for (std::size_t bytes = 1; bytes <= opening.size(); ++bytes) {
    expect_dropped(opening.substr(0, bytes), fmt::format("{} bytes", bytes));
  }
  expect_dropped(opening + std::string(32, 'p'), "a proof that is none");
  finish();
}

TEST_F(NodesHostile, AMuteConnectionIsDroppedInTwoSeconds) {
  start();
  const auto begin = std::chrono::steady_clock::now();
  const UniqueFd mute = connect_raw();
  EXPECT_TRUE(is_dropped(mute));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  finish();
}

TEST_F(NodesHostile, TwoHundredMuteConnectionsDoNotKeepTheRanksFromJoining) {
  start();
  std::vector<UniqueFd> mute;
  for (int count = 0; count < 200; ++count) {
    mute.push_back(connect_raw());
  }
  finish();
}

TEST_F(NodesHostile, ARankThatProvesItselfAndSaysNothingIsDropped) {
  start();
  const auto link = connect_as(1);
  EXPECT_EQ(link->state(), NodeLink::State::kOpen);
  while (link->pump() == NodeLink::State::kOpen) {
    pollfd watched{link->socket(), POLLIN, 0};
    poll(&watched, 1, 1000);
  }
  finish();
}

TEST_F(NodesHostile, AHelloOfAnotherRankThanProvedIsDropped) {
  start();
  const auto link = connect_as(1);
  link->send(static_cast<std::uint16_t>(NodeMessageType::kHello),
             encode_node_hello({.hello = hello(0, 2), .pid = 1, .node = "b"}));
  while (link->pump() == NodeLink::State::kOpen) {
    pollfd watched{link->socket(), POLLIN, 0};
    poll(&watched, 1, 1000);
  }
  EXPECT_FALSE(link->next());
  finish();
}

TEST_F(NodesHostile, ARankThatLeavesAfterItsHelloIsNamed) {
  start(3);
  {
    const auto link = connect_as(1);
    link->send(static_cast<std::uint16_t>(NodeMessageType::kHello),
               encode_node_hello({.hello = hello(1, 3), .pid = 4711, .node = "b"}));
    std::optional<StreamMessage> message;
    while (!message && link->pump() == NodeLink::State::kOpen) {
      message = link->next();
    }
    ASSERT_TRUE(message);
    EXPECT_EQ(message->type, static_cast<std::uint16_t>(NodeMessageType::kAccepted));
  }
  const Result<Membership> rank2 = join_as(2, 3, "b");
  host_.join();
  expect_failure(rank0_, Code::kRankFailed, {1}, "rank 1 (elsewhere pid 4711) died while joining");
  expect_failure(rank2, Code::kRankFailed, {1}, "died while joining");
}

TEST_F(NodesHostile, NonsenseOfARankIsReportedToAll) {
  start(2);
  const auto link = connect_as(1);
  link->send(static_cast<std::uint16_t>(NodeMessageType::kHello),
             encode_node_hello({.hello = hello(1, 2), .pid = 4711, .node = "b"}));
  link->send(77, "what is this");
  host_.join();
  expect_failure(rank0_, Code::kInternalError, {1}, "rank 1 sent what does not belong here");
}

}  // namespace
}  // namespace sennit
