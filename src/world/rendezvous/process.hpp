// Facts about this process and handles of others, as the rendezvous needs them.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"

#include <sys/types.h>

#include <array>
#include <cstdint>

namespace sennit {

using Token = std::array<std::uint8_t, 16>;

// 128 random bits from the kernel.
Token random_token();

// Drawn once a process, so that ranks can find which of them are threads of one process. The child
// of a fork has one of its own.
Token process_token();

// A descriptor that becomes readable when this process ends; it may be given to other processes.
Result<UniqueFd> open_own_pidfd();

// Whether a descriptor that came from another process is a pidfd at all.
bool is_pidfd(int fd);

// The process behind a pidfd as this process sees it; 0 where it cannot be seen from here (another
// PID namespace, no /proc) or has ended.
pid_t pid_behind(int pidfd);

// A descriptor of the process behind the pidfd, or of this process where there is none (-1), which
// may have another number here. The system allows it to those that may trace the process, as it
// does process_vm_readv: of the same user, and no container or setting against it.
Result<UniqueFd> take_descriptor(int pidfd, int number);

// Fails with what is needed and what there is if `needed` more descriptors would pass the limit.
Status check_descriptors(int needed);

// The same message for a system call that has already failed for want of descriptors.
Status descriptor_shortage(int needed);

}  // namespace sennit
