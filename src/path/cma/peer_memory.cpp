#include "path/cma/peer_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace sennit::cma {

PeerMemory::PeerMemory(pid_t pid, bool same_process) : pid_(same_process ? ::getpid() : pid) {}

Status PeerMemory::read(void* to, std::uint64_t address, std::size_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  // The kernel moves at most 2 GiB less a page a call and may stop early.
  std::size_t done = 0;
  while (done < bytes) {
    const iovec local{static_cast<std::byte*>(to) + done, bytes - done};
    const iovec remote{reinterpret_cast<void*>(address + done), bytes - done};
    const ssize_t moved = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (moved <= 0) {
      if (moved < 0 && errno == EINTR) {
        continue;
      }
      // A process that dies loses its memory some time before its pidfd reports its death.
      return fail(moved < 0 && errno == ESRCH ? Code::kRankFailed : Code::kSystemError,
                  "process_vm_readv of {} bytes from pid {} failed: {}",
                  bytes,
                  pid_,
                  moved == 0 ? "nothing was read" : std::strerror(errno));
    }
    done += static_cast<std::size_t>(moved);
  }
  return {};
}

bool PeerMemory::is_refused() {
  const std::byte from{1};
  std::byte to{0};
  return !PeerMemory(::getpid(), /*same_process=*/true)
              .read(&to, reinterpret_cast<std::uint64_t>(&from), sizeof(from))
              .ok();
}

}  // namespace sennit::cma
