// ProcessHandle: a pidfd that all communicators of this process share.
//
// A process that is in a hundred communicators is watched by one descriptor. The last handle that
// refers to it closes it.
#pragma once

#include "base/fd.hpp"
#include "world/rendezvous/process.hpp"

#include <sys/types.h>

#include <memory>
#include <utility>

namespace sennit {

class ProcessHandle {
 public:
  ProcessHandle() = default;  // of no process

  // Of the process that `pidfd` refers to and whose process_token() is `token`. If this process has
  // a handle of it already, that descriptor is used and `pidfd` closed. May be called by several
  // threads at once.
  static ProcessHandle share(const Token& token, UniqueFd pidfd);

  // Readable once the process has died; -1: of no process.
  [[nodiscard]] int get() const { return shared_ != nullptr ? shared_->pidfd.get() : -1; }
  [[nodiscard]] bool valid() const { return shared_ != nullptr; }
  // By pid_behind(), when the process became known.
  [[nodiscard]] pid_t pid() const { return shared_ != nullptr ? shared_->pid : 0; }

 private:
  struct Shared {
    UniqueFd pidfd;
    pid_t pid = 0;
  };
  explicit ProcessHandle(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<const Shared> shared_;
};

}  // namespace sennit
