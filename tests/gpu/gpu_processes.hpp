// For tests: ranks that are processes with a GPU each, or share those there are. A test runs its
// body by run_as_processes(); this program then starts itself once for each rank, to run the same
// test, where the same call makes the body of that rank.
//
//   TEST(X, Y) {
//     run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) { ... self.join() ... });
//   }
#pragma once

#include "sennit/sennit.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sennit::tests {

// As many as there are GPUs, at most four; where there is one, four that share it, or as many as
// TESTED_RANKS_OF_ONE_GPU says. 0: there is none.
int gpu_ranks();

struct GpuJob {
  int ranks = 2;
  std::vector<std::string> environment{};  // "NAME=value", of the started processes alone
  int victim = -1;                         // a rank that kills itself
  double longest_s = 100;
  // Which GPUs a process has: all in one order, its own alone, all with its own as the first, or
  // the first alone, which all share.
  enum class Visible : std::uint8_t { kAll, kOwn, kOwnFirst, kFirst };
  Visible visible = Visible::kAll;
};

// A rank, in its own process.
class GpuProcess {
 public:
  GpuProcess(int rank, int ranks, std::string key);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int device() const;

  // All ranks together; `name` tells communicators of one test apart.
  [[nodiscard]] sennit_comm_t join(const std::string& name) const {
    return join(name, ranks_, rank_);
  }
  [[nodiscard]] sennit_comm_t join(const std::string& name, int ranks, int rank) const;

  // Seconds of a clock that all processes share.
  static double now();
  // Ends this process by SIGKILL; the others may ask when that was.
  [[noreturn]] static void die();
  static double died_at();

 private:
  int rank_;
  int ranks_;
  std::string key_;
};

// Fails the test where a rank does not end well, or, as the victim, otherwise than by SIGKILL.
void run_as_processes(const GpuJob& job, const std::function<void(GpuProcess&)>& body);

}  // namespace sennit::tests
