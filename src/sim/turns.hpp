// Turns: which rank has a device that runs one of its ranks at a time, as a GPU does without CUDA's
// Multi-Process Service. A rank keeps it while a step of it runs.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sennit::sim {

class Turns {
 public:
  // Whether a step of the rank may begin on its device; if not, leave() names the lane.
  bool may_enter(int device, int rank, int lane) {
    Turn& turn = turn_of(device);
    if (turn.running == 0 || turn.rank == rank) {
      return true;
    }
    turn.waiting.push_back(lane);
    return false;
  }
  // Whether the device has to change from another rank, which the first to come finds idle.
  bool enter(int device, int rank) {
    Turn& turn = turn_of(device);
    ++turn.running;
    const int before = std::exchange(turn.rank, rank);
    return before != rank && before >= 0;
  }
  // The lanes whose steps may begin now; the first of them first.
  std::vector<int> leave(int device) {
    Turn& turn = turn_of(device);
    return --turn.running == 0 ? std::exchange(turn.waiting, {}) : std::vector<int>();
  }

 private:
  struct Turn {
    int rank = -1;
    int running = 0;
    std::vector<int> waiting{};
  };
  Turn& turn_of(int device) {
    if (turns_.size() <= static_cast<std::size_t>(device)) {
      turns_.resize(static_cast<std::size_t>(device) + 1);
    }
    return turns_[static_cast<std::size_t>(device)];
  }

  std::vector<Turn> turns_;  // by device
};

}  // namespace sennit::sim
