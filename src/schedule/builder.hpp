// Builder: how an algorithm writes a schedule.
//
//   Schedule chain(const Shape& shape) {
//     Builder b("chain", {Collective::kBroadcast, shape.ranks, shape.root, /*cut=*/1});
//     const auto lane = b.lane_on_every_rank(Need::kMove);
//     for (int hop = 0; hop + 1 < shape.ranks; ++hop) {
//       const int from = (shape.root + hop) % shape.ranks;
//       const int to = (from + 1) % shape.ranks;
//       const int channel = b.channel(lane[from], lane[to]);
//       b.send(lane[from], {hop == 0 ? input_block(0) : output_block(0)}, channel);
//       b.recv(lane[to], channel, {output_block(0)});
//     }
//     ...
//   }
//
// Steps are appended to their lane in the order of the calls. Nothing is checked here beyond
// indices, which throw std::out_of_range: make_schedule() reports both kinds of mistakes of an
// algorithm to its author.
#pragma once

#include "schedule/schedule.hpp"

#include <initializer_list>
#include <string>
#include <vector>

namespace sennit {

using Blocks = std::vector<Block>;

// input_block(0) ... input_block(count - 1), and the like.
Blocks input_blocks(int count);
Blocks output_blocks(int count);

class Builder {
 public:
  Builder(std::string algorithm, const Problem& problem);

  [[nodiscard]] const Problem& problem() const { return schedule_.problem; }

  LaneId lane(int rank, Need need);
  std::vector<LaneId> lane_on_every_rank(Need need);

  // Returns the index of the scratch for scratch_block().
  int scratch(std::string name, int blocks, int depth, Place place = Place::kDevice);

  int channel(LaneId writer, LaneId reader);
  int hub(LaneId writer, std::vector<LaneId> readers);
  // A pair whose every block goes straight from its owner to its final place.
  int single_hop_channel(LaneId writer, LaneId reader);

  // Each returns where the step stands, for `after`.
  StepRef send(LaneId lane, Blocks from, int channel);
  StepRef recv(LaneId lane, int channel, Blocks to);
  StepRef recv_reduce(LaneId lane, int channel, Blocks from, Blocks to);
  StepRef copy(LaneId lane, Blocks from, Blocks to);
  StepRef token(LaneId lane, std::vector<int> in, std::vector<int> out);
  // Any step, written out (n-ary reductions, several channels, operand order).
  StepRef step(LaneId lane, Step step);

  // The step just added to `lane` also waits for `steps` of the same rank and tile.
  void after(LaneId lane, std::initializer_list<StepRef> steps);

  // Ends the building. The schedule may break check_structure.
  [[nodiscard]] Schedule finish() &&;

 private:
  Schedule schedule_;
};

}  // namespace sennit
