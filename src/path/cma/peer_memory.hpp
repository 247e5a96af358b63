// Path cma: one copy straight out of another rank's buffer, by process_vm_readv. The same where the
// rank is a thread of this process: one that has given up may free its buffer at any moment, which
// the system answers with an error, and memcpy with the end of the process.
#pragma once

#include "base/status.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace sennit::cma {

// What a writer leaves in a slot instead of data: where a block lies in its own memory.
struct Descriptor {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(pid_t pid, bool same_process);

  // Copies `bytes` from `address` in the peer's memory. kRankFailed when the peer has no memory any
  // more, because it is dying; kSystemError with what the system said, such as EPERM where the
  // system forbids it.
  Status read(void* to, std::uint64_t address, std::size_t bytes) const;

  // Whether the system refuses this process the call altogether, so that no peer is to blame.
  static bool is_refused();

 private:
  pid_t pid_ = 0;
};

}  // namespace sennit::cma
