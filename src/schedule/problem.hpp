// Problem: which blocks a collective has on each rank, and which of them are the same memory in
// place. This is the whole of what schedules, their proof and their execution assume about a
// collective.
//
//   collective      input blocks            output blocks           in place: output i is
//   all_reduce      cut                     cut                     input i
//   reduce          cut                     cut at the root         input i (root)
//   broadcast       cut at the root         cut                     input i (root)
//   all_gather      1                       n, one a source         input 0, for i = own rank
//   reduce_scatter  n, one a destination    1                       input (own rank)
//   all_to_all      n, one a destination    n, one a source         input i
//   gather          1                       n at the root           input 0, for i = root
//   scatter         n at the root           1                       input (root), at the root
//   barrier         0                       0
//   send_recv       1 at rank 0             1 at rank 1             never (two roles: 0 sends)
//
// `cut` is chosen by the schedule: 1 for algorithms that move the vector whole; n, or n - 1 besides
// the root, for those that work on slices. Block lengths follow from count and cut (block_range).
//
// Where the lengths vary (all_gather_v, all_to_all_v, gather_v, scatter_v), a rank knows those of
// its own blocks from the call. The blocks that hold one contribution have one length on all ranks.
#pragma once

#include "types/types.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sennit {

// What an algorithm is asked for. Everything else about a call (count, dtype, buffers) is unknown
// to a schedule.
struct Shape {
  int ranks = 1;
  int root = 0;
  int radix = 0;                           // 0: the algorithm's own choice
  std::vector<std::vector<int>> groups{};  // ranks by group, for hierarchical algorithms
  bool varying = false;                    // blocks differ in length: the v-form of the collective

  bool operator==(const Shape&) const = default;
};

struct Problem {
  Collective collective = Collective::kBarrier;
  int ranks = 1;
  int root = 0;
  int cut = 1;           // blocks of a cut collective; ignored by the others
  bool varying = false;  // blocks differ in length

  [[nodiscard]] int input_blocks(int rank) const;
  [[nodiscard]] int output_blocks(int rank) const;

  // Whether blocks may differ in length: the last ones of a cut vector are short or empty.
  [[nodiscard]] bool blocks_differ() const { return varying || (is_cut(collective) && cut > 1); }

  // The input block whose memory is also output block `output_index` when `rank` works in place.
  // None in all_to_all where lengths vary: the two may differ in length.
  [[nodiscard]] std::optional<int> aliased_input(int rank, int output_index) const;

  // What output block `output_index` of `rank` must hold in the end: the block `index` of the
  // inputs of `ranks`, reduced (all of them for reductions, one otherwise).
  struct Contributions {
    std::vector<int> ranks;
    int index = 0;
  };
  [[nodiscard]] Contributions expected(int rank, int output_index) const;

  bool operator==(const Problem&) const = default;
};

// Elements [begin, begin + length) of the user's buffer.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// The collectives that have a v-form: all that move the parts of ranks as they are.
bool has_varying_form(Collective collective);

// The elements of block `index`, where lengths do not vary, for a call on `count` elements of
// `element_bytes`. `count` is the whole vector for cut collectives and one rank's part otherwise.
// Blocks of a cut vector are ceil(count / cut) elements rounded up to 128 bytes; the last one is
// short, those after it empty.
ElementRange block_range(const Problem& problem,
                         std::int64_t count,
                         std::int64_t element_bytes,
                         int index);

}  // namespace sennit
