// Retries: when to try again what has failed and may work some day, as pinning memory does when
// others have unpinned theirs. An attempt takes milliseconds, so there are fewer and fewer.
#pragma once

#include <cstdint>

namespace sennit {

class Retries {
 public:
  // It is wanted once more: whether to try. The first time it is, then after 16 times in between,
  // then after 32.
  bool is_due() {
    if (wanted_++ < next_) {
      return false;
    }
    next_ = wanted_ + pause_;
    pause_ *= 2;
    return true;
  }

 private:
  std::uint64_t wanted_ = 0;  // times so far
  std::uint64_t next_ = 0;    // attempt
  std::uint64_t pause_ = 16;
};

}  // namespace sennit
