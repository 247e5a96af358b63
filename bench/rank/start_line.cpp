#include "start_line.hpp"

#include "work_order.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

namespace sennit::bench {
namespace {

// Far longer than ranks that come together wait for each other.
constexpr int kTurnsPerLook = 10'000;

[[noreturn]] void give_up(const std::string& what) {
  exit_with_error(3, "the ranks of the bench cannot share memory: " + what + " failed");
}

// A file without a name; where the system refuses memfd, one that has lost its name.
int open_unnamed() {
  int fd = ::memfd_create("sennit-bench", MFD_CLOEXEC);
  for (const char* const folder : {"/dev/shm", "/tmp"}) {
    fd = fd < 0 ? ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : fd;
  }
  return fd;
}

// The memory of rank 0, opened by the others through /proc.
int open_shared(sennit_comm_t comm, int rank, std::size_t bytes) {
  std::array<std::int64_t, 2> owner = {::getpid(), 0};
  if (rank == 0) {
    const int fd = open_unnamed();
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      give_up("making a file without a name (memfd_create, /dev/shm, /tmp)");
    }
    owner[1] = fd;
  }
  check(sennit_broadcast(
      owner.data(), owner.data(), owner.size(), SENNIT_INT64, 0, comm, nullptr, nullptr));
  if (rank == 0) {
    return static_cast<int>(owner[1]);
  }
  const std::string file = "/proc/" + std::to_string(owner[0]) + "/fd/" + std::to_string(owner[1]);
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    give_up("opening " + file);
  }
  return fd;
}

// There is such a process, and no signal has stopped it.
bool runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // The name stands in parentheses, may contain some itself, and the state is behind it.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos || end + 2 >= text.size()) {
    return false;
  }
  return std::string_view("TtZX").find(text[end + 2]) == std::string_view::npos;
}

}  // namespace

StartLine::StartLine(sennit_comm_t comm, int rank, int ranks)
    : ranks_(static_cast<std::uint32_t>(ranks)),
      has_core_(ranks <= ::sysconf(_SC_NPROCESSORS_ONLN)) {
  const int fd = open_shared(comm, rank, sizeof(Shared));
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    give_up("mmap");
  }
  shared_ = static_cast<Shared*>(memory);
  shared_->pids.at(static_cast<std::size_t>(rank)) = ::getpid();
  // Rank 0 must not close its descriptor before all have opened it.
  check(sennit_barrier(comm, nullptr, nullptr));
  ::close(fd);
}

StartLine::~StartLine() { ::munmap(shared_, sizeof(Shared)); }

bool StartLine::wait() {
  // Acquire: the last one that comes resets `arrived`, which the others read in the next round;
  // they see the reset because they have seen the new round, which is stored after it (release).
  const std::uint32_t round = shared_->round.load(std::memory_order_acquire);
  if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
    shared_->arrived.store(0, std::memory_order_relaxed);
    shared_->round.store(round + 1, std::memory_order_release);
    return true;
  }
  int turns = 0;
  while (shared_->round.load(std::memory_order_acquire) == round) {
    if (!has_core_) {
      ::sched_yield();
    }
    if (++turns % kTurnsPerLook == 0 && !all_run()) {
      return false;
    }
  }
  return true;
}

bool StartLine::all_run() const {
  return std::all_of(shared_->pids.begin(), shared_->pids.begin() + ranks_, [](const auto& pid) {
    return runs(pid.load(std::memory_order_relaxed));
  });
}

}  // namespace sennit::bench
