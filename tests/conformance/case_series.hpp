// A series of cases that ranks make one after the other on one communicator, and what came of it.
#pragma once

#include "conformance_case.hpp"
#include "oracle.hpp"

#include "sennit/sennit.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sennit::tests {

// SENNIT_TEST_SEED, else a fixed number.
std::uint64_t series_seed();

// The cases that this run takes of `cases`, in an order that the seed decides: neighbours share
// slots, so the order is a part of the test. So many, or all with SENNIT_TEST_CASES=all.
std::vector<Case> take_sample(std::vector<Case> cases, std::size_t count);
// The same with so many of each algorithm and protocol.
std::vector<Case> take_of_each(std::vector<Case> cases, std::size_t count);

// The oracle of a case is made by the first rank of this process that needs it, and freed by the
// last.
class SharedOracles {
 public:
  SharedOracles(const std::vector<Case>& cases, int ranks_here)
      : cases_(cases), ranks_here_(ranks_here), slots_(std::make_unique<Slot[]>(cases.size())) {}

  const Oracle& get(std::size_t index);
  void release(std::size_t index);

 private:
  struct Slot {
    std::once_flag made;
    std::unique_ptr<const Oracle> oracle;
    std::atomic<int> released{0};
  };

  const std::vector<Case>& cases_;
  int ranks_here_;
  std::unique_ptr<Slot[]> slots_;
};

struct Tally {
  std::size_t right = 0;
  std::size_t refused = 0;
  std::string defect;               // the first
  std::vector<std::size_t> hashes;  // of the outputs, case by case
};

std::size_t largest_buffer(const std::vector<Case>& cases);

// Of one rank; it stops at its first defect.
Tally run_series(const std::vector<Case>& cases,
                 int rank,
                 sennit_comm_t comm,
                 SharedOracles& oracles);

// All ranks as threads of this process, on the nodes of the cases.
std::vector<Tally> run_series_as_threads(const std::vector<Case>& cases);

// That each case ended as it must on each rank, and ranks have the same bits where they should.
void expect_right(const std::vector<Case>& cases, const std::vector<Tally>& tallies);

}  // namespace sennit::tests
