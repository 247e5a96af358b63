#include "world/rendezvous/process.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace sennit {
namespace {

constexpr char kWritten = 'x';

int file_with_a_letter() {
  const int file = ::memfd_create("of-a-process", MFD_CLOEXEC);
  EXPECT_EQ(::pwrite(file, &kWritten, 1, 0), 1);
  return file;
}

char letter_in(const UniqueFd& file) {
  char letter = 0;
  EXPECT_EQ(::pread(file.get(), &letter, 1, 0), 1);
  return letter;
}

TEST(Descriptors, OfThisProcessAreDuplicated) {
  const UniqueFd file(file_with_a_letter());
  const auto taken = take_descriptor(-1, file.get());
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_NE(taken->get(), file.get());
  EXPECT_EQ(letter_in(*taken), kWritten);
  EXPECT_EQ(::fcntl(taken->get(), F_GETFD), FD_CLOEXEC);
}

TEST(Descriptors, OfAnotherProcessAreTakenOver) {
  int report[2] = {-1, -1};
  ASSERT_EQ(::pipe2(report, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = file_with_a_letter();
    (void)!::write(report[1], &file, sizeof(file));
    ::pause();
    ::_exit(0);
  }
  int number = -1;
  ASSERT_EQ(::read(report[0], &number, sizeof(number)), static_cast<ssize_t>(sizeof(number)));
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const auto taken = take_descriptor(pidfd.get(), number);
  EXPECT_FALSE(take_descriptor(pidfd.get(), 1 << 20).ok()) << "it has none of that number";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(take_descriptor(pidfd.get(), number).ok()) << "it is no more";
  // Some containers forbid it.
  if (taken.ok()) {
    EXPECT_EQ(letter_in(*taken), kWritten);
  } else {
    EXPECT_NE(taken.status().message().find("taken over"), std::string::npos);
  }
}

}  // namespace
}  // namespace sennit
