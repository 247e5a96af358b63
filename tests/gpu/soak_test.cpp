// Random calls of GPU ranks with random failures, in processes that live for many communicators.
// What they hold must stay flat: descriptors, threads, mappings, memory, memory of the GPU.
//
//   TESTED_SECONDS=1200 build/gpu/tests/sennit_gpu_tests --gtest_filter='GpuSoak.*'
#include "call_buffer.hpp"
#include "gpu_processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr const char* kSeconds = "TESTED_SECONDS";
constexpr const char* kSeed = "TESTED_SEED";
constexpr int kFewRounds = 8;    // in a run of all tests, which is too short to see growth
constexpr int kRounds = 40;      // of one set of processes
constexpr int kWarmRounds = 15;  // until what is made once has been made
constexpr double kFailed = 5;    // seconds until a failure is known everywhere
constexpr double kPatience = 30;
constexpr std::chrono::milliseconds kLateBy(3000);

struct Holdings {
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t mappings = 0;
  std::int64_t kib = 0;
  std::int64_t gpu_kib = 0;
};

std::int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// When the others have left the last communicator, too: until then its memory is open in them, and
// CUDA keeps it.
Holdings holdings() {
  std::this_thread::sleep_for(kLateBy + std::chrono::seconds(1));
  Holdings held{.descriptors = entries_of("/proc/self/fd"),
                .threads = entries_of("/proc/self/task")};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    ++held.mappings;
  }
  std::int64_t all = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  held.kib = resident * ::sysconf(_SC_PAGESIZE) / 1024;
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  held.gpu_kib = static_cast<std::int64_t>((total - free) / 1024);
  return held;
}

// Mappings and memory are also the driver's.
void expect_flat(const Holdings& early, const Holdings& late) {
  EXPECT_LE(late.descriptors, early.descriptors) << "descriptors";
  EXPECT_LE(late.threads, early.threads) << "threads";
  EXPECT_LE(late.mappings, early.mappings + 20) << "mappings";
  EXPECT_LE(late.kib, early.kib + (16 << 10)) << "KiB of memory";
  if (device_count() >= gpu_ranks()) {  // else others have their memory on the same GPU
    EXPECT_LE(late.gpu_kib, early.gpu_kib + (16 << 10)) << "KiB of GPU memory";
  }
}

enum class Event : std::uint8_t { kNone, kAbort, kLate, kDiffer, kDeath };
constexpr std::array kLivingEvents = {
    Event::kNone, Event::kNone, Event::kAbort, Event::kLate, Event::kDiffer};

sennit_status_t expected_of(Event event) {
  switch (event) {
    case Event::kNone:
      return SENNIT_OK;
    case Event::kAbort:
      return SENNIT_ABORTED;
    case Event::kLate:
      return SENNIT_DEADLINE_EXCEEDED;
    case Event::kDiffer:
      return SENNIT_MISMATCH;
    case Event::kDeath:
      return SENNIT_RANK_FAILED;
  }
  return SENNIT_OK;
}

// One communicator: calls whose values are compared, then what happens to the victim. All ranks
// draw the same.
class Round {
 public:
  Round(GpuProcess& self, std::mt19937& draw, const std::array<Buffer, 3>& buffers, int number)
      : self_(self),
        draw_(draw),
        buffers_(buffers),
        comm_(self.join("round " + std::to_string(number))) {}

  void run(Event event) {
    const int calls = number_below(6);
    for (int call = 0; call < calls; ++call) {
      make_call(static_cast<float>(number_below(100)));
    }
    const int victim = number_below(self_.ranks());
    const Buffer& buffer = any_buffer();
    if (event != Event::kNone) {
      fail(event, event == Event::kDeath ? self_.ranks() - 1 : victim, buffer);
    }
    const double begin = GpuProcess::now();
    (void)sennit_comm_destroy(comm_);  // one that has failed may say so
    EXPECT_LT(GpuProcess::now() - begin, kFailed) << "destroy";
  }

 private:
  int number_below(int end) { return std::uniform_int_distribution(0, end - 1)(draw_); }
  const Buffer& any_buffer() {
    return buffers_[static_cast<std::size_t>(number_below(static_cast<int>(buffers_.size())))];
  }

  void make_call(float first) {
    const Buffer& buffer = any_buffer();
    switch (number_below(4)) {
      case 0:
        expect_sum(self_, comm_, buffer, first);
        break;
      case 1:
        buffer.fill(first + static_cast<float>(self_.rank()));
        EXPECT_EQ(
            exchange(
                self_, comm_, buffer.input(), buffer.output(), buffer.count(), buffer.stream()),
            SENNIT_OK)
            << sennit_last_error_message();
        buffer.expect(first + previous_of(self_));
        break;
      case 2:
        broadcast(buffer, number_below(self_.ranks()), first);
        break;
      default:
        replay(buffer, first);
    }
  }

