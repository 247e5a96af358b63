// ClaimLog: which strand of a claimed plan carries which grain, as far as this rank knows.
//
// The leader appends a strand for grain 0, 1, 2, ... and pushes each entry into a ring to every
// other rank; they take the entries in this order, so all have one log. The rings count on from
// call to call, which is the number by which an entry of one call is distinguished from those of
// another.
#pragma once

#include "base/status.hpp"
#include "exec/cpu/bound_program.hpp"

#include <cstdint>
#include <vector>

namespace sennit {

class ClaimLog {
 public:
  // `bound` outlives the log.
  ClaimLog(const BoundProgram& bound, std::int64_t grains, std::uint32_t fingerprint);

  [[nodiscard]] bool is_leader() const { return is_leader_; }
  [[nodiscard]] int leader() const { return leader_; }
  [[nodiscard]] bool is_complete() const { return known_ == grains_; }
  // How many grains have a strand.
  [[nodiscard]] std::int64_t known() const { return known_; }

  // The leader's: gives the next grain to `strand`; false while some rank has no room for the
  // entry.
  bool append(int strand);
  // The others': the strand of the next entry, -1 while there is none. An entry that names no
  // strand is kMismatch.
  Result<int> take();

  // Writes the positions back when the call has ended.
  void finish() const;

 private:
  [[nodiscard]] const BoundProgram::BoundLink& link(std::size_t index) const;

  const BoundProgram& bound_;
  std::uint32_t fingerprint_;
  int leader_;
  bool is_leader_;
  std::int64_t grains_;
  std::int64_t known_ = 0;
  std::vector<std::uint64_t>
      positions_;  // of the rings to the others, or of the one from the leader
};

}  // namespace sennit
