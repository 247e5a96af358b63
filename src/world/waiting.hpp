// Waiting: what a call of this rank waits for, as one rank tells it of itself.
#pragma once

#include <cstdint>

namespace sennit {

struct Waiting {
  int peer = -1;  // -1: nothing that another rank must do
  int lane = 0;
  int step = 0;
  std::int64_t tile = 0;
  bool foreign = false;  // the message is there, but belongs to another call
  bool is_certain =
      false;  // a word that the peer writes in memory of both is missing, and no other
};

}  // namespace sennit
