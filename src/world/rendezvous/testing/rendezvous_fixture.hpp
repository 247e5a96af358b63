// What the tests of the rendezvous share: ranks as threads, raw connections, and a check that
// nothing is left behind.
#pragma once

#include "sennit/sennit.h"
#include "world/rendezvous/frame.hpp"
#include "world/rendezvous/process.hpp"
#include "world/rendezvous/rendezvous.hpp"
#include "world/rendezvous/unix_socket.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sennit {

// Far beyond what any step takes on a loaded machine; a test that needs it all has hung.
inline constexpr double kGenerousSeconds = 30.0;

inline JoinOptions some_options(double timeout_s = kGenerousSeconds) {
  return {timeout_s, "slots=4\npaths=shm", 4096};
}

// One frame sent and received by hand, as a rank or as an intruder.
class RawConnection {
 public:
  explicit RawConnection(const std::string& key) : key_(digest_key(key)) {
    const Result<SocketAddress> address = rendezvous_address(key, "");
    for (int tries = 0; tries < 3000 && address.ok() && !socket_.valid(); ++tries) {
      Result<UniqueFd> socket = try_connect(*address);
      socket_ = socket.ok() ? std::move(*socket) : UniqueFd();
      if (!socket_.valid()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  RawConnection(const std::string& key, UniqueFd socket)
      : key_(digest_key(key)), socket_(std::move(socket)) {}

  [[nodiscard]] bool valid() const { return socket_.valid(); }
  void close() { socket_.reset(); }

  void send_bytes(std::string_view bytes, std::vector<int> fds = {}) const {
    static_cast<void>(send_message(socket_.get(), bytes, fds));
  }
  void send(const Frame& frame, std::vector<int> fds = {}) const {
    send_bytes(encode_frame(key_, frame), std::move(fds));
  }
  void send_hello(const Hello& hello, std::uint16_t protocol = kProtocolVersion) const {
    const Result<UniqueFd> pidfd = open_own_pidfd();
    ASSERT_TRUE(pidfd.ok());
    send({FrameType::kHello, protocol, encode_hello(hello)}, {pidfd->get()});
  }

  // The next frame and its descriptors; nothing if the connection closed (or after a long time).
  [[nodiscard]] std::optional<Frame> receive(std::vector<UniqueFd>* fds = nullptr) const {
    pollfd watched{socket_.get(), POLLIN, 0};
    poll(&watched, 1, static_cast<int>(kGenerousSeconds * 1000));
    Received received = receive_message(socket_.get(), 65536, kMaxFdsPerFrame);
    if (fds != nullptr) {
      *fds = std::move(received.fds);
    }
    if (received.state != ReceiveState::kMessage) {
      closed_ = received.state == ReceiveState::kClosed;
      return std::nullopt;
    }
    return decode_frame(key_, received.bytes);
  }
  // Waits until the other end has dropped this connection.
  [[nodiscard]] bool dropped() const { return !receive() && closed_; }

 private:
  KeyDigest key_;
  UniqueFd socket_;
  mutable bool closed_ = false;
};

class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    static std::atomic<int> count{0};
    key_ = fmt::format("rendezvous test {} {}", getpid(), ++count);
    open_before_ = open_descriptors();
  }
  // Not TearDown(): fixtures made of this one hold descriptors until then. What throws here ends
  // the test program, as it should. NOLINTNEXTLINE(bugprone-exception-escape)
  ~RendezvousTest() override {
    EXPECT_EQ(open_descriptors(), open_before_) << "descriptors are left open";
    std::ifstream sockets("/proc/net/unix");
    const std::string all((std::istreambuf_iterator<char>(sockets)), {});
    const Result<SocketAddress> address = rendezvous_address(key_, "");
    EXPECT_EQ(all.find(address.ok() ? address->text : ""), std::string::npos)
        << "a socket is left behind";
  }

  static int open_descriptors() {
    const std::filesystem::directory_iterator folder("/proc/self/fd");
    return static_cast<int>(std::distance(begin(folder), end(folder)));
  }

  [[nodiscard]] Identity identity(int rank, int size) const { return {rank, size, key_}; }
  [[nodiscard]] Hello hello(int rank, int size) const {
    const JoinOptions options = some_options();
    Hello hello;
    hello.rank = rank;
    hello.size = size;
    hello.library_version =
        SENNIT_VERSION_MAJOR * 10000 + SENNIT_VERSION_MINOR * 100 + SENNIT_VERSION_PATCH;
    hello.segment_bytes = options.segment_bytes;
    hello.process = random_token();
    hello.host = "elsewhere";
    hello.settings = options.settings;
    return hello;
  }

  // Runs each call in a thread of its own and gives the results in the same order.
  using Join = std::function<Result<Membership>()>;
  static std::vector<Result<Membership>> run_all(const std::vector<Join>& joins) {
    std::vector<Result<Membership>> results;
    results.reserve(joins.size());  // a Membership cannot be copied
    for (std::size_t index = 0; index < joins.size(); ++index) {
      results.emplace_back(Status(Code::kInternalError, "not run"));
    }
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < joins.size(); ++index) {
      threads.emplace_back([&, index] { results[index] = joins[index](); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return results;
  }
  [[nodiscard]] std::vector<Result<Membership>> join_ranks(const std::vector<int>& ranks,
                                                           int size,
                                                           const JoinOptions& options) const {
    std::vector<Join> joins;
    for (const int rank : ranks) {
      joins.emplace_back(
          [this, rank, size, options] { return join(identity(rank, size), options); });
    }
    return run_all(joins);
  }
  static std::vector<int> all_ranks(int size) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(rank);
    }
    return ranks;
  }

  static void expect_failure(const Result<Membership>& result,
                             Code code,
                             const std::vector<int>& blamed,
                             std::string_view part_of_message) {
    ASSERT_FALSE(result.ok());
    const Status status = result.status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, blamed) << status.message();
    EXPECT_NE(status.message().find(part_of_message), std::string::npos) << status.message();
    EXPECT_FALSE(status.detail().evidence.empty()) << status.message();
    EXPECT_FALSE(status.detail().next.empty()) << status.message();
  }

  std::string key_;

 private:
  int open_before_ = 0;
};

}  // namespace sennit
