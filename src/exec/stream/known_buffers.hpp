// KnownBuffers: what a rank knows of the buffers of others before their hosts have made the call:
// the outputs of collectives in memory that all have registered (memory/symmetric_memory.hpp), and
// the staging memory of reductions. Ranks learn it together, when they meet, and so know the same.
// docs/decisions/0065-symmetric-memory.md says why.
#pragma once

#include "exec/stream/plan_program.hpp"
#include "exec/stream/stream_call.hpp"
#include "memory/symmetric_memory.hpp"
#include "world/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sennit::stream {

class KnownBuffers {
 public:
  KnownBuffers(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  struct Call {
    const sennit::Operation& operation;
    const PlanProgram& program;
    // The programs of all ranks are of one straight strand without rings and reach into the same
    // kinds of buffers, but into no inputs; and in place is no matter of one rank.
    bool is_uniform = false;
    std::int64_t staging_bytes = 0;  // that it takes, if it is uniform
  };

  [[nodiscard]] SymmetricMemory& memory() { return memory_; }

  // Where the output lies in registered memory, if ranks that know it have nothing else to meet
  // for; window 0: nowhere.
  [[nodiscard]] WindowPlace place_of(const Call& call) const;
  // The same if all that the call needs is known.
  [[nodiscard]] WindowPlace known_place(const Call& call) const;
  // The buffers of all ranks for a call at a known place.
  [[nodiscard]] std::vector<Buffers> buffers_at(const WindowPlace& place) const;

  // The ranks have met. `are_at_one_place`: their outputs lie at place_of() on all.
  void learn(const Call& call, const std::vector<Buffers>& buffers, bool are_at_one_place);
  // They have met in vain, and of some rank the staging memory may lie elsewhere now.
  void forget_staging() { known_staging_bytes_ = 0; }

 private:
  int rank_;
  int ranks_;
  SymmetricMemory memory_;
  std::vector<std::byte*> staging_of_ranks_;
  std::int64_t known_staging_bytes_ = 0;  // for calls that take up to so many
};

}  // namespace sennit::stream
