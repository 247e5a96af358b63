#include "world/rendezvous/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

namespace sennit {
namespace {

// -1 where /proc does not say.
int open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) {
    return -1;
  }
  int count = -3;  // ".", ".." and the descriptor of the folder itself
  while (readdir(folder) != nullptr) {
    ++count;
  }
  closedir(folder);
  return count;
}

Status shortage(int needed, int open_count, rlim_t limit) {
  ErrorDetail detail;
  detail.evidence = fmt::format("the limit is {} (ulimit -n), {} are open", limit, open_count);
  detail.next = fmt::format("raise the limit before starting the ranks: ulimit -n {}",
                            open_count + needed + 64);
  return {Code::kSystemError,
          fmt::format("not enough file descriptors: joining needs {} more", needed),
          detail};
}

rlim_t descriptor_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

Token random_token() {
  Token token{};
  ssize_t got = 0;
  do {
    got = getrandom(token.data(), token.size(), 0);
  } while (got < 0 && errno == EINTR);
  // Up to 256 bytes the kernel gives all or fails, and it fails only for reasons that do not apply.
  SENNIT_CHECK(got == static_cast<ssize_t>(token.size()), "the kernel gives no random bytes");
  return token;
}

Token process_token() {
  static std::mutex mutex;
  static pid_t owner = 0;
  static Token token;
  const std::scoped_lock lock(mutex);
  if (owner != getpid()) {
    owner = getpid();
    token = random_token();
  }
  return token;
}

Result<UniqueFd> open_own_pidfd() {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (pidfd.valid()) {
    return pidfd;
  }
  if (errno == EMFILE || errno == ENFILE) {
    return descriptor_shortage(1);
  }
  return fail(
      Code::kUnsupported,
      "pidfd_open is refused ({}): ranks need Linux 5.3 or later, and a container that allows it",
      std::strerror(errno));
}

bool is_pidfd(int fd) {
  // Signal 0 asks only whether the process could be signalled. Other reasons to fail (it has ended,
  // its namespace is hidden) come after the kernel has found that it is a pidfd.
  return syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) == 0 || errno != EBADF;
}

pid_t pid_behind(int pidfd) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", pidfd));
  std::string name;
  while (info >> name) {
    if (name == "Pid:") {
      pid_t pid = 0;
      info >> pid;
      return pid > 0 ? pid : 0;
    }
  }
  return 0;
}

Result<UniqueFd> take_descriptor(int pidfd, int number) {
  UniqueFd taken(pidfd < 0 ? ::fcntl(number, F_DUPFD_CLOEXEC, 0)
                           : static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, number, 0)));
  if (taken.valid()) {
    return taken;
  }
  return fail(Code::kSystemError,
              "a file descriptor of another rank cannot be taken over: {}",
              std::strerror(errno));
}

Status check_descriptors(int needed) {
  const int open_count = open_descriptors();
  const rlim_t limit = descriptor_limit();
  if (open_count < 0 || static_cast<rlim_t>(open_count) + static_cast<rlim_t>(needed) <= limit) {
    return {};
  }
  return shortage(needed, open_count, limit);
}

Status descriptor_shortage(int needed) {
  const rlim_t limit = descriptor_limit();
  const int open_count = open_descriptors();
  // Without a free descriptor /proc cannot be opened either: then all that are allowed are open.
  return shortage(needed, open_count >= 0 ? open_count : static_cast<int>(limit), limit);
}

}  // namespace sennit
