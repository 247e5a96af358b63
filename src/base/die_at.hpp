// DieAt: for tests of failures, the moment in a call at which a rank kills or stops itself, as
// SENNIT_TEST_DIE_AT names it. Compiled in always, so that what is tested is what runs.
//
// A rank that executes s steps in a call passes 2 s + 1 moments: one as the call begins, and two
// for each step, in the order in which the steps are executed: when the step's data is written and
// none of its flags is published, and when its flags are. They are named by the number of steps
// done, a half being the inside of a step: 0, 0.5, 1, 1.5, ..., s. Sends and receives are no calls
// of all ranks and have no number in their sequence: 0 names them all, and their moments count
// together.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace sennit {

class DieAt {
 public:
  // "rank:sequence:step[:kill|stop]", such as "2:5:3.5:stop".
  static Result<DieAt> parse(std::string_view text);
  // Of SENNIT_TEST_DIE_AT; nothing when it is not set.
  static Result<std::optional<DieAt>> from_environment();

  [[nodiscard]] bool is_in(int rank, std::uint64_t sequence) const {
    return rank == rank_ && sequence == sequence_;
  }
  // At the next moment of the call. Returns only if this is not the one (or after a SIGCONT).
  void pass() {
    if (moments_left_-- == 0) {
      die();
    }
  }

 private:
  void die() const;

  int rank_ = 0;
  std::uint64_t sequence_ = 0;
  std::int64_t moments_left_ = 0;  // until the one
  int signal_ = 0;
};

}  // namespace sennit
