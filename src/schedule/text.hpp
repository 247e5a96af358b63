// The text form of a schedule: what `sennit show` prints, what people diff, and what tests compare.
//
//   schedule all_reduce ring ranks=3 root=0 cut=3      and ` varying` where blocks differ in length
//   scratch stage blocks=3 depth=2 place=host
//   channel c0 0.0 -> 1.0                      lane 0 of rank 0 writes, lane 0 of rank 1 reads
//   channel c1 1.0 -> 2.0, 2.1 single_hop      several readers
//   rank 0
//     lane 0 reduce                            what the lane needs: move or reduce
//       0 send        input[0] -> c0
//       1 recv_reduce input[2] + c2 -> c0
//       2 recv        c2 -> output[1], c0
//       3 send        output[0..2] stage[4] -> c0  after 1.0, 2.3
//
// A step is: its index in the lane, its kind, its operands joined by `+`, `->`, its destinations
// joined by `,`, then whichever of `pre`, `post`, `order 1, 0` and `after lane.step` it has. Blocks
// side by side are one list; `output[0..2]` is output[0] output[1] output[2]. The messages of a
// token are joined by `,` on both sides. `#` begins a comment.
#pragma once

#include "schedule/schedule.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sennit {

// Limits of what is read, so that a short text cannot ask for unbounded memory.
inline constexpr int kMaxTextRanks = 4096;
inline constexpr int kMaxTextBlocks = 1 << 20;  // of a buffer
inline constexpr int kMaxTextDepth = 1 << 10;
// Blocks written as ranges, in the whole text.
inline constexpr int kMaxTextRangeBlocks = 1 << 24;

// `schedule` must pass check_structure.
std::string to_text(const Schedule& schedule);
// One step, as it stands in its line: "recv_reduce input[2] + c2 -> c0".
std::string to_text(const Schedule& schedule, const Step& step);
// Blocks side by side, with ranges.
std::string to_text(const Schedule& schedule, const std::vector<Block>& blocks);

// The inverse: schedule_from_text(to_text(s)) == s. The result passes check_structure. Failures are
// kInvalidArgument and begin with "file_name:line:column: ".
Result<Schedule> schedule_from_text(std::string_view text, std::string_view file_name);

}  // namespace sennit