  void broadcast(const Buffer& buffer, int root, float first) {
    buffer.fill(first + static_cast<float>(self_.rank()));
    EXPECT_EQ(sennit_broadcast(buffer.input(),
                               buffer.output(),
                               buffer.count(),
                               SENNIT_FLOAT32,
                               root,
                               comm_,
                               buffer.stream(),
                               nullptr),
              SENNIT_OK)
        << sennit_last_error_message();
    buffer.expect(first + static_cast<float>(root));
  }

  void replay(const Buffer& buffer, float first) {
    buffer.fill(first + static_cast<float>(self_.rank()));
    const CapturedGraph replay(buffer.stream(), [&] {
      EXPECT_EQ(all_reduce(comm_, buffer), SENNIT_OK) << sennit_last_error_message();
    });
    replay.launch(3);
    buffer.expect(sum_of_ranks(self_, first));
  }

  // The victim does what the event says; the others are in a call.
  void fail(Event event, int victim, const Buffer& buffer) {
    const bool is_victim = self_.rank() == victim;
    const double begin = GpuProcess::now();
    if (!is_victim || event == Event::kDiffer) {
      (void)call_in_vain(event, buffer, is_victim ? 1 : 0);  // may fail at once
    }
    if (is_victim && event != Event::kDiffer) {
      std::this_thread::sleep_for(event == Event::kLate ? kLateBy : std::chrono::milliseconds(200));
    }
    if (is_victim && event == Event::kDeath) {
      GpuProcess::die();
    }
    if (is_victim && event == Event::kAbort) {
      EXPECT_EQ(sennit_comm_abort(comm_), SENNIT_OK);
    }
    if (is_victim && event != Event::kDiffer) {
      return;
    }
    sennit_status_t status = SENNIT_OK;
    while (status == SENNIT_OK && GpuProcess::now() - begin < kPatience) {
      check_cuda(cudaStreamSynchronize(buffer.stream()));
      EXPECT_EQ(sennit_comm_async_error(comm_, &status), SENNIT_OK);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    EXPECT_EQ(sennit_comm_last_error(comm_, &error), SENNIT_OK);
    EXPECT_EQ(status, expected_of(event)) << error.message;
    EXPECT_LT(GpuProcess::now() - begin, kFailed + 3) << error.message;
  }

  sennit_status_t call_in_vain(Event event, const Buffer& buffer, std::size_t less) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.deadline_s = event == Event::kLate ? 1 : 0;
    return sennit_all_reduce(buffer.input(),
                             buffer.output(),
                             buffer.count() - less,
                             SENNIT_FLOAT32,
                             SENNIT_SUM,
                             comm_,
                             buffer.stream(),
                             &options);
  }

  GpuProcess& self_;
  std::mt19937& draw_;
  const std::array<Buffer, 3>& buffers_;
  sennit_comm_t comm_;
};

void be_a_rank(GpuProcess& self) {
  std::mt19937 draw(static_cast<unsigned>(std::strtoul(std::getenv(kSeed), nullptr, 10)));
  const std::array<Buffer, 3> buffers{
      Buffer(kSmall), Buffer(std::size_t{1} << 20), Buffer(std::size_t{16} << 20)};
  Holdings early;
  const bool is_long = std::getenv(kSeconds) != nullptr;
  const int rounds = is_long ? kRounds : kFewRounds;
  for (int number = 0; number < rounds && !::testing::Test::HasFailure(); ++number) {
    const auto drawn =
        std::uniform_int_distribution<std::size_t>(0, kLivingEvents.size() - 1)(draw);
    SCOPED_TRACE("round " + std::to_string(number) + ", event " + std::to_string(drawn));
    Round(self, draw, buffers, number).run(kLivingEvents.at(drawn));
    if (number == kWarmRounds) {
      early = holdings();
    }
  }
  if (is_long) {
    expect_flat(early, holdings());
  }
  Round(self, draw, buffers, rounds).run(Event::kDeath);
}

TEST(GpuSoak, RandomCallsWithRandomFailuresLeaveNothing) {
  if (gpu_ranks() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  if (std::getenv(kSeed) != nullptr) {
    run_as_processes({}, be_a_rank);
    return;
  }
  const char* const given = std::getenv(kSeconds);
  const double seconds = given == nullptr ? 0 : std::strtod(given, nullptr);
  const double begin = GpuProcess::now();
  unsigned seed = given == nullptr ? 1 : std::random_device()();
  int jobs = 0;
  for (; jobs == 0 || (GpuProcess::now() - begin < seconds && !HasFailure()); ++jobs, ++seed) {
    SCOPED_TRACE(std::string(kSeed) + "=" + std::to_string(seed));
    run_as_processes({.ranks = gpu_ranks(),
                      .environment = {std::string(kSeed) + "=" + std::to_string(seed)},
                      .victim = gpu_ranks() - 1,
                      .longest_s = 400},
                     be_a_rank);
  }
  std::printf("%d sets of %d processes with %d communicators each, in %.0f s, last seed %u\n",
              jobs,
              gpu_ranks(),
              (given == nullptr ? kFewRounds : kRounds) + 1,
              GpuProcess::now() - begin,
              seed - 1);
}

}  // namespace
}  // namespace sennit::tests
