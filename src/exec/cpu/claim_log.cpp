#include "exec/cpu/claim_log.hpp"

#include <cstring>

namespace sennit {

ClaimLog::ClaimLog(const BoundProgram& bound, std::int64_t grains, std::uint32_t fingerprint)
    : bound_(bound),
      fingerprint_(fingerprint),
      leader_(sennit::leader(*bound.program().plan)),
      is_leader_(leader_ == bound.program().rank),
      grains_(grains) {
  for (std::size_t i = 0; i < bound.program().log_links.size(); ++i) {
    positions_.push_back(*link(i).position);
  }
}

const BoundProgram::BoundLink& ClaimLog::link(std::size_t index) const {
  return bound_.links()[static_cast<std::size_t>(bound_.program().log_links[index])];
}

bool ClaimLog::append(int strand) {
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    const shm::Ring& ring = link(i).ring;
    if (!channel::may_write(ring.free(positions_[i]), positions_[i], ring.slots())) {
      return false;
    }
  }
  const auto entry = static_cast<std::uint32_t>(strand);
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    const std::uint64_t g = positions_[i]++;
    std::memcpy(link(i).ring.payload(g, sizeof(entry)), &entry, sizeof(entry));
    channel::publish(link(i).ring.full(g), g, fingerprint_);
    wake(*link(i).bell);
  }
  ++known_;
  return true;
}

Result<int> ClaimLog::take() {
  const std::uint64_t g = positions_.front();
  const shm::Ring& ring = link(0).ring;
  if (is_complete() || !channel::is_full(ring.full(g), g, fingerprint_)) {
    return -1;
  }
  std::uint32_t entry = 0;
  std::memcpy(&entry, ring.payload(g, sizeof(entry)), sizeof(entry));
  channel::release_slot(ring.free(g), g);
  wake(*link(0).bell);
  ++positions_.front();
  if (entry >= bound_.program().plan->strands.size()) {
    return fail(Code::kMismatch, "rank {} claims strand {}, which there is not", leader_, entry);
  }
  ++known_;
  return static_cast<int>(entry);
}

void ClaimLog::finish() const {
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    *link(i).position = positions_[i];
  }
}

}  // namespace sennit
