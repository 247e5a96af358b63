// Connections that are not what they should be, while a join is under way.
#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/shared_segment.hpp"
#include "world/rendezvous/testing/rendezvous_fixture.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

// Rank 0 of 2 waits in a thread while the test body disturbs it; finish() lets rank 1 join.
class RendezvousHostile : public RendezvousTest {
 protected:
  void start(int size) {
    host_ = std::thread([this, size] { rank0_ = join(identity(0, size), some_options()); });
  }
  // Both must succeed, whatever has happened before.
  void finish() {
    const Result<Membership> rank1 = join(identity(1, 2), some_options());
    host_.join();
    EXPECT_TRUE(rank1.ok()) << rank1.status().message();
    EXPECT_TRUE(rank0_.ok()) << rank0_.status().message();
  }
  [[nodiscard]] std::string hello_bytes() const {
    return encode_frame(digest_key(key_),
                        {FrameType::kHello, kProtocolVersion, encode_hello(hello(1, 2))});
  }
  void expect_dropped(std::string_view bytes, std::string_view what) const {
    const Result<UniqueFd> pidfd = open_own_pidfd();
    const RawConnection raw(key_);
    ASSERT_TRUE(raw.valid() && pidfd.ok());
    raw.send_bytes(bytes, {pidfd->get()});
    EXPECT_TRUE(raw.dropped()) << what;
  }

  std::thread host_;
  Result<Membership> rank0_ = Status(Code::kInternalError, "not run");
};

TEST_F(RendezvousHostile, AHelloCutAtAnyByteIsDropped) {
  start(2);
  const std::string whole = hello_bytes();
  for (std::size_t length = 1; length < whole.size(); ++length) {
    expect_dropped(whole.substr(0, length), fmt::format("{} bytes", length));
  }
  finish();
}

TEST_F(RendezvousHostile, AHelloWithFlippedBitsIsDropped) {
  start(2);
  const std::string whole = hello_bytes();
  for (std::size_t index = 0; index < whole.size(); ++index) {
    std::string flipped = whole;
    flipped[index] = static_cast<char>(flipped[index] ^ (1 << (index % 8)));
    expect_dropped(flipped, fmt::format("byte {}", index));
  }
  finish();
}

