// What must simply work for as long as a program runs: joining and leaving again and again, and
// buffers that come and go at one address.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include "base/testing/trials.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

class Endurance : public LeavesNothing {};

int entries_of(const char* folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder),
                                        std::filesystem::directory_iterator()));
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Holdings {
  int descriptors = entries_of("/proc/self/fd");
  int threads = entries_of("/proc/self/task");
  double mib = resident_mib();
};

// One life of a communicator.
sennit_status_t join_call_leave(const std::string& name, int ranks, int rank) {
  const sennit_comm_t comm = join_ranks(name, ranks, rank);
  float value = 1;
  const sennit_status_t status =
      sennit_all_reduce(&value, &value, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
  sennit_comm_destroy(comm);
  return status == SENNIT_OK && value != static_cast<float>(ranks) ? SENNIT_INTERNAL_ERROR : status;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr double kMoreMib = 1000;  // what is freed is kept for a while, to find its later use
#else
constexpr double kMoreMib = 1;
#endif

// What is held at the end must be what was held after the first tenth.
TEST_F(Endurance, TenThousandJoinsHoldNothing) {
  constexpr int kRanks = 2;
  constexpr int kCycles = trials(10'000, 2'000);
  const std::string name = fresh_name();
  const auto body = [&](int rank) {
    Holdings early;
    Report report{.status = SENNIT_OK};
    for (int cycle = 0; cycle < kCycles && report.status == SENNIT_OK; ++cycle) {
      report = report_of([&] { return join_call_leave(name, kRanks, rank); });
      if (cycle == kCycles / 10) {
        early = Holdings();
      }
    }
    const Holdings late;
    report.value = late.mib - early.mib;
    std::snprintf(report.evidence,
                  sizeof(report.evidence),
                  "%d more descriptors, %d more threads",
                  late.descriptors - early.descriptors,
                  late.threads - early.threads);
    return report;
  };
  RankProcesses ranks(kRanks, body, /*longest_s=*/300);
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_STREQ(report->evidence, "0 more descriptors, 0 more threads");
    EXPECT_LT(report->value, kMoreMib);
  }
}

// A rank's memory at one address, new each time: what is read there must be what is there now.
TEST_F(Endurance, BuffersThatAreFreedAndMappedAgainAtOneAddressAreReadAnew) {
  constexpr std::size_t kCount = 1 << 20;
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 3, rank);
    void* place = nullptr;
    Report report{.status = SENNIT_OK};
    for (int round = 0; round < 10 && report.status == SENNIT_OK; ++round) {
      const int fixed = place == nullptr ? 0 : MAP_FIXED_NOREPLACE;
      place = ::mmap(place,
                     kCount * sizeof(float),
                     PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | fixed,
                     -1,
                     0);
      auto* data = static_cast<float*>(place);
      std::fill_n(data, kCount, static_cast<float>(rank + round));
      report = report_of([&] {
        return sennit_all_reduce(
            data, data, kCount, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
      });
      report.value =
          static_cast<double>(std::count(data, data + kCount, static_cast<float>(3 + 3 * round)));
      ::munmap(place, kCount * sizeof(float));
      if (report.value != kCount) {
        break;
      }
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, kCount) << "right elements";
  }
}

// Bytes may lie anywhere, on each rank elsewhere.
TEST_F(Endurance, BuffersNeedNoAlignmentBeyondTheirElements) {
  constexpr int kRanks = 3;
  constexpr std::size_t kLong = 70'001;
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, kRanks, rank);
    Report report{.status = SENNIT_OK};
    for (std::size_t offset = 0; offset < 16 && report.status == SENNIT_OK; ++offset) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{33}, kLong}) {
        std::vector<std::uint8_t> in(count + 32, static_cast<std::uint8_t>(rank + 1));
        std::vector<std::uint8_t> out(count + 32, 200);
        const std::size_t at = (offset + 5 * static_cast<std::size_t>(rank)) % 16;
        std::uint8_t* result = out.data() + 15 - at;
        const double wrong = report.value;
        report = report_of([&] {
          return sennit_all_reduce(
              in.data() + at, result, count, SENNIT_UINT8, SENNIT_SUM, comm, nullptr, nullptr);
        });
        const bool right =
            std::all_of(result, result + count, [](auto v) { return v == 6; }) &&
            std::all_of(out.data(), result, [](auto v) { return v == 200; }) &&
            std::all_of(result + count, out.data() + out.size(), [](auto v) { return v == 200; });
        report.value = wrong + (right ? 0 : 1);
      }
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 0) << "wrong buffers";
  }
}

}  // namespace
}  // namespace sennit::tests
