// Rounds: thread blocks that carry packets go through their tiles in rounds, each of which fills
// one generation of slots. No lane of a block begins a round before all have ended the one before;
// lanes that only copy inside the rank go last in each.
#pragma once

#include <cstdint>
#include <vector>

namespace sennit::sim {

class Rounds {
 public:
  // A block whose lanes are numbered on from `first_lane`; `tiles` of a round, 0: it has none.
  int add(int first_lane, std::int64_t tiles);
  void add_lane(int block) { ++of(block).lanes; }

  [[nodiscard]] int first_lane(int block) const { return of(block).first_lane; }
  [[nodiscard]] int end_lane(int block) const { return of(block).first_lane + of(block).lanes; }
  [[nodiscard]] bool has_rounds(int block) const { return of(block).tiles > 0; }

  // A call begins; its lanes enter afterwards.
  void restart(int block);
  void enter(int block, bool goes_last);
  [[nodiscard]] bool may_run(int block, std::int64_t tile, bool goes_last) const;
  // Whether a lane that goes on with `tile` has left the round.
  [[nodiscard]] bool is_past(int block, std::int64_t tile) const;
  void leave(int block, bool goes_last);

  // Of those in the round: all have left it; only those that go last have not.
  [[nodiscard]] bool is_over(int block) const { return of(block).left == 0; }
  [[nodiscard]] bool is_for_last(int block) const { return of(block).left == of(block).last_left; }
  // The next round; lanes that take part enter afterwards.
  void go_on(int block) { ++of(block).number; }

 private:
  struct Block {
    int first_lane = 0;
    int lanes = 0;
    std::int64_t tiles = 0;
    std::int64_t number = 0;  // of the round in the call
    int left = 0;             // lanes that have not ended it
    int last_left = 0;        // of them, those that go last
  };

  [[nodiscard]] const Block& of(int block) const {
    return blocks_[static_cast<std::size_t>(block)];
  }
  Block& of(int block) { return blocks_[static_cast<std::size_t>(block)]; }

  std::vector<Block> blocks_;
};

}  // namespace sennit::sim