TEST_F(RendezvousHostile, TextOversizeAndEmptyMessagesAreDropped) {
  start(2);
  expect_dropped("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "port scanner");
  expect_dropped(std::string(60'000, 'x'), "too long");
  expect_dropped(encode_frame(digest_key(key_), {FrameType::kReady, kProtocolVersion, {}}),
                 "a frame that is no hello");
  expect_dropped("", "an empty message");
  finish();
}

TEST_F(RendezvousHostile, AHelloWithoutItsPidfdIsDropped) {
  start(2);
  const Result<UniqueFd> file = create_segment_file(1);
  const Result<UniqueFd> pidfd = open_own_pidfd();
  ASSERT_TRUE(file.ok() && pidfd.ok());
  const std::vector<std::vector<int>> wrong = {
      {}, {file->get()}, {pidfd->get(), pidfd->get()}, std::vector<int>(200, pidfd->get())};
  for (const std::vector<int>& fds : wrong) {
    const RawConnection raw(key_);
    raw.send_bytes(hello_bytes(), fds);
    EXPECT_TRUE(raw.dropped()) << fds.size() << " descriptors";
  }
  finish();
}

TEST_F(RendezvousHostile, SilentConnectionsDelayNobodyAndAreDropped) {
  constexpr int kIdle = 200;
  start(3);  // rank 2 comes last, so that the silent ones meet their time limit
  std::vector<RawConnection> idle;
  for (int count = 0; count < kIdle; ++count) {
    idle.emplace_back(key_);
    ASSERT_TRUE(idle.back().valid());
  }
  Result<Membership> rank1 = Status(Code::kInternalError, "not run");
  std::thread guest([&] { rank1 = join(identity(1, 3), some_options()); });
  for (const RawConnection& connection : idle) {
    EXPECT_TRUE(connection.dropped());
  }
  const Result<Membership> rank2 = join(identity(2, 3), some_options());
  guest.join();
  host_.join();
  EXPECT_TRUE(rank0_.ok() && rank1.ok() && rank2.ok()) << rank0_.status().message();
}

TEST_F(RendezvousHostile, TwoHundredIdleConnectionsDoNotKeepTheRanksFromJoining) {
  start(2);
  std::vector<RawConnection> idle;
  for (int count = 0; count < 200; ++count) {
    idle.emplace_back(key_);
  }
  finish();
}

TEST_F(RendezvousHostile, ARankThatDiesAfterItsHelloIsNamed) {
  start(3);
  {
    const RawConnection raw(key_);
    raw.send_hello(hello(1, 3));
    const std::optional<Frame> accepted = raw.receive();
    ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->type, FrameType::kAccepted);
  }
  const Result<Membership> rank2 = join(identity(2, 3), some_options());
  host_.join();
  expect_failure(rank0_, Code::kRankFailed, {1}, "died while joining");
  expect_failure(rank2, Code::kRankFailed, {1}, "rank 1 (elsewhere pid");
}

TEST_F(RendezvousHostile, ARankThatDiesWithThePidfdsInItsHandsIsNamed) {
  start(2);
  {
    const RawConnection raw(key_);
    raw.send_hello(hello(1, 2));
    ASSERT_TRUE(raw.receive());
    std::vector<UniqueFd> fds;
    const std::optional<Frame> members = raw.receive(&fds);
    ASSERT_TRUE(members);
    EXPECT_EQ(members->type, FrameType::kMembers);
    EXPECT_EQ(fds.size(), 1u) << "of rank 0; its own it has";
  }
  host_.join();
  expect_failure(rank0_, Code::kRankFailed, {1}, "died while joining");
}

TEST_F(RendezvousHostile, AFailureOfOneRankIsToldToAll) {
  start(3);
  const RawConnection raw(key_);
  raw.send_hello(hello(1, 3));
  ASSERT_TRUE(raw.receive());
  raw.send({FrameType::kFailure,
            kProtocolVersion,
            encode_failure(
                join_failure(Code::kSystemError, "no memory", {1}, "mmap failed", "free some"))});
  const Result<Membership> rank2 = join(identity(2, 3), some_options());
  host_.join();
  expect_failure(rank0_, Code::kSystemError, {1}, "rank 1: no memory");
  expect_failure(rank2, Code::kSystemError, {1}, "rank 1: no memory");
}

TEST_F(RendezvousHostile, AnotherVersionIsAMismatchOnBothSides) {
  start(2);
  Hello newer = hello(1, 2);
  newer.library_version += 1;
  const RawConnection raw(key_);
  raw.send_hello(newer);
  const std::optional<Frame> refusal = raw.receive();
  host_.join();
  expect_failure(rank0_, Code::kMismatch, {1}, "library version: 100 on rank 0, 101 on rank 1");
  ASSERT_TRUE(refusal);
  const std::optional<Status> failure = decode_failure(refusal->payload);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), Code::kMismatch);
}

TEST_F(RendezvousHostile, AnotherProtocolIsAMismatchOnBothSides) {
  start(2);
  const RawConnection raw(key_);
  raw.send_hello(hello(1, 2), kProtocolVersion + 1);
  const std::optional<Frame> refusal = raw.receive();
  host_.join();
  expect_failure(rank0_, Code::kMismatch, {}, "protocol version: 1 on rank 0, 2");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->type, FrameType::kFailure);
}

