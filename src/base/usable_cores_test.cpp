#include "base/usable_cores.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <vector>

namespace sennit {
namespace {

std::vector<int> cores_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) {
      cores.push_back(core);
    }
  }
  return cores;
}

void bind_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    CPU_SET(core, &set);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(set), &set), 0);
}

// A process that is bound to one core, and waits until it is killed.
class BoundProcess {
 public:
  explicit BoundProcess(int core) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      bind_to({core});
      const char byte = 0;
      ::_exit(::write(ready[1], &byte, 1) == 1 ? ::pause() : 1);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  BoundProcess(const BoundProcess&) = delete;
  BoundProcess& operator=(const BoundProcess&) = delete;
  ~BoundProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

TEST(UsableCores, AreThoseOfAllRanksTogether) {
  const std::vector<int> cores = cores_of_this_process();
  if (cores.size() < 2) {
    GTEST_SKIP() << "cores2: needs two cores";
  }
  EXPECT_EQ(usable_cores({}), static_cast<int>(cores.size()));
  bind_to({cores[0]});
  const BoundProcess same(cores[0]);
  EXPECT_EQ(usable_cores({same.pid(), 0}), 1);
  const BoundProcess other(cores[1]);
  EXPECT_EQ(usable_cores({same.pid(), 0, other.pid()}), 2);
  bind_to(cores);
}

}  // namespace
}  // namespace sennit
