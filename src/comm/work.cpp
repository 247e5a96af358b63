#include "comm/work.hpp"

namespace sennit {

// Who has done its part of a collective may be gone.
bool needs(const Work& work, int peer, const World& world) {
  return work.sequence == 0 ? peer == work.operation.peer
                            : world.line(peer).left.load(std::memory_order_acquire) < work.sequence;
}

}  // namespace sennit
