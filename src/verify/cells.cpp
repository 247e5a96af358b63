#include "cells.hpp"

namespace sennit {

Cells::Cells(const Schedule& schedule, bool in_place) : schedule_(&schedule) {
  int scratch_blocks = 0;
  for (const Scratch& scratch : schedule.scratch) {
    scratch_offset_.push_back(scratch_blocks);
    scratch_blocks += scratch.blocks;
  }
  const Problem& problem = schedule.problem;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    RankCells cells;
    cells.first_input = count_;
    count_ += problem.input_blocks(rank);
    for (int i = 0; i < problem.output_blocks(rank); ++i) {
      const auto input = in_place ? problem.aliased_input(rank, i) : std::nullopt;
      cells.outputs.push_back(input ? cells.first_input + *input : count_++);
    }
    cells.first_scratch = count_;
    count_ += scratch_blocks;
    ranks_.push_back(std::move(cells));
  }
}

int Cells::of(int rank, const Block& block) const {
  const RankCells& cells = ranks_[static_cast<std::size_t>(rank)];
  switch (block.space) {
    case Space::kInput:
      return cells.first_input + block.index;
    case Space::kOutput:
      return cells.outputs[static_cast<std::size_t>(block.index)];
    case Space::kScratch:
      return cells.first_scratch + scratch_offset_[static_cast<std::size_t>(block.scratch)] +
             block.index;
  }
  return -1;
}

std::string Cells::describe(int cell) const {
  // Only failures come here, so looking through all blocks is fast enough.
  for (int rank = 0; rank < schedule_->problem.ranks; ++rank) {
    const auto matches = [&](const Block& block) { return of(rank, block) == cell; };
    const auto words = [&](const Block& block) {
      return fmt::format("{} of rank {}", sennit::describe(*schedule_, block), rank);
    };
    for (int i = 0; i < schedule_->problem.output_blocks(rank); ++i) {
      if (matches(output_block(i))) {
        return words(output_block(i));
      }
    }
    for (int i = 0; i < schedule_->problem.input_blocks(rank); ++i) {
      if (matches(input_block(i))) {
        return words(input_block(i));
      }
    }
    for (std::size_t s = 0; s < schedule_->scratch.size(); ++s) {
      for (int i = 0; i < schedule_->scratch[s].blocks; ++i) {
        if (matches(scratch_block(static_cast<int>(s), i))) {
          return words(scratch_block(static_cast<int>(s), i));
        }
      }
    }
  }
  return "an unknown cell";
}

std::string describe(const Schedule& schedule, const Block& block) {
  if (block.space == Space::kScratch) {
    return fmt::format("scratch {}[{}]",
                       schedule.scratch[static_cast<std::size_t>(block.scratch)].name,
                       block.index);
  }
  return fmt::format("{}[{}]", name(block.space), block.index);
}

}  // namespace sennit
