#include "world/host_rank.hpp"

namespace sennit {

HostRank::HostRank(int rank_number, shm::RingPool pool, Doorbell* all_bells)
    : rank(rank_number),
      rings(pool),
      bells(all_bells),
      peers(static_cast<std::size_t>(pool.geometry().ranks)),
      sent_(peers.size() * static_cast<std::size_t>(pool.geometry().ports), 0),
      received_(sent_),
      credits_(sent_),
      stores_(sent_.size()) {
  take_part_in_barriers();
}

}  // namespace sennit
