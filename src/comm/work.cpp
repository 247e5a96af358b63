#include "comm/work.hpp"

namespace sennit {

// Who has done its part of a collective may be gone, unless that part has not come yet.
bool needs(const Work& work, int peer, const World& world) {
  if (work.sequence == 0) {
    return peer == work.operation.peer;
  }
  return world.line(peer).left.load(std::memory_order_acquire) < work.sequence ||
         (work.job && work.job->waiting().peer == peer);
}

}  // namespace sennit
