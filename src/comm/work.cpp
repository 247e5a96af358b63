#include "comm/work.hpp"

namespace sennit {

bool Work::advance() {
  const bool moved = job && !job->finished() && job->advance();
  has_moved = has_moved || moved;
  is_matched = is_matched || moved;
  return moved;
}

// Who has done its part of a collective may be gone.
bool needs(const Work& work, int peer, const World& world) {
  return work.sequence == 0 ? peer == work.operation.peer
                            : world.line(peer).left.load(std::memory_order_acquire) < work.sequence;
}

}  // namespace sennit
