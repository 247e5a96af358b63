// PMIx, of which this declares what it calls: the ABI has been the same since PMIx 3.
#include "base/fd.hpp"
#include "world/nodes/launcher_store.hpp"
#include "world/rendezvous/deadline.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace sennit {
namespace {

constexpr const char* kKey = "sennit.id";
constexpr std::uint8_t kGlobal = 3;   // PMIX_GLOBAL
constexpr std::uint16_t kString = 3;  // PMIX_STRING
constexpr std::uint16_t kInt = 6;     // PMIX_INT
// Of the child, beyond the time that PMIx has.
constexpr double kSpareSeconds = 5;

struct Process {
  char job[256];
  std::uint32_t rank;
};

struct Value {
  std::uint16_t type = 0;
  union {
    char* text;
    int number;
    std::array<std::uint64_t, 3> largest{};
  } of{};
};
static_assert(sizeof(Value) == 32);

struct Info {
  char key[512] = "pmix.timeout";
  std::uint32_t flags = 0;
  Value value;
};
static_assert(sizeof(Info) == 552);

// The library that a process has loaded; empty if it has none.
std::string library_of(pid_t process) {
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && line.find("/libpmix.so") != std::string::npos) {
      return line.substr(path);
    }
  }
  return {};
}

pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kLabel = "PPid:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kLabel)) {
      return static_cast<pid_t>(std::strtol(line.c_str() + kLabel.size(), nullptr, 10));
    }
  }
  return 0;
}

// The launcher's, from which there may be scripts and shells down to this process.
std::string library_of_ancestors() {
  std::string library;
  for (pid_t process = ::getppid(); process > 0 && library.empty(); process = parent_of(process)) {
    library = library_of(process);
  }
  return library;
}

// What is in the child process. Answers begin with '+', or with '-' and say what failed.
class PmixClient {
 public:
  PmixClient(const std::string& library, int timeout_s) : timeout_s_(timeout_s) {
    library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }

  bool is_running() {
    const auto is_initialized = find<int()>("PMIx_Initialized");
    return is_initialized != nullptr && is_initialized() != 0;
  }

  std::string share(bool is_rank_0, std::string text) {
    const auto init = find<int(Process*, Info*, std::size_t)>("PMIx_Init");
    const auto finalize = find<int(const Info*, std::size_t)>("PMIx_Finalize");
    Process own{};
    if (init == nullptr || finalize == nullptr) {
      return "-it cannot be opened";
    }
    if (const int status = init(&own, nullptr, 0); status != 0) {
      return fmt::format("-PMIx_Init gives {}", status);
    }
    std::string answer = is_rank_0 ? put(std::move(text)) : get(own);
    static_cast<void>(finalize(nullptr, 0));
    return answer;
  }

 private:
  template <typename Function>
  Function* find(const char* name) {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  std::string put(std::string text) {
    const auto put_value = find<int(std::uint8_t, const char*, Value*)>("PMIx_Put");
    const auto commit = find<int()>("PMIx_Commit");
    Value value{.type = kString};
    value.of.text = text.data();
    const int status = put_value == nullptr || commit == nullptr ? -1
                       : put_value(kGlobal, kKey, &value) == 0   ? commit()
                                                                 : -1;
    return status == 0 ? fmt::format("+{}", text)
                       : fmt::format("-PMIx_Put or PMIx_Commit give {}", status);
  }

  std::string get(Process root) {
    const auto get_value =
        find<int(const Process*, const char*, const Info*, std::size_t, Value**)>("PMIx_Get");
    Info timeout;
    timeout.value.type = kInt;
    timeout.value.of.number = timeout_s_;
    root.rank = 0;
    Value* found = nullptr;
    const int status = get_value == nullptr ? -1 : get_value(&root, kKey, &timeout, 1, &found);
    return status == 0 && found != nullptr && found->type == kString
               ? fmt::format("+{}", found->of.text)
               : fmt::format("-PMIx_Get gives {}; did rank 0 come?", status);
  }

  void* library_ = nullptr;
  int timeout_s_;
};

// Until the other end is closed, or the time is over.
std::string read_all(int pipe, const Deadline& deadline) {
  std::string text;
  while (!deadline.passed()) {
    pollfd entry{.fd = pipe, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, Deadline::poll_ms(deadline.end())) > 0) {
      std::array<char, 512> bytes{};
      const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
      if (got <= 0) {
        return text;
      }
      text.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
  return text;
}

Result<std::string> text_of_answer(const std::string& library, const std::string& answer) {
  if (answer.starts_with('+')) {
    return answer.substr(1);
  }
  return fail(Code::kSystemError,
              "{} does not bring a text of rank 0: {}",
              library,
              answer.empty() ? "it did not end in time" : answer.substr(1));
}

}  // namespace

Result<std::string> share_by_pmix(bool is_rank_0, const std::string& text, int timeout_s) {
  if (const std::string own = library_of(::getpid()); !own.empty()) {
    PmixClient client(own, timeout_s);
    if (client.is_running()) {  // of an MPI, which goes on with it
      return text_of_answer(own, client.share(is_rank_0, text));
    }
  }
  const std::string library = library_of_ancestors();
  if (library.empty()) {
    return fail(Code::kUnsupported, "no process above this one has libpmix.so");
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Code::kSystemError, "no pipe to a child process: {}", std::strerror(errno));
  }
  const UniqueFd from_child(ends[0]);
  UniqueFd to_parent(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string answer = PmixClient(library, timeout_s).share(is_rank_0, text);
    // NOLINTNEXTLINE(bugprone-unused-return-value): the parent sees what is missing
    static_cast<void>(::write(to_parent.get(), answer.data(), answer.size()));
    ::_exit(0);
  }
  to_parent.reset();
  if (child < 0) {
    return fail(Code::kSystemError, "no child process: {}", std::strerror(errno));
  }
  const std::string answer = read_all(from_child.get(), Deadline(timeout_s + kSpareSeconds));
  ::kill(child, SIGKILL);  // it has ended, or never will
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text_of_answer(library, answer);
}

}  // namespace sennit
