// The real UCX, over the loopback interface.
#include "drivers/ucx/ucx.hpp"

#include <gtest/gtest.h>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <string>

namespace sennit {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

using Clock = std::chrono::steady_clock;

class Ucx : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("UCX_MEM_EVENTS", "n", 1);  // it would replace functions that sanitizers have
    const Result<UcxDriver*> driver = ucx_driver();
    if (!driver.ok()) {
      GTEST_SKIP() << "ucx: " << driver.status().message();
    }
    for (auto& card : cards_) {
      auto opened = (*driver)->open({.device = "lo"});
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      card = std::move(*opened);
    }
    cards_[1]->set_handler(
        [this](std::span<const std::byte> header, std::span<const std::byte> payload) {
          header_.assign(reinterpret_cast<const char*>(header.data()), header.size());
          payload_.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
          ++messages_;
        });
    const auto endpoint = cards_[0]->connect(cards_[1]->address());
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
    endpoint_ = *endpoint;
  }

  template <typename Condition>
  [[nodiscard]] bool progress_until(Condition condition) {
    const auto end = Clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      for (const auto& card : cards_) {
        if (card) {
          card->progress();
        }
      }
      if (Clock::now() > end) {
        return false;
      }
    }
    return true;
  }

  std::array<std::unique_ptr<UcxCard>, 2> cards_;
  int endpoint_ = -1;
  std::string header_;
  std::string payload_;
  int messages_ = 0;
};

TEST_F(Ucx, MessagesArriveWithHeaderAndPayload) {
  for (const std::size_t bytes : {0, 8, 1000, 9000, 64 * 1024, 256 * 1024}) {
    const std::string payload(bytes, static_cast<char>('a' + bytes % 23));
    MessageState state{};
    const int before = messages_;
    cards_[0]->send(endpoint_, bytes_of("header"), bytes_of(payload), state);
    ASSERT_TRUE(
        progress_until([&] { return messages_ > before && state != MessageState::kUnderWay; }));
    EXPECT_EQ(state, MessageState::kDone);
    EXPECT_EQ(header_, "header");
    EXPECT_TRUE(payload_ == payload) << bytes;
  }
}

// The socket has room for some of the messages, and for a part of one.
TEST_F(Ucx, WhatHasEndedArrivesWithoutMoreOfItsSender) {
  MessageState first{};
  // A payload is not copied: it has to stay where it is.
  const std::string payload(3000, 'x');
  cards_[0]->send(endpoint_, bytes_of("wires up"), bytes_of(payload), first);
  ASSERT_TRUE(progress_until([&] { return messages_ == 1 && first != MessageState::kUnderWay; }));
  ASSERT_TRUE(cards_[0]->ends_when_left());
  std::deque<MessageState> states;
  while (states.empty() || states.back() != MessageState::kUnderWay) {
    ASSERT_LT(states.size(), 100000U) << "the socket takes all";
    cards_[0]->send(endpoint_, bytes_of("h"), bytes_of(payload), states.emplace_back());
  }
  const auto ended = std::ranges::count(states, MessageState::kDone);
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (messages_ < 1 + ended && Clock::now() < end) {
    cards_[1]->progress();
  }
  EXPECT_EQ(messages_, 1 + ended);
  EXPECT_EQ(std::ranges::count(states, MessageState::kDone), ended);
  cards_ = {};  // before the payload that some still read, and their states
}

TEST_F(Ucx, AnEmptyMessageEndsBehindThoseBeforeIt) {
  MessageState states[100]{};
  const std::string payload(20000, 'x');
  for (MessageState& state : states) {
    cards_[0]->send(endpoint_, bytes_of("h"), bytes_of(payload), state);
  }
  MessageState last{};
  cards_[0]->send(endpoint_, bytes_of("last"), {}, last);
  ASSERT_TRUE(progress_until([&] { return last != MessageState::kUnderWay; }));
  EXPECT_EQ(last, MessageState::kDone);
  for (const MessageState state : states) {
    EXPECT_EQ(state, MessageState::kDone);
  }
  ASSERT_TRUE(progress_until([&] { return messages_ == 101; }));
}

TEST_F(Ucx, ADescriptorWakesTheSleeper) {
  MessageState state{};
  cards_[0]->send(endpoint_, bytes_of("wires up"), {}, state);
  ASSERT_TRUE(progress_until([&] { return messages_ == 1; }));
  while (!cards_[1]->arm()) {
    cards_[1]->progress();
  }
  pollfd entry{.fd = cards_[1]->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  cards_[0]->send(endpoint_, bytes_of("wakes"), {}, state);
  cards_[0]->progress();
  EXPECT_EQ(::poll(&entry, 1, 5000), 1);
  ASSERT_TRUE(progress_until([&] { return messages_ == 2; }));
}

TEST_F(Ucx, APeerThatIsGoneFailsTheEndpoint) {
  MessageState state{};
  cards_[0]->send(endpoint_, bytes_of("wires up"), {}, state);
  ASSERT_TRUE(progress_until([&] { return messages_ == 1; }));
  cards_[1].reset();
  const std::string payload(100000, 'x');
  ASSERT_TRUE(progress_until([&] {
    if (state != MessageState::kUnderWay) {
      cards_[0]->send(endpoint_, bytes_of("h"), bytes_of(payload), state);
    }
    return !cards_[0]->failure(endpoint_).ok();
  }));
  ASSERT_TRUE(progress_until([&] { return state != MessageState::kUnderWay; }));
  EXPECT_EQ(state, MessageState::kFailed);
}

TEST_F(Ucx, SignalsOfCrashesStayAsTheyWere) {
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) {
    struct sigaction action{};
    ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(action.sa_handler, SIG_DFL) << signal;
#endif
  }
}

TEST_F(Ucx, CardsThatAreNotHereAreRefusedByName) {
  const auto card = (*ucx_driver())->open({.device = "nosuchcard"});
  ASSERT_FALSE(card.ok());
  EXPECT_NE(card.status().message().find("nosuchcard"), std::string::npos);
}

}  // namespace
}  // namespace sennit
