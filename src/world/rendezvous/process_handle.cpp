#include "world/rendezvous/process_handle.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace sennit {

ProcessHandle ProcessHandle::share(const Token& token, UniqueFd pidfd) {
  // A pid is given to a new process once the old one has ended; a token is drawn by one process
  // alone. But a process states its token itself. The kernel states the pid, so with both a process
  // cannot pretend to be another one. The pid is 0 if PID namespaces do not show it.
  using Process = std::pair<Token, pid_t>;
  static std::mutex mutex;
  static auto* const kHandles = new std::map<Process, std::weak_ptr<const Shared>>;

  const Process process(token, pid_behind(pidfd.get()));
  const std::scoped_lock lock(mutex);
  if (const auto entry = kHandles->find(process); entry != kHandles->end()) {
    if (std::shared_ptr<const Shared> known = entry->second.lock(); known != nullptr) {
      return ProcessHandle(std::move(known));
    }
  }
  std::erase_if(*kHandles, [](const auto& entry) { return entry.second.expired(); });
  auto fresh =
      std::make_shared<const Shared>(Shared{.pidfd = std::move(pidfd), .pid = process.second});
  kHandles->insert_or_assign(process, fresh);
  return ProcessHandle(std::move(fresh));
}

}  // namespace sennit
