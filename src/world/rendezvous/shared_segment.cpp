#include "world/rendezvous/shared_segment.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace sennit {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status refused(const char* what, std::size_t bytes) {
  return fail(Code::kSystemError,
              "the shared segment of {} bytes cannot be made: {}: {}",
              bytes,
              what,
              std::strerror(errno));
}

// Opened in /dev/shm under no name, or under a random one for as long as it takes to unlink it.
UniqueFd open_unnamed_file() {
  UniqueFd file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) {
    return file;
  }
  std::string name = "/sennit-";
  for (const std::uint8_t byte : random_token()) {
    name += fmt::format("{:02x}", byte);
  }
  UniqueFd named(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (named.valid()) {
    shm_unlink(name.c_str());
  }
  return named;
}

// A file that could shrink later would turn every access into SIGBUS, so only what is sealed, or
// what nobody but this user can reach, is mapped.
Status check_file(int fd, std::size_t bytes) {
  struct stat info{};
  if (fstat(fd, &info) != 0) {
    return fail(Code::kSystemError, "fstat of the shared segment: {}", std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_size < 0 ||
      static_cast<std::size_t>(info.st_size) != bytes) {
    return fail(
        Code::kMismatch,
        "the shared segment is not the file of {} bytes that was announced ({} bytes, uid {})",
        bytes,
        info.st_size,
        info.st_uid);
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  const bool sealed = seals >= 0 && (seals & kSeals) == kSeals;
  const bool unreachable = info.st_nlink == 0 && (info.st_mode & 077) == 0;
  if (!sealed && !unreachable) {
    return fail(Code::kMismatch, "the shared segment is neither sealed nor private to this user");
  }
  return {};
}

}  // namespace

SharedSegment::~SharedSegment() { munmap(base_, bytes_); }

Result<UniqueFd> create_segment_file(std::size_t bytes) {
  UniqueFd file(memfd_create("sennit", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) {
    if (errno == EMFILE || errno == ENFILE) {
      return descriptor_shortage(1);
    }
    return create_unsealed_segment_file(bytes);
  }
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return refused("ftruncate", bytes);
  }
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return refused("sealing", bytes);
  }
  return file;
}

Result<UniqueFd> create_unsealed_segment_file(std::size_t bytes) {
  UniqueFd file = open_unnamed_file();
  if (!file.valid()) {
    return refused("opening a file in /dev/shm", bytes);
  }
  // Reserved at once: a full /dev/shm (16 MiB in some containers) must fail here, not by SIGBUS
  // later.
  const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    errno = error;
    return refused("reserving memory in /dev/shm", bytes);
  }
  return file;
}

Result<UniqueFd> create_waker() {
  UniqueFd waker(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (waker.valid()) {
    return waker;
  }
  return errno == EMFILE || errno == ENFILE
             ? descriptor_shortage(1)
             : fail(Code::kSystemError, "eventfd: {}", std::strerror(errno));
}

Result<std::shared_ptr<SharedSegment>> map_segment(const Token& id, int fd, std::size_t bytes) {
  // By id, so that threads of one process have one address for one word: what keeps the thread
  // sanitizer able to see who synchronises with whom.
  static std::mutex mutex;
  static auto* const kSegments = new std::map<Token, std::weak_ptr<SharedSegment>>;

  SENNIT_RETURN_IF_ERROR(check_file(fd, bytes));
  const std::scoped_lock lock(mutex);
  std::erase_if(*kSegments, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = kSegments->find(id); known != kSegments->end()) {
    // The entry may expire between the two lines; then it is mapped afresh below.
    if (std::shared_ptr<SharedSegment> segment = known->second.lock(); segment != nullptr) {
      if (segment->size() != bytes) {
        return fail(Code::kMismatch, "two shared segments of different size have one id");
      }
      return segment;
    }
  }
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, /*offset=*/0);
  if (base == MAP_FAILED) {
    return fail(Code::kSystemError, "mmap of the shared segment: {}", std::strerror(errno));
  }
  auto segment = std::make_shared<SharedSegment>(static_cast<std::byte*>(base), bytes);
  (*kSegments)[id] = segment;
  return segment;
}

}  // namespace sennit
