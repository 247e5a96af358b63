// Mirrored rings between two processes, over the real UCX and the loopback interface.
#include "base/fd.hpp"
#include "drivers/ucx/ucx.hpp"
#include "path/rail/greetings.hpp"
#include "path/rail/mirrored_rings.hpp"
#include "path/rail/testing/plain_rings.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace sennit::rail {
namespace {

constexpr RingGeometry kGeometry{.ports = 2, .slots = 4, .slot_bytes = 65536};
constexpr const char* kSocketVariable = "RAIL_TEST_SOCKET";

std::string swap_texts(int socket, const std::string& text) {
  EXPECT_EQ(::send(socket, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  std::string answer(Introduction::kMostBytes, '\0');
  const ssize_t bytes = ::recv(socket, answer.data(), answer.size(), 0);
  EXPECT_GT(bytes, 0);
  answer.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return answer;
}

void run_rank(int rank, int socket) {
  auto cards = CardSet::open(**ucx_driver(), std::array{NetworkCard{.device = "lo"}});
  ASSERT_TRUE(cards.ok()) << cards.status().message();
  MirroredRings rings(*cards, rank, 2);
  const std::string own = rings.introduction().text();
  std::array<std::string, 2> introductions{own, own};
  introductions[static_cast<std::size_t>(1 - rank)] = swap_texts(socket, own);
  auto memory = std::make_unique<PlainRings>(2, kGeometry);
  PlainRings& plain = *memory;
  ASSERT_TRUE(rings.open(std::move(memory), kGeometry, introductions, std::array{0, 1}).ok());
  const Status greeted = exchange_greetings(rings, {.rails_to = std::array{0, 0}});
  ASSERT_TRUE(greeted.ok()) << greeted.message();
  RingTraffic traffic(
      rings, plain, {.geometry = kGeometry, .rank = rank, .ranks = 2, .messages = 300});
  EXPECT_EQ(traffic.run(), "");
  // Blocked, not progressing: the other end has to come to its own.
  swap_texts(socket, "done");
  EXPECT_EQ(rings.dropped_frames(), 0U);
  EXPECT_EQ(rings.cards().strange_frames(), 0U);
}

// The other rank is this test in a process of its own.
TEST(RailProcesses, TwoProcessesExchangeMessagesOverLoopback) {
  if (const char* const socket = std::getenv(kSocketVariable); socket != nullptr) {
    return run_rank(1, std::stoi(socket));
  }
  ::setenv("UCX_MEM_EVENTS", "n", 1);  // it would replace functions that sanitizers have
  const Result<UcxDriver*> driver = ucx_driver();
  if (!driver.ok()) {
    GTEST_SKIP() << "ucx: " << driver.status().message();
  }
  std::array<int, 2> sockets{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), 0);
  const UniqueFd ours(sockets[0]);
  UniqueFd theirs(sockets[1]);
  const std::string variable = fmt::format("{}={}", kSocketVariable, theirs.get());
  std::string program = "rank1";
  std::string filter = "--gtest_filter=RailProcesses.*";
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // The child would look for this test in its own shard of the tests alone.
    if (!std::string_view(*entry).starts_with("GTEST_")) {
      environment.push_back(*entry);
    }
  }
  std::string given = variable;
  environment.push_back(given.data());
  environment.push_back(nullptr);
  const std::array<char*, 3> arguments{program.data(), filter.data(), nullptr};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execve("/proc/self/exe", arguments.data(), environment.data());
    ::_exit(127);
  }
  theirs.reset();
  run_rank(0, ours.get());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sennit::rail