// A rank 0 made by hand, to which a real rank 1 of 2 says hello.
class RendezvousFalseHost : public RendezvousTest {
 protected:
  RendezvousFalseHost() {
    const Result<SocketAddress> address = rendezvous_address(key_, "");
    Result<ListenAttempt> attempt = try_listen(address.value());
    listener_ = std::move(attempt.value().listener);
  }
  void start(double timeout_s) {
    guest_ =
        std::thread([this, timeout_s] { rank1_ = join(identity(1, 2), some_options(timeout_s)); });
  }
  RawConnection accept_hello() {
    pollfd watched{listener_.get(), POLLIN, 0};
    poll(&watched, 1, static_cast<int>(kGenerousSeconds * 1000));
    RawConnection raw(key_, UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    const std::optional<Frame> hello = raw.receive();
    EXPECT_TRUE(hello && hello->type == FrameType::kHello);
    return raw;
  }
  static Frame frame(FrameType type, std::string payload = {}) {
    return {type, kProtocolVersion, std::move(payload)};
  }

  Listener listener_;
  std::thread guest_;
  Result<Membership> rank1_ = Status(Code::kInternalError, "not run");
};

TEST_F(RendezvousFalseHost, IsReportedDeadWhenItClosesAfterTheHello) {
  start(kGenerousSeconds);
  {
    const RawConnection raw = accept_hello();
    raw.send(frame(FrameType::kAccepted));
  }
  guest_.join();
  listener_.reset();
  expect_failure(rank1_, Code::kRankFailed, {0}, "died while joining");
}

TEST_F(RendezvousFalseHost, IsTriedAgainWhenItClosesBeforeItHasCountedTheRank) {
  start(kGenerousSeconds);
  accept_hello().close();
  {
    const RawConnection again = accept_hello();
    again.send(frame(FrameType::kAccepted));
  }
  guest_.join();
  listener_.reset();
  expect_failure(rank1_, Code::kRankFailed, {0}, "died while joining");
}

TEST_F(RendezvousFalseHost, IsNamedWhenItSaysNothing) {
  start(0.2);
  const RawConnection raw = accept_hello();
  guest_.join();
  listener_.reset();
  expect_failure(rank1_, Code::kJoinTimeout, {0}, "does not answer");
}

TEST_F(RendezvousFalseHost, CannotMakeARankTakeWhatDoesNotFit) {
  const Result<UniqueFd> pidfd = open_own_pidfd();
  const Result<UniqueFd> file = create_segment_file(4096);
  ASSERT_TRUE(pidfd.ok() && file.ok());
  const MemberRecord stranger{random_token(), "elsewhere"};
  const struct {
    const char* what;
    Frame frame;
    std::vector<int> fds;
  } wrong[] = {
      {"ranks in a wrong order",
       frame(FrameType::kMembers, encode_members({1, {stranger}})),
       {pidfd->get()}},
      {"ranks in a wrong order",
       frame(FrameType::kMembers, encode_members({0, {stranger, stranger, stranger}})),
       {pidfd->get(), pidfd->get(), pidfd->get()}},
      {"a rank without the handle",
       frame(FrameType::kMembers, encode_members({0, {stranger}})),
       {}},
      {"a rank without the handle",
       frame(FrameType::kMembers, encode_members({0, {stranger}})),
       {file->get()}},
      {"more process handles than ranks",
       frame(FrameType::kMembers, encode_members({0, {stranger}})),
       {pidfd->get(), pidfd->get()}},
      {"out of its place",
       frame(FrameType::kSegment, encode_segment({random_token(), 4096})),
       {file->get()}},
      {"out of its place", frame(FrameType::kGo), {}},
      {"out of its place", frame(FrameType::kMembers, "?"), {}},
      {"a failure that cannot be read", frame(FrameType::kFailure, "?"), {}},
      {"another protocol", {FrameType::kAccepted, kProtocolVersion + 1, {}}, {}},
  };
  for (const auto& each : wrong) {
    start(kGenerousSeconds);
    const RawConnection raw = accept_hello();
    raw.send(frame(FrameType::kAccepted));
    raw.send(each.frame, each.fds);
    guest_.join();
    expect_failure(rank1_, Code::kMismatch, {0}, each.what);
  }
  start(kGenerousSeconds);
  const RawConnection raw = accept_hello();
  raw.send_bytes("HTTP/1.1 400 Bad Request");
  guest_.join();
  listener_.reset();
  expect_failure(rank1_, Code::kMismatch, {0}, "no message of this job");
}

}  // namespace
}  // namespace sennit
