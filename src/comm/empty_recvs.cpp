#include "comm/empty_recvs.hpp"

namespace sennit {

std::optional<Verdict> EmptyRecvs::find_unexpected(const World& world) {
  for (auto recv = ended_.begin(); recv != ended_.end();) {
    const auto& [peer, number] = *recv;
    if (world.message_log(peer, world.rank()).sent.calls.entered.load(std::memory_order_acquire) <
        number) {
      ++recv;
      continue;
    }
    if (auto verdict = find_different_message(world, peer, world.rank())) {
      return verdict;
    }
    recv = ended_.erase(recv);
  }
  return std::nullopt;
}

}  // namespace sennit
