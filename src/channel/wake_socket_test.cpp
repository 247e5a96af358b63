#include "channel/wake_socket.hpp"

#include <gtest/gtest.h>

#include <poll.h>

#include <thread>

namespace sennit {
namespace {

bool has_wake_up(const WakeSocket& socket, int timeout_ms) {
  pollfd entry{.fd = socket.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

TEST(WakeSocket, WakesWhoSleepsOnItsDescriptorWhenTheBellRings) {
  Doorbell bell;
  WakeSocket socket;
  ASSERT_GE(socket.descriptor(), 0);
  socket.announce(bell);
  std::thread publisher([&] { wake(bell); });
  EXPECT_TRUE(has_wake_up(socket, 10'000));
  publisher.join();
  socket.withdraw(bell);
  EXPECT_EQ(bell.sleepers.load(), 0U);
  EXPECT_FALSE(has_wake_up(socket, 0)) << "what had come is taken out";
}

TEST(WakeSocket, GetsNothingWhileNobodySleepsOnIt) {
  Doorbell bell;
  WakeSocket socket;
  socket.announce(bell);
  socket.withdraw(bell);
  wake(bell);
  ring(bell);
  EXPECT_FALSE(has_wake_up(socket, 0));
}

TEST(WakeSocket, ServesTwoSleepersAtOneBell) {
  Doorbell bell;
  WakeSocket socket;
  socket.announce(bell);
  socket.announce(bell);
  socket.withdraw(bell);
  wake(bell);
  EXPECT_TRUE(has_wake_up(socket, 10'000)) << "one of them still sleeps";
  socket.withdraw(bell);
  EXPECT_EQ(bell.sleepers.load(), 0U);
}

// Many may ring before the sleeper comes round to look.
TEST(WakeSocket, HoldsNobodyUpWhenItIsFull) {
  Doorbell bell;
  WakeSocket socket;
  socket.announce(bell);
  for (int datagram = 0; datagram < 10'000; ++datagram) {
    wake(bell);
  }
  EXPECT_TRUE(has_wake_up(socket, 0));
  socket.withdraw(bell);
  EXPECT_FALSE(has_wake_up(socket, 0));
}

}  // namespace
}  // namespace sennit
