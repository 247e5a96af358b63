// For tests: ranks as forked processes that report to the parent through pipes.
#pragma once

#include "sennit/sennit.h"

#include <sys/types.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sennit::tests {

// What a rank tells of a call, in a form that goes through a pipe.
struct Report {
  sennit_status_t status = SENNIT_INTERNAL_ERROR;
  int blamed[16] = {};
  int blamed_count = 0;
  double called_at = 0;  // seconds of now(), which all processes share
  double ended_at = 0;
  double value = 0;  // whatever the test wants to know
  char evidence[512] = {};
  char message[1024] = {};

  [[nodiscard]] std::vector<int> blamed_ranks() const { return {blamed, blamed + blamed_count}; }
};

// Seconds of a clock that all processes share.
double now();
void sleep_s(double seconds);

// A call, its times, and the fields of its failure.
Report report_of(const std::function<sennit_status_t()>& call);

// The ranks of one test. A body runs in the child and ends with its report; a child that dies, or
// takes longer than `longest_s`, has none.
class RankProcesses {
 public:
  using Body = std::function<Report(int rank)>;

  RankProcesses(int ranks, const Body& body, double longest_s = 60.0);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // In a body: this rank has come to the point that the parent waits for.
  static void arrive();
  // In the parent: returns once `ranks` have arrived.
  void await_arrivals(int ranks) const;

  void signal(int rank, int number) const;
  // All reports, in the order of ranks; once.
  std::vector<std::optional<Report>> reports();

 private:
  struct Child {
    pid_t pid;
    int pipe;
  };
  double longest_s_;
  std::vector<Child> children_;
};

// Joins `ranks` ranks under a name that this process and its children share.
sennit_comm_t join_ranks(const std::string& name, int ranks, int rank, double deadline_s = 30);

// SENNIT_TEST_SEED, else a fixed number.
unsigned seed_of_this_run();

// A name that no other test and no other process uses.
std::string fresh_name();

}  // namespace sennit::tests
