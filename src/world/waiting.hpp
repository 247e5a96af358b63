// Waiting: what a call of this rank waits for, as a rank reports it of itself.
#pragma once

#include <cstdint>

namespace sennit {

struct Waiting {
  int peer = -1;  // -1: nothing that another rank must do
  int lane = 0;
  int step = 0;
  std::int64_t tile = 0;
  bool foreign = false;     // the message is there, but belongs to another call
  bool is_certain = false;  // what is missing is a word that the peer stores in shared memory
};

}  // namespace sennit
