#include "base/die_at.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace sennit {
namespace {

// How a child ends that passes `moments` moments: the signal, or 0 when it passes all of them.
int end_of_child(const DieAt& moment, int moments) {
  const pid_t child = ::fork();
  if (child == 0) {
    DieAt own = moment;
    for (int k = 0; k < moments; ++k) {
      own.pass();
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return WSTOPSIG(status);
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(DieAt, EndsTheProcessAtItsMomentAndNotBefore) {
  const Result<DieAt> kill = DieAt::parse("2:7:1.5");
  ASSERT_TRUE(kill.ok()) << kill.status().message();
  EXPECT_TRUE(kill->is_in(2, 7));
  EXPECT_FALSE(kill->is_in(2, 6));
  EXPECT_FALSE(kill->is_in(1, 7));
  EXPECT_EQ(end_of_child(*kill, 3), 0) << "the moments 0, 0.5 and 1";
  EXPECT_EQ(end_of_child(*kill, 4), SIGKILL);
  EXPECT_EQ(end_of_child(DieAt::parse("0:1:0:stop").value(), 1), SIGSTOP);
  EXPECT_TRUE(DieAt::parse("0:0:1").value().is_in(0, 0)) << "a send";
  EXPECT_EQ(end_of_child(DieAt::parse("0:1:0:kill").value(), 1), SIGKILL);
}

TEST(DieAt, WhatIsNoMomentIsRefusedByName) {
  for (const char* text : {"1",
                           "1:2",
                           "1:2:",
                           "1:2:3:",
                           "1:2:3:hang",
                           "1:2:3:kill:4",
                           "x:1:0",
                           "-1:1:0",
                           "0:1:-1",
                           "0:1:0.25",
                           "0:1:.5",
                           "0:99999999999:0"}) {
    const Result<DieAt> result = DieAt::parse(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_NE(result.status().message().find("SENNIT_TEST_DIE_AT"), std::string::npos);
  }
}

}  // namespace
}  // namespace sennit
