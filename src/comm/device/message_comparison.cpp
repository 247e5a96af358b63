#include "comm/device/message_comparison.hpp"

#include <algorithm>

namespace sennit {

std::optional<Verdict> MessageComparison::compare(int from, int to, std::uint64_t& compared) const {
  const auto& sent = world_.device_line(from).messages[static_cast<std::size_t>(to)].sent;
  const auto& received = world_.device_line(to).messages[static_cast<std::size_t>(from)].received;
  const std::uint64_t last = std::min(sent.entered.load(std::memory_order_acquire),
                                      received.entered.load(std::memory_order_acquire));
  for (; compared < last; ++compared) {
    const std::uint64_t number = compared + 1;
    CallWords meant;
    CallWords expected;
    // Messages so old that they cannot be read have ended long ago.
    if (sent.read(number, meant) && received.read(number, expected) && meant != expected) {
      return Verdict{.code = Code::kMismatch,
                     .blamed_ranks = {std::min(from, to), std::max(from, to)},
                     .evidence = fmt::format("message {} from {} to {} is {} for its sender and {} "
                                             "for its receiver",
                                             number,
                                             world_.describe(from),
                                             world_.describe(to),
                                             describe(meant),
                                             describe(expected))};
    }
  }
  return std::nullopt;
}

std::optional<Verdict> MessageComparison::find_difference() {
  if (world_.size() > stream::kMaxRanks) {
    return std::nullopt;  // they have no logs
  }
  for (int peer = 0; peer < world_.size(); ++peer) {
    if (peer == world_.rank()) {
      continue;
    }
    Compared& compared = compared_[static_cast<std::size_t>(peer)];
    if (auto verdict = compare(world_.rank(), peer, compared.sent)) {
      return verdict;
    }
    if (auto verdict = compare(peer, world_.rank(), compared.received)) {
      return verdict;
    }
  }
  return std::nullopt;
}

}  // namespace sennit
