#include "failure_matrix/fault_case.hpp"

#include "node_processes.hpp"
#include "rank_processes.hpp"

#include "base/fd.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>

namespace sennit::tests {
namespace {

constexpr double kAfterDeath = 2.0;
constexpr double kStopDeadline = 0.5;
// Of a rank on another node it is known after 2 s that it is stopped (world/control_star.cpp).
constexpr double kStopDeadlineOverNodes = 3.0;
constexpr double kAfterDeadline = 1.0;
constexpr double kLongestCase = 20.0;
constexpr double kPause = 0.05;
constexpr std::size_t kMostRanks = 8;

struct RankOutcome {
  bool ended = false;
  bool right = false;
  double called_at = 0;
  Report call;
  Report next;  // of the barrier behind a call that succeeded
};
using Outcomes = std::array<RankOutcome, kMostRanks>;

// In memory shared with the children, because a victim can send nothing.
struct Unmap {
  void operator()(Outcomes* outcomes) const { ::munmap(outcomes, sizeof(Outcomes)); }
};
using SharedOutcomes = std::unique_ptr<Outcomes, Unmap>;

SharedOutcomes make_outcomes() {
  void* memory =
      ::mmap(nullptr, sizeof(Outcomes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return SharedOutcomes(new (memory) Outcomes());
}

void set_fault(const FaultCase& fault_case) {
  if (fault_case.fault == Fault::kNone) {
    return;
  }
  // The first collective is the barrier that brings the ranks together.
  const bool is_pair = fault_case.subject.algorithm->collective == Collective::kSendRecv;
  const std::string moment = fmt::format("{}:{}:{}{}:{}",
                                         fault_case.victim,
                                         is_pair ? 0 : 2,
                                         fault_case.moment / 2,
                                         fault_case.moment % 2 == 1 ? ".5" : "",
                                         fault_case.fault == Fault::kKill ? "kill" : "stop");
  ::setenv("SENNIT_TEST_DIE_AT", moment.c_str(), 1);
}

double stop_deadline(const Subject& subject) {
  return subject.nodes.empty() ? kStopDeadline : kStopDeadlineOverNodes;
}

void run_rank(const FaultCase& fault_case, int rank, const std::string& name, RankOutcome& mine) {
  set_fault(fault_case);
  if (!fault_case.subject.nodes.empty()) {
    go_to_node(fault_case.subject.nodes, rank);
  }
  const double deadline = fault_case.fault == Fault::kStop ? stop_deadline(fault_case.subject) : 0;
  const sennit_comm_t comm = join_ranks(name, fault_case.subject.ranks, rank);
  SubjectCall call(fault_case.subject, rank);
  sennit_barrier(comm, nullptr, nullptr);
  mine.called_at = now();
  mine.call = report_of([&] { return call.run(comm, deadline); });
  mine.right = call.is_right();
  if (mine.call.status == SENNIT_OK) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.deadline_s = deadline;
    mine.next = report_of([&] { return sennit_barrier(comm, nullptr, &options); });
  }
  sennit_comm_destroy(comm);
  mine.ended = true;
}

// The processes of one case; none of them outlives it.
class Processes {
 public:
  explicit Processes(const FaultCase& fault_case) {
    const std::string name = fresh_name();
    for (int rank = 0; rank < fault_case.subject.ranks; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        run_rank(fault_case, rank, name, (*outcomes_)[static_cast<std::size_t>(rank)]);
        ::_exit(0);
      }
      pids_.push_back(pid);
      pidfds_.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    }
  }
  ~Processes() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Until all but `besides` (-1: all) have ended; false when that takes too long.
  [[nodiscard]] bool await_ends(int besides) const {
    const double until = now() + kLongestCase;
    for (std::size_t rank = 0; rank < pidfds_.size(); ++rank) {
      pollfd watched{.fd = pidfds_[rank].get(), .events = POLLIN, .revents = 0};
      const int left_ms = static_cast<int>(std::max(0.0, until - now()) * 1000);
      if (static_cast<int>(rank) != besides && ::poll(&watched, 1, left_ms) != 1) {
        return false;
      }
    }
    return true;
  }

  // Until it stops or ends; true when it stopped.
  [[nodiscard]] bool await_stop(int rank) const {
    siginfo_t info{};
    const auto pid = static_cast<id_t>(pids_[static_cast<std::size_t>(rank)]);
    ::waitid(P_PID, pid, &info, WSTOPPED | WEXITED | WNOWAIT);
    return info.si_code == CLD_STOPPED;
  }

  [[nodiscard]] const Outcomes& outcomes() const { return *outcomes_; }
  void go_on(int rank) const { ::kill(pids_[static_cast<std::size_t>(rank)], SIGCONT); }

 private:
  SharedOutcomes outcomes_ = make_outcomes();
  std::vector<pid_t> pids_;
  std::vector<UniqueFd> pidfds_;
};

// Whether all that should end have ended in time.
bool let_run(const FaultCase& fault_case, const Processes& processes, CaseResult& result) {
  switch (fault_case.fault) {
    case Fault::kNone:
    case Fault::kKill:
      return processes.await_ends(/*besides=*/-1);
    case Fault::kStop:
      if (!processes.await_ends(fault_case.victim)) {
        return false;
      }
      result.struck = processes.await_stop(fault_case.victim);
      return result.struck || processes.await_ends(/*besides=*/-1);
    case Fault::kStopAndGoOn:
      result.struck = processes.await_stop(fault_case.victim);
      sleep_s(result.struck ? kPause : 0);
      processes.go_on(fault_case.victim);
      return processes.await_ends(/*besides=*/-1);
  }
  return false;
}

// What is wrong with a survivor's error; empty: it is as promised.
std::string complaint_about(const Report& report, const FaultCase& fault_case, double seconds) {
  const bool kill = fault_case.fault == Fault::kKill;
  const std::string_view evidence = report.evidence;
  const auto says = [&](std::string_view words) {
    return evidence.find(words) != std::string_view::npos;
  };
  // A rank may learn of the victim from another that has seen it and given up.
  const bool learned = says("gave up") && says(fmt::format("rank {} (", fault_case.victim));
  if (report.status != (kill ? SENNIT_RANK_FAILED : SENNIT_DEADLINE_EXCEEDED)) {
    return "another status than promised";
  }
  if (report.blamed_ranks() != std::vector{fault_case.victim}) {
    return "another rank blamed than the victim";
  }
  if (!says(kill ? "died" : "stopped") && !learned) {
    return "other evidence than what happened";
  }
  if (seconds > (kill ? kAfterDeath : stop_deadline(fault_case.subject) + kAfterDeadline)) {
    return "too late";
  }
  return {};
}

void judge_survivor(const FaultCase& fault_case,
                    const RankOutcome& outcome,
                    double struck_at,
                    CaseResult& result) {
  const auto complain = [&](std::string_view what, const Report& report) {
    result.complaints.push_back(fmt::format("{}: {}: {}: {}",
                                            fault_case.name(),
                                            what,
                                            sennit_status_name(report.status),
                                            report.message));
  };
  if (!outcome.ended) {
    return complain("a rank did not come to its end", outcome.call);
  }
  if (outcome.call.status == SENNIT_OK && !outcome.right) {
    return complain("success with a wrong output", outcome.call);
  }
  const Report& report = outcome.call.status == SENNIT_OK ? outcome.next : outcome.call;
  if (!result.struck || fault_case.fault == Fault::kStopAndGoOn) {
    if (report.status != SENNIT_OK) {
      complain("an error without need", report);
    }
    return;
  }
  const double since = fault_case.fault == Fault::kKill ? struck_at : report.called_at;
  const double seconds = report.ended_at - since;
  result.seconds.push_back(seconds);
  if (const std::string what = complaint_about(report, fault_case, seconds); !what.empty()) {
    complain(fmt::format("{} ({:.3f} s)", what, seconds), report);
  }
}

}  // namespace

std::string FaultCase::name() const {
  const std::array<std::string_view, 4> how = {"undisturbed", "kill", "stop", "stop and go on"};
  return fmt::format("{}, {} of rank {} at step {}",
                     subject.name(),
                     how[static_cast<std::size_t>(fault)],
                     victim,
                     0.5 * moment);
}

CaseResult run(const FaultCase& fault_case) {
  CaseResult result;
  const Processes processes(fault_case);
  if (!let_run(fault_case, processes, result)) {
    result.struck = true;
    result.complaints.push_back(fault_case.name() + ": a rank hangs");
    return result;
  }
  const Outcomes& outcomes = processes.outcomes();
  const auto& victim = outcomes[static_cast<std::size_t>(fault_case.victim)];
  if (fault_case.fault == Fault::kKill) {
    result.struck = !victim.ended;
  }
  result.refused = fault_case.fault == Fault::kNone && (victim.call.status == SENNIT_UNSUPPORTED ||
                                                        victim.call.status == SENNIT_NOT_PROVED);
  for (int rank = 0; rank < fault_case.subject.ranks && !result.refused; ++rank) {
    const bool ends_well = !result.struck || fault_case.fault == Fault::kStopAndGoOn;
    if (rank != fault_case.victim || ends_well) {
      judge_survivor(
          fault_case, outcomes[static_cast<std::size_t>(rank)], victim.called_at, result);
    }
  }
  return result;
}

}  // namespace sennit::tests
