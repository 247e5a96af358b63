// What sennit-compare measures, a row each, and how it prints it.
#pragma once

#include "compare_options.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sennit_bench {

// Those at hand. The service is CUDA's Multi-Process Service, which lets kernels of several
// processes run at once.
struct Gpus {
  int count = 0;
  bool has_mps = false;

  [[nodiscard]] bool are_shared_by(int ranks) const { return ranks > count; }
};

// Ends the program with a message where there is none.
Gpus find_gpus();

struct Row {
  std::string collective;
  std::size_t bytes;
  std::size_t count;  // as the collective counts
};

std::vector<Row> rows_of(const Options& options);

// The samples of one contestant, of one call each.
struct Times {
  std::string name;
  std::vector<double> us;
  std::vector<double> host_us{};  // of calls that are waited for: until the host had made them
};

struct Outcome {
  std::vector<Times> contestants;  // Sennit, its rival in one mode or in both, and others
  int calls = 0;                   // of a sample
  int sms = 0;
  std::uint64_t wrong = 0;  // elements; where they were checked
  double error = 0;         // by a codec: the root mean square over that of the values, of rank 0
};

// Of a sample's calls, or units of load, together.
struct OverlapTimes {
  std::string name;
  std::vector<double> alone_us{};
  std::vector<double> both_us{};  // until the calls and the load have ended
};

struct OverlapOutcome {
  std::vector<OverlapTimes> contestants;  // Sennit, then its rival
  std::vector<double> load_us;            // alone
  int calls = 0;                          // of a sample
  int units = 0;                          // of load: products, or copies
  int sms = 0;
  std::uint64_t wrong = 0;
};

// Each one line of JSON.
std::string line_of(const Options& options, const Row& row, const OverlapOutcome& outcome);
std::string line_of(const Options& options,
                    const Gpus& gpus,
                    const Row& row,
                    const Outcome& outcome);

}  // namespace sennit_bench
