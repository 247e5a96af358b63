// PMI-1: every request is a line "cmd=put kvsname=... key=... value=...", and so is its answer.
#include "world/nodes/launcher_store.hpp"
#include "world/rendezvous/deadline.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sennit {
namespace {

constexpr std::string_view kKey = "sennit-id";
// An answer is shorter; whoever sends more is no launcher.
constexpr std::size_t kMostAnswerBytes = 4096;

// The value of `name` in a line; empty if it is not there.
std::string word_of(std::string_view line, std::string_view name) {
  std::size_t begin = 0;
  while (begin < line.size()) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) {
      return std::string(word.substr(name.size() + 1));
    }
    begin = end + 1;
  }
  return {};
}

class PmiConnection {
 public:
  PmiConnection(int socket, int timeout_s) : socket_(socket), deadline_(timeout_s) {}

  // Sends a request, and gives the answer, which has to be of this kind.
  Result<std::string> ask(const std::string& request, std::string_view answer) {
    const std::string line = request + "\n";
    // One that has gone shall not end the process (SIGPIPE).
    if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(line.size())) {
      return fail(Code::kSystemError,
                  "the launcher does not take '{}' on PMI_FD={}: {}",
                  request,
                  socket_,
                  std::strerror(errno));
    }
    SENNIT_ASSIGN_OR_RETURN(std::string got, read_line(request));
    const std::string rc = word_of(got, "rc");
    if (word_of(got, "cmd") != answer || (!rc.empty() && rc != "0")) {
      return fail(Code::kSystemError, "the launcher answers '{}' to '{}'", got, request);
    }
    return got;
  }

 private:
  Result<std::string> read_line(const std::string& request) {
    std::string line;
    while (line.size() < kMostAnswerBytes) {
      pollfd entry{.fd = socket_, .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, Deadline::poll_ms(deadline_.end())) == 0 && deadline_.passed()) {
        return fail(Code::kJoinTimeout,
                    "the launcher does not answer '{}': some ranks have not come",
                    request);
      }
      // Byte by byte: what follows the line is the answer to somebody else's next request.
      char byte = 0;
      const ssize_t got = entry.revents == 0 ? -1 : ::read(socket_, &byte, 1);
      if (got == 0 || (got < 0 && entry.revents != 0 && errno != EINTR && errno != EAGAIN)) {
        return fail(Code::kSystemError, "the launcher has closed PMI_FD={}", socket_);
      }
      if (got == 1 && byte == '\n') {
        return line;
      }
      if (got == 1) {
        line.push_back(byte);
      }
    }
    return fail(Code::kSystemError, "the launcher answers '{}' without end", request);
  }

  int socket_;
  Deadline deadline_;
};

}  // namespace

Result<std::string> share_by_pmi(int socket, bool is_rank_0, std::string_view text, int timeout_s) {
  PmiConnection launcher(socket, timeout_s);
  SENNIT_RETURN_IF_ERROR(
      launcher.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init").status());
  SENNIT_ASSIGN_OR_RETURN(const std::string name, launcher.ask("cmd=get_my_kvsname", "my_kvsname"));
  const std::string space = word_of(name, "kvsname");
  if (is_rank_0) {
    const std::string put = fmt::format("cmd=put kvsname={} key={} value={}", space, kKey, text);
    SENNIT_RETURN_IF_ERROR(launcher.ask(put, "put_result").status());
  }
  SENNIT_RETURN_IF_ERROR(launcher.ask("cmd=barrier_in", "barrier_out").status());
  const std::string get = fmt::format("cmd=get kvsname={} key={}", space, kKey);
  SENNIT_ASSIGN_OR_RETURN(const std::string got, launcher.ask(get, "get_result"));
  return word_of(got, "value");
}

}  // namespace sennit
