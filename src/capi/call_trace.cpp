#include "capi/call_trace.hpp"

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/log.hpp"
#include "capi/groups.hpp"
#include "capi/handles.hpp"
#include "capi/last_plan.hpp"
#include "world/rendezvous/identity.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace sennit {
namespace {

// The layout is that of frontends/python/sennit/cli/call_trace.py.
struct Event {
  char magic[8];
  std::uint64_t begin_ns;  // of the monotonic clock, which the processes of a machine share
  std::uint64_t end_ns;
  std::uint64_t bytes;
  std::uint32_t pid;
  std::uint32_t thread;
  std::int32_t rank;  // in the call's communicator; -1: not known
  std::int32_t size;
  std::int32_t rank_in_job;  // as the launcher says; -1: it does not
  std::int32_t job_size;
  char name[48];
  char algorithm[32];
  char paths[24];
  char why[96];
};
static_assert(sizeof(Event) == 256);

template <std::size_t kSize>
void write_text(char (&place)[kSize], std::string_view text) {
  std::memcpy(place, text.data(), std::min(text.size(), kSize - 1));
}

struct Place {
  int rank = -1;
  int size = 0;
};

Place place_in_job() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read only
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const Result<Identity> identity = identity_from(variable, "");
  return identity.ok() ? Place{identity->rank, identity->size} : Place{};
}

// The file of this process; a child of fork() appends to its parent's. One write appends one call,
// so that a full disk ends the trace and not the program.
class TraceFile {
 public:
  TraceFile() {
    const Result<std::int64_t> most = env_integer("SENNIT_TRACE_CALLS", {.min = 0});
    std::string file = env_text("SENNIT_COUNTS_DIR");
    if (!most.ok()) {
      SENNIT_WARN("counts", "calls are not traced: {}", most.status().message());
    }
    if (!most.ok() || *most == 0 || file.empty()) {
      return;
    }
    file += "/trace-XXXXXX";
    fd_ = UniqueFd(::mkostemp(file.data(), O_CLOEXEC | O_APPEND));
    if (!fd_.valid()) {
      SENNIT_WARN("counts", "calls are not traced: {} cannot be made: {}", file, strerror(errno));
      return;
    }
    left_ = *most;
    in_job_ = place_in_job();
  }

  [[nodiscard]] bool has_room() { return left_ > 0 && left_.fetch_sub(1) > 0; }
  [[nodiscard]] Place in_job() const { return in_job_; }
  void append(const Event& event) {
    if (::write(fd_.get(), &event, sizeof(event)) != sizeof(event)) {
      SENNIT_WARN("counts", "the trace of calls ends: {}", strerror(errno));
      left_ = 0;
    }
  }

 private:
  UniqueFd fd_;
  std::atomic<std::int64_t> left_{0};
  Place in_job_;
};

// Calls of an open group have not been posted yet.
void describe_plan(const sennit_comm& comm, Event& event) {
  if ((comm.device == nullptr && comm.comm == nullptr) || group().depth > 0) {
    return;
  }
  const std::optional<LastPlan> last = last_plan_of(comm);
  if (!last) {
    return;
  }
  std::string paths;
  for (const std::string& path : last->paths) {
    paths += paths.empty() ? "" : ",";
    paths += path;
  }
  write_text(event.algorithm, last->algorithm);
  write_text(event.paths, paths);
}

}  // namespace

void trace_call(const TracedCall& call) {
  static TraceFile file;
  if (!file.has_room()) {
    return;
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  Event event{};
  write_text(event.magic, "SNTCALL");
  event.end_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
  event.begin_ns = event.end_ns - std::min(event.end_ns, call.nanoseconds);
  event.bytes = call.bytes;
  event.pid = static_cast<std::uint32_t>(::getpid());
  event.thread = static_cast<std::uint32_t>(::gettid());
  event.rank = -1;
  event.rank_in_job = file.in_job().rank;
  event.job_size = file.in_job().size;
  write_text(event.name, call.name);
  if (call.why != nullptr) {
    write_text(event.why, call.why);
  }
  if (call.comm != nullptr && sennit_comm_rank(call.comm, &event.rank) == SENNIT_OK &&
      sennit_comm_size(call.comm, &event.size) == SENNIT_OK && call.why == nullptr) {
    describe_plan(*call.comm, event);
  }
  file.append(event);
}

}  // namespace sennit
