#include "world/rendezvous/process_handle.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace sennit {
namespace {

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

bool has_ended(const ProcessHandle& handle) {
  pollfd watched{.fd = handle.get(), .events = POLLIN, .revents = 0};
  return ::poll(&watched, 1, 0) == 1;
}

// A process that does nothing until it is ended.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void end() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }

 private:
  pid_t pid_;
};

TEST(ProcessHandle, OfNoProcessIsNoDescriptor) {
  const ProcessHandle none;
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.get(), -1);
  EXPECT_EQ(none.pid(), 0);
}

TEST(ProcessHandle, OneDescriptorServesAllUntilTheLastIsGone) {
  const Child child;
  const Token token = random_token();
  auto first = ProcessHandle::share(token, open_pidfd(child.pid()));
  UniqueFd again = open_pidfd(child.pid());
  const int superfluous = again.get();
  auto second = ProcessHandle::share(token, std::move(again));
  const int descriptor = first.get();
  EXPECT_EQ(first.pid(), child.pid());
  EXPECT_EQ(second.get(), descriptor);
  EXPECT_FALSE(is_open(superfluous));
  first = {};
  EXPECT_TRUE(is_open(descriptor));
  second = {};
  EXPECT_FALSE(is_open(descriptor));
}

TEST(ProcessHandle, OfAProcessThatHasEndedIsNotThatOfItsSuccessor) {
  Child ended;
  const auto old = ProcessHandle::share(random_token(), open_pidfd(ended.pid()));
  ended.end();
  const Child child;
  const auto fresh = ProcessHandle::share(random_token(), open_pidfd(child.pid()));
  EXPECT_TRUE(has_ended(old));
  EXPECT_FALSE(has_ended(fresh));
}

TEST(ProcessHandle, NoProcessPassesForAnotherOneByItsToken) {
  Child victim;
  const Child liar;
  const Token token = random_token();
  const auto early = ProcessHandle::share(token, open_pidfd(liar.pid()));
  const auto handle = ProcessHandle::share(token, open_pidfd(victim.pid()));
  EXPECT_FALSE(has_ended(handle));
  victim.end();
  EXPECT_TRUE(has_ended(handle));
  EXPECT_FALSE(has_ended(early));
}

}  // namespace
}  // namespace sennit
