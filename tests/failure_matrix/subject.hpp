// What a case of the failure matrix disturbs: one algorithm of the tables, on some ranks, over one
// protocol; how a rank calls it, and what must lie in its output when the call succeeds.
#pragma once

#include "algo/algorithm.hpp"
#include "sennit/sennit.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sennit::tests {

struct Subject {
  const Algorithm* algorithm = nullptr;
  int ranks = 0;
  int root = 0;
  const char* protocol = "slots";
  std::size_t count = 0;     // two tiles of every block
  std::string_view nodes{};  // rank r is on the one that nodes[r] names; empty: all on one

  [[nodiscard]] std::string name() const;  // "all_reduce ring, slots, 4 ranks on nodes aabb"
};

// Every row of every table that `ranks` ranks can run, over both protocols. send_recv: a group, in
// which each rank sends to the next one and receives from the one before.
std::vector<Subject> subjects(int ranks);
// The same on these nodes, whose text outlives the subjects. Only slots cross nodes.
std::vector<Subject> subjects_on(std::string_view nodes);

// One rank's buffers. Every element tells whose it was and where it lay.
class SubjectCall {
 public:
  SubjectCall(const Subject& subject, int rank);

  sennit_status_t run(sennit_comm_t comm, double deadline_s);
  [[nodiscard]] bool is_right() const;

 private:
  sennit_status_t shift(sennit_comm_t comm, const sennit_call_options_t& options);
  [[nodiscard]] int previous() const { return (rank_ + subject_.ranks - 1) % subject_.ranks; }
  [[nodiscard]] std::size_t output_size() const;
  [[nodiscard]] float expected(std::size_t index) const;

  Subject subject_;
  int rank_;
  std::vector<float> input_;
  std::vector<float> output_;
};

}  // namespace sennit::tests
