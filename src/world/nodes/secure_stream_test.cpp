#include "world/nodes/secure_stream.hpp"

#include "world/nodes/node_link.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sennit {
namespace {

StreamKey key_of(std::uint8_t byte) {
  StreamKey key;
  key.fill(byte);
  return key;
}

std::string taken(SecureStream& stream) { return std::exchange(stream.output(), {}); }

// Both ends, and what travels between them.
struct Pair {
  explicit Pair(const StreamKey& guest_key = key_of(1), const StreamKey& root_key = key_of(1))
      : guest(SecureStream::guest(guest_key, 5, random_nonce())),
        root(SecureStream::root(root_key, random_nonce())) {}

  void prove() {
    root.feed(taken(guest));
    guest.feed(taken(root));
    root.feed(taken(guest));
  }

  SecureStream guest;
  SecureStream root;
};

using State = SecureStream::State;

TEST(SecureStream, TwoEndsWithOneKeyOpen) {
  Pair pair;
  EXPECT_EQ(pair.root.state(), State::kProving);
  pair.prove();
  EXPECT_EQ(pair.guest.state(), State::kOpen);
  EXPECT_EQ(pair.root.state(), State::kOpen);
  EXPECT_EQ(pair.root.guest_rank(), 5);
  EXPECT_EQ(pair.root.peer_protocol(), kNodeProtocol);
}

TEST(SecureStream, AnotherKeyOpensNothing) {
  Pair pair(key_of(1), key_of(2));
  pair.prove();
  EXPECT_EQ(pair.guest.state(), State::kBroken);
  EXPECT_NE(pair.root.state(), State::kOpen);
}

TEST(SecureStream, AGuestWithoutTheKeyIsRefusedByItsProof) {
  Pair pair;
  pair.root.feed(taken(pair.guest));
  pair.root.feed(std::string(32, 'x'));
  EXPECT_EQ(pair.root.state(), State::kBroken);
}

TEST(SecureStream, ProofsOfAnotherConnectionOpenNothing) {
  Pair first;
  const std::string opening = taken(first.guest);
  first.root.feed(opening);
  first.guest.feed(taken(first.root));
  const std::string proof = taken(first.guest);
  SecureStream second = SecureStream::root(key_of(1), random_nonce());
  second.feed(opening);
  second.feed(proof);
  EXPECT_EQ(second.state(), State::kBroken);
}

// A stranger that sends back what it is sent, or plays the one against the other.
TEST(SecureStream, AMirrorOpensNothing) {
  SecureStream guest = SecureStream::guest(key_of(1), 1, random_nonce());
  guest.feed(taken(guest) + std::string(100, '\0'));
  EXPECT_EQ(guest.state(), State::kBroken);
}

TEST(SecureStream, MessagesComeWholeAndInOrderHoweverTheyAreCut) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
    Pair pair;
    pair.prove();
    pair.guest.send(1, "");
    pair.guest.send(2, "two");
    pair.guest.send(3, std::string(kMaxNodePayload, '3'));
    const std::string bytes = taken(pair.guest);
    std::vector<StreamMessage> got;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      pair.root.feed(std::string_view(bytes).substr(at, piece));
      while (auto message = pair.root.next()) {
        got.push_back(*message);
      }
    }
    ASSERT_EQ(got.size(), 3U) << piece;
    EXPECT_EQ(got[0].type, 1);
    EXPECT_EQ(got[1].payload, "two");
    EXPECT_EQ(got[2].payload, std::string(kMaxNodePayload, '3'));
  }
}

TEST(SecureStream, BothWaysHaveKeysOfTheirOwn) {
  Pair pair;
  pair.prove();
  pair.guest.send(1, "to root");
  const std::string bytes = taken(pair.guest);
  pair.guest.feed(bytes);  // sent back by somebody
  EXPECT_EQ(pair.guest.state(), State::kBroken);
  EXPECT_FALSE(pair.guest.next());
}

TEST(SecureStream, ARepeatedLeftOutOrMovedMessageBreaksIt) {
  for (const std::vector<int>& order : {std::vector{0, 0}, {1}, {1, 0}}) {
    Pair pair;
    pair.prove();
    std::vector<std::string> messages;
    for (const char* const text : {"first", "other"}) {
      pair.guest.send(1, text);
      messages.push_back(taken(pair.guest));
    }
    for (const int index : order) {
      pair.root.feed(messages[static_cast<std::size_t>(index)]);
      while (pair.root.next()) {
      }
    }
    EXPECT_EQ(pair.root.state(), State::kBroken);
  }
}

TEST(SecureStream, AFlippedBitAnywhereBreaksIt) {
  Pair sample;
  const std::size_t opening_bytes = sample.guest.output().size();
  for (std::size_t index = 0; index < opening_bytes; ++index) {
    Pair pair;
    std::string opening = taken(pair.guest);
    opening[index] = static_cast<char>(opening[index] ^ 1);
    pair.root.feed(opening);
    pair.guest.feed(taken(pair.root));
    pair.root.feed(taken(pair.guest));
    EXPECT_NE(pair.root.state(), State::kOpen) << "byte " << index;
    EXPECT_NE(pair.guest.state(), State::kOpen) << "byte " << index;
  }
  sample.prove();
  sample.guest.send(9, "text");
  const std::size_t message_bytes = sample.guest.output().size();
  for (std::size_t index = 0; index < message_bytes; ++index) {
    Pair pair;
    pair.prove();
    pair.guest.send(9, "text");
    std::string message = taken(pair.guest);
    message[index] = static_cast<char>(message[index] ^ 1);
    pair.root.feed(message);
    EXPECT_FALSE(pair.root.next()) << "byte " << index;
  }
}

TEST(SecureStream, ALengthBeyondTheLimitIsNotWaitedFor) {
  Pair pair;
  pair.prove();
  pair.root.feed(std::string("\xff\xff\xff\x7f\x01\x00\x00\x00", 8));
  EXPECT_EQ(pair.root.state(), State::kBroken);
  EXPECT_EQ(pair.root.appetite(), 0U);
}

TEST(SecureStream, OfAStrangerItReadsLittle) {
  Pair pair;
  EXPECT_LE(pair.root.appetite(), 64U);
  EXPECT_LE(pair.guest.appetite(), 128U);
  pair.root.feed("GET / HTTP/1.1\r\n");
  EXPECT_EQ(pair.root.state(), State::kBroken);
  EXPECT_TRUE(pair.root.output().empty()) << "a stranger gets no answer";
}

}  // namespace
}  // namespace sennit
