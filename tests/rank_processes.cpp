#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace sennit::tests {
namespace {

// Lives in memory that children share with their parent.
std::atomic<int>& arrivals() {
  static auto* shared = static_cast<std::atomic<int>*>(::mmap(nullptr,
                                                              sizeof(std::atomic<int>),
                                                              PROT_READ | PROT_WRITE,
                                                              MAP_SHARED | MAP_ANONYMOUS,
                                                              -1,
                                                              0));
  return *shared;
}

void copy_text(char* to, std::size_t size, const char* from) {
  std::snprintf(to, size, "%s", from);
}

std::optional<Report> read_report(int pipe, double until) {
  Report report;
  std::size_t done = 0;
  while (done < sizeof(report)) {
    pollfd entry{.fd = pipe, .events = POLLIN, .revents = 0};
    const int left_ms = static_cast<int>(std::max(0.0, until - now()) * 1000);
    if (::poll(&entry, 1, left_ms) <= 0) {
      return std::nullopt;
    }
    const ssize_t got =
        ::read(pipe, reinterpret_cast<char*>(&report) + done, sizeof(report) - done);
    if (got <= 0) {
      return std::nullopt;
    }
    done += static_cast<std::size_t>(got);
  }
  return report;
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

Report report_of(const std::function<sennit_status_t()>& call) {
  Report report;
  report.called_at = now();
  report.status = call();
  report.ended_at = now();
  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  if (report.status != SENNIT_OK && sennit_last_error(&error) == SENNIT_OK) {
    report.blamed_count = static_cast<int>(std::min(error.blamed_count, std::size(report.blamed)));
    std::copy_n(error.blamed_ranks, report.blamed_count, report.blamed);
    copy_text(report.evidence, sizeof(report.evidence), error.evidence);
    copy_text(report.message, sizeof(report.message), error.message);
  }
  return report;
}

RankProcesses::RankProcesses(int ranks, const Body& body, double longest_s)
    : longest_s_(longest_s) {
  arrivals() = 0;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      const Report report = body(rank);
      const bool is_written = ::write(ends[1], &report, sizeof(report)) == sizeof(report);
      ::_exit(is_written ? 0 : 1);
    }
    ::close(ends[1]);
    children_.push_back({pid, ends[0]});
  }
}

RankProcesses::~RankProcesses() {
  for (const Child& child : children_) {
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    ::close(child.pipe);
  }
}

void RankProcesses::arrive() { arrivals().fetch_add(1); }

void RankProcesses::await_arrivals(int ranks) const {
  const double until = now() + longest_s_;
  while (arrivals().load() < ranks && now() < until) {
    sleep_s(0.001);
  }
  EXPECT_GE(arrivals().load(), ranks);
}

void RankProcesses::signal(int rank, int number) const {
  EXPECT_EQ(::kill(children_[static_cast<std::size_t>(rank)].pid, number), 0);
}

std::vector<std::optional<Report>> RankProcesses::reports() {
  const double until = now() + longest_s_;
  std::vector<std::optional<Report>> all;
  for (const Child& child : children_) {
    all.push_back(read_report(child.pipe, until));
  }
  return all;
}

sennit_comm_t join_ranks(const std::string& name, int ranks, int rank, double deadline_s) {
  sennit_unique_id_t id;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.deadline_s = deadline_s;
  sennit_comm_t comm = nullptr;
  if (sennit_unique_id_from_text(&id, name.c_str()) != SENNIT_OK ||
      sennit_comm_init_rank(&comm, ranks, &id, rank, &config) != SENNIT_OK) {
    std::fprintf(stderr, "rank %d: %s\n", rank, sennit_last_error_message());
    ::_exit(1);
  }
  return comm;
}

unsigned seed_of_this_run() {
  const char* text = std::getenv("SENNIT_TEST_SEED");
  return text == nullptr ? 4711 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

std::string fresh_name() {
  static int count = 0;
  return "sennit-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

}  // namespace sennit::tests
