#include "gpu_processes.hpp"

#include "device_ranks.hpp"

#include <gtest/gtest.h>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

extern char** environ;

namespace sennit::tests {
namespace {

constexpr const char* kRank = "TESTED_RANK";
constexpr const char* kRanks = "TESTED_RANKS";  // as the parent counts GPUs
constexpr const char* kRanksOfOneGpu = "TESTED_RANKS_OF_ONE_GPU";
constexpr const char* kKey = "TESTED_KEY";
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kShared = "TESTED_SHARED";  // a descriptor, which children inherit

using DeathTime = std::atomic<double>;
static_assert(DeathTime::is_always_lock_free);

int number_in(const char* variable) {
  return static_cast<int>(std::strtol(std::getenv(variable), nullptr, 10));
}

DeathTime& death_time() {
  static void* const kMemory =
      ::mmap(nullptr, sizeof(DeathTime), PROT_READ | PROT_WRITE, MAP_SHARED, number_in(kShared), 0);
  return *static_cast<DeathTime*>(kMemory);
}

std::string name_of_test() {
  const testing::TestInfo* const info = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

// The names of all GPUs, as CUDA_VISIBLE_DEVICES has them.
std::vector<std::string> names_of_gpus() {
  std::vector<std::string> names;
  const char* const given = std::getenv(kVisible);
  std::istringstream list(given == nullptr ? "" : given);
  for (std::string name; std::getline(list, name, ',');) {
    names.push_back(name);
  }
  for (int device = 0; given == nullptr && device < device_count(); ++device) {
    names.push_back(std::to_string(device));
  }
  return names;
}

std::string gpus_of(GpuJob::Visible visible, int rank) {
  std::vector<std::string> names = names_of_gpus();
  const int first = visible == GpuJob::Visible::kFirst ? 0 : rank % device_count();
  std::ranges::rotate(names, names.begin() + first);
  std::string list = names.front();
  for (std::size_t i = 1; visible == GpuJob::Visible::kOwnFirst && i < names.size(); ++i) {
    list += "," + names[i];
  }
  return list;
}

std::vector<std::string> environment_of(GpuJob job, int rank, int shared) {
  if (job.visible != GpuJob::Visible::kAll) {
    job.environment.push_back(std::string(kVisible) + "=" + gpus_of(job.visible, rank));
  }
  std::vector<std::string> all = job.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('=') + 1);
    // A rank runs its one test, whatever share of all tests its starter has.
    if (!name.starts_with("GTEST_") &&
        std::ranges::none_of(job.environment,
                             [&](const std::string& own) { return own.starts_with(name); })) {
      all.push_back(text);
    }
  }
  all.push_back(std::string(kRank) + "=" + std::to_string(rank));
  all.push_back(std::string(kRanks) + "=" + std::to_string(job.ranks));
  all.push_back(std::string(kKey) + "=" + name_of_test() + "-" + std::to_string(getpid()));
  all.push_back(std::string(kShared) + "=" + std::to_string(shared));
  return all;
}

pid_t start(const GpuJob& job, int rank, int shared) {
  std::vector<std::string> environment = environment_of(job, rank, shared);
  std::vector<char*> variables;
  for (std::string& variable : environment) {
    variables.push_back(variable.data());
  }
  variables.push_back(nullptr);
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=" + name_of_test();
  std::string brief = "--gtest_brief=1";
  std::vector<char*> arguments = {program.data(), filter.data(), brief.data(), nullptr};
  pid_t pid = -1;
  EXPECT_EQ(
      posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), variables.data()), 0);
  return pid;
}

// Its status; of one that does not end until then, that of a kill.
int await(pid_t process, double until) {
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (GpuProcess::now() > until) {
      ADD_FAILURE() << "a rank has not ended in time";
      EXPECT_EQ(kill(process, SIGKILL), 0);
      EXPECT_EQ(waitpid(process, &status, 0), process);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status;
}

void start_and_await(const GpuJob& job) {
  const int shared = memfd_create("sennit-test", 0);
  ASSERT_GE(shared, 0);
  ASSERT_EQ(ftruncate(shared, sizeof(DeathTime)), 0);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < job.ranks; ++rank) {
    processes.push_back(start(job, rank, shared));
  }
  const double until = GpuProcess::now() + job.longest_s;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const int status = await(processes[static_cast<std::size_t>(rank)], until);
    if (rank == job.victim) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "victim: " << status;
    } else {
      EXPECT_EQ(status, 0) << "rank " << rank;
    }
  }
  close(shared);
}

}  // namespace

int gpu_ranks() {
  constexpr int kMost = 4;
  if (device_count() > 1) {
    return std::min(device_count(), kMost);
  }
  const char* const ranks = std::getenv(kRanksOfOneGpu);
  return ranks != nullptr ? std::atoi(ranks) : kMost;
}

GpuProcess::GpuProcess(int rank, int ranks, std::string key)
    : rank_(rank), ranks_(ranks), key_(std::move(key)) {}

int GpuProcess::device() const { return rank_ % device_count(); }

sennit_comm_t GpuProcess::join(const std::string& name, int ranks, int rank) const {
  sennit_unique_id_t id;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.device = "cuda";
  sennit_comm_t comm = nullptr;
  EXPECT_EQ(sennit_unique_id_from_text(&id, (key_ + "-" + name).c_str()), SENNIT_OK);
  EXPECT_EQ(sennit_comm_init_rank(&comm, ranks, &id, rank, &config), SENNIT_OK)
      << sennit_last_error_message();
  return comm;
}

double GpuProcess::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void GpuProcess::die() {
  death_time() = now();
  static_cast<void>(raise(SIGKILL));
  std::abort();  // not reached
}

double GpuProcess::died_at() { return death_time(); }

void run_as_processes(const GpuJob& job, const std::function<void(GpuProcess&)>& body) {
  if (std::getenv(kRank) == nullptr) {
    start_and_await(job);
    return;
  }
  GpuProcess self(number_in(kRank), number_in(kRanks), std::getenv(kKey));
  check_cuda(cudaSetDevice(self.device()));
  body(self);
}

}  // namespace sennit::tests
