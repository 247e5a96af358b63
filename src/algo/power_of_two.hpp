// PowerOfTwo: how an algorithm for a power of two runs any number of ranks. The largest power of
// two of the ranks take part, each under a virtual number. Of the first 2 * extra() ranks only the
// even ones do, each for itself and for the odd rank after it, which hands its part over before the
// rounds and gets its result after them.
//
// The closed forms below count from ranks and bits alone and do not use PowerOfTwo, because the
// verifier compares schedules that were built from it with them.
#pragma once

#include <cstdint>
#include <vector>

namespace sennit::algo {

class PowerOfTwo {
 public:
  explicit PowerOfTwo(int ranks);

  // Virtual numbers run from 0 to size() - 1; those below extra() stand for two ranks.
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int extra() const { return extra_; }

  // The rank that takes part as `v`, and the one that it stands in for (if v < extra()).
  [[nodiscard]] int rank(int v) const { return v < extra_ ? 2 * v : v + extra_; }
  [[nodiscard]] int absent(int v) const { return 2 * v + 1; }

  // The ranks that the virtual numbers [first, first + count) stand for.
  [[nodiscard]] std::vector<int> ranks_of(int first, int count) const;

 private:
  int size_;
  int extra_;
};

// How two ranks meet in an algorithm whose virtual numbers talk at distances 1, 2, 4, ...
struct PairLink {
  enum class Kind : std::uint8_t { kNone, kHandOver, kHandBack, kExchange };

  Kind kind = Kind::kNone;
  int distance = 0;  // of an exchange
  int to = 0;        // the virtual number of the receiver
};
PairLink pair_link(int ranks, int from, int to);

// How many ranks the aligned block of `distance` virtual numbers around `v` stands for.
std::int64_t ranks_around(int ranks, int v, int distance);

// Messages in the longest chain when every virtual number exchanges once at each distance.
std::int64_t rounds_of_pairs(int ranks);

}  // namespace sennit::algo
