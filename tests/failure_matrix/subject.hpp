// What a case of the failure matrix disturbs: one algorithm of the tables, on some ranks, over one
// protocol; how a rank calls it, and what must lie in its output when the call succeeds.
#pragma once

#include "algo/algorithm.hpp"
#include "sennit/sennit.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sennit::tests {

struct Subject {
  const Algorithm* algorithm = nullptr;
  int ranks = 0;
  int root = 0;
  const char* protocol = "slots";
  std::size_t count = 0;  // two tiles of every block

  [[nodiscard]] std::string name() const;  // "all_reduce ring, slots, 4 ranks"
};

// Every row of every table of collectives that `ranks` ranks can run, over both protocols. Not
// send_recv: a send is no call of all ranks.
std::vector<Subject> subjects(int ranks);

// One rank's buffers. Every element tells whose it was and where it lay.
class SubjectCall {
 public:
  SubjectCall(const Subject& subject, int rank);

  sennit_status_t run(sennit_comm_t comm, double deadline_s);
  [[nodiscard]] bool is_right() const;

 private:
  [[nodiscard]] std::size_t output_size() const;
  [[nodiscard]] float expected(std::size_t index) const;

  Subject subject_;
  int rank_;
  std::vector<float> input_;
  std::vector<float> output_;
};

}  // namespace sennit::tests
