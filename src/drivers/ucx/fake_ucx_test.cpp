#include "drivers/ucx/testing/fake_ucx.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sennit {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Pair {
  explicit Pair(FakeUcx& ucx)
      : sender(*ucx.open({.device = "rail0"})), reader(*ucx.open({.device = "rail0"})) {
    reader->set_handler([this](std::span<const std::byte> header, std::span<const std::byte> data) {
      headers.insert(std::string(reinterpret_cast<const char*>(header.data()), header.size()));
      bytes += data.size();
    });
    endpoint = *sender->connect(reader->address());
  }

  std::unique_ptr<UcxCard> sender;
  std::unique_ptr<UcxCard> reader;
  int endpoint = -1;
  std::set<std::string> headers;
  std::size_t bytes = 0;
};

TEST(FakeUcx, NothingLeavesWithoutProgressOfItsSender) {
  FakeUcx ucx({});
  Pair pair(ucx);
  MessageState small{};
  MessageState large{};
  MessageState last{};
  const std::string payload(5000, 'x');
  pair.sender->send(pair.endpoint, bytes_of("a"), bytes_of("1234"), small);
  pair.sender->send(pair.endpoint, bytes_of("b"), bytes_of(payload), large);
  pair.sender->send(pair.endpoint, bytes_of("c"), {}, last);
  EXPECT_EQ(small, MessageState::kDone);
  EXPECT_EQ(large, MessageState::kUnderWay);
  pair.reader->progress();
  EXPECT_TRUE(pair.headers.empty());
  EXPECT_FALSE(pair.sender->arm());
  while (last == MessageState::kUnderWay) {
    pair.sender->progress();
  }
  EXPECT_EQ(large, MessageState::kDone);
  EXPECT_TRUE(pair.sender->arm());
  EXPECT_FALSE(pair.reader->arm());
  pair.reader->progress();
  EXPECT_EQ(pair.headers, (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(pair.bytes, 5004U);
}

TEST(FakeUcx, ACutCardFailsItsConnections) {
  FakeUcx ucx({});
  Pair pair(ucx);
  MessageState state{};
  const std::string payload(5000, 'x');
  pair.sender->send(pair.endpoint, bytes_of("a"), bytes_of(payload), state);
  ucx.cut(pair.reader->address());
  pair.sender->progress();
  EXPECT_EQ(state, MessageState::kFailed);
  EXPECT_FALSE(pair.sender->failure(pair.endpoint).ok());
  pair.sender->send(pair.endpoint, bytes_of("a"), {}, state);
  EXPECT_EQ(state, MessageState::kFailed);
}

}  // namespace
}  // namespace sennit
